"""A run over NVFlare: its simulator, and its proof-of-concept mode, whose server and clients use mutual TLS."""

import json
import os
import subprocess
import threading
import time

import pytest

from fedbnsl.flows.servers.federation_demo import SILOS
from fedbnsl.flows.servers.processes import free_port
from fedbnsl.tasks.platforms.launch import NVFLARE_CLASSES

from .processes import PLATFORMS, Processes, start_silo
from .study import BRIEF, assert_as_inline, edges, federation, learn, metrics, set_policy, write_study

pytestmark = [pytest.mark.platforms, pytest.mark.slow(400)]

WORDS = ("-a", "secure-linear", "--secure", "--seed", 3, *BRIEF)
"""a run with masked sums"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("nvflare") / "study")


@pytest.fixture(scope="module")
def processes(study):
    """The owners' silos."""
    home = study.with_name("home")
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
        "PATH": f"{PLATFORMS / 'nvflare' / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "FEDBNSL_HOME": str(home),
        "FEDBNSL_SILO": f"{study}/{{client}}.sock",
    }
    running = Processes(study.with_name("processes"), environment)
    try:
        for silo in SILOS:
            start_silo(running, study, silo)
        yield running
    finally:
        running.close()


def over_nvflare(study, target, *words):
    """The words of a run over NVFlare, with this target in federation.toml."""
    file = federation(study)
    before, _, _ = file.read_text().partition("[platforms]")
    file.write_text(f'{before}[platforms]\nnvflare = "{target}"\n')
    return ("--federation", file, "--platform", "nvflare", *words)


def test_the_simulator_gives_what_inline_gives_bit_for_bit(study, processes, tmp_path):
    code, err = learn(processes.environment, *over_nvflare(study, "simulator", *WORDS), "--out", tmp_path / "found")
    assert code == 0, err
    assert_as_inline(study, processes.environment, tmp_path / "found", *WORDS)


@pytest.fixture(scope="module")
def kits(study, processes):
    """The folder of the startup kits of a running proof of concept."""
    poc = processes.folder / "poc"

    def nvflare(*words):
        subprocess.run(["nvflare", *words], env=processes.environment, check=True, capture_output=True)

    nvflare("config", "-pw", poc)
    nvflare("poc", "prepare", "-c", *SILOS, "--force")
    project = study.with_name("project.yml")
    project.write_text((poc / "project.yml").read_text().replace("8002", str(free_port(0))))
    nvflare("poc", "prepare", "-i", project, "--force")
    kits = poc / "example_project" / "prod_00"
    for site in ("server", *SILOS):
        local = kits / site / "local"
        own, default = local / "resources.json", local / "resources.json.default"
        resources = json.loads((own if own.exists() else default).read_text())
        allowed = {"class_allow_list": [*resources.get("class_allow_list", []), *NVFLARE_CLASSES]}
        own.write_text(json.dumps(resources | allowed))
        processes.start(site, "bash", kits / site / "startup" / "sub_start.sh")
        if site == "server":
            processes.wait_for("server", "Server started")
    for silo in SILOS:
        processes.wait_for(silo, "Successfully registered client")
    return kits


def test_clients_of_other_machines_give_what_inline_gives_and_a_silo_that_dies_can_be_resumed(
    study, processes, kits, tmp_path
):
    """The silo of lab is killed in the middle of the rounds, and comes back after the run has given it up."""
    set_policy(study, 'level = "trusted"')
    words, out = ("-a", "fed-sparse", "-p", "rounds=12", "--seed", 3, *BRIEF), tmp_path / "found"

    def kill_the_silo():
        while not (out / "checkpoint.bin").exists():
            time.sleep(0.05)
        processes.kill("silo-lab")

    killing = threading.Thread(target=kill_the_silo)
    killing.start()
    over = over_nvflare(study, kits / "admin@nvidia.com", *words)
    code, err = learn(processes.environment, *over, "--silo-patience", 5, "--out", out)
    killing.join()
    assert code == 3, err
    assert f"lab did not respond and the run stopped; to continue: fedbnsl learn --resume {out}" in err

    start_silo(processes, study, "lab")
    code, err = learn(processes.environment, "--resume", out, "--quiet")
    assert code == 0, err
    alone = tmp_path / "alone"
    assert learn(processes.environment, study / "all", "--engine", "inline", *words, "--out", alone)[0] == 0
    assert edges(out) == edges(alone)
    assert metrics(out) == metrics(alone)
