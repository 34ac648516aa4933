"""vantage6: the algorithm as its image runs it, and a run over the platform's own mock of its server and nodes."""

import json
import os
import subprocess
from base64 import b64decode, b64encode

import pytest

from fedbnsl.flows.servers.federation_demo import SILOS
from fedbnsl.tasks.platforms.door import AWAY, NAME

from .processes import PLATFORMS, ROOT, Processes, door, start_silo
from .study import BRIEF, assert_as_inline, federation, learn, write_study

pytestmark = [pytest.mark.platforms, pytest.mark.slow(200)]

PYTHON = PLATFORMS / "vantage6" / "bin" / "python"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("vantage6") / "study")


@pytest.fixture(scope="module")
def processes(study):
    """The owners' silos."""
    environment = os.environ | {"FEDBNSL_HOME": str(study.with_name("home")), "FEDBNSL_STUDY": str(study)}
    running = Processes(study.with_name("processes"), environment)
    try:
        for silo in SILOS:
            start_silo(running, study, silo)
        yield running
    finally:
        running.close()


def command_of_the_image():
    """The command and the environment that deploy/vantage6.Containerfile declares."""
    lines = (ROOT / "deploy" / "vantage6.Containerfile").read_text().splitlines()
    (command,) = (json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD "))
    (variable,) = (line.removeprefix("ENV ").split("=") for line in lines if line.startswith("ENV "))
    return command, dict([variable])


@pytest.mark.parametrize(("where", "begin"), [("clinic", NAME + b"clinic"), ("nobody", AWAY)])
def test_the_command_of_the_image_hands_a_call_to_the_silo(study, processes, tmp_path, where, begin):
    """As a node starts it: with a file for the input, a file for the output, and the owner's variables."""
    command, variables = command_of_the_image()
    call = {"method": "answer", "kwargs": {"call": b64encode(b"").decode()}}
    (tmp_path / "input").write_text(json.dumps(call))
    files = {"INPUT_FILE": str(tmp_path / "input"), "OUTPUT_FILE": str(tmp_path / "output"), "TOKEN_FILE": ""}
    environment = os.environ | variables | files | {"FEDBNSL_SILO": str(door(study, where))}
    subprocess.run([PYTHON, *command[1:]], env=environment, check=True, capture_output=True)
    assert b64decode(json.loads((tmp_path / "output").read_text())).startswith(begin)


def test_the_mock_client_gives_what_inline_gives_bit_for_bit(study, processes, tmp_path):
    connection = federation(study).with_name("vantage6.toml")
    bridge = tmp_path / "python"
    bridge.write_text(f"#!/bin/sh\nshift 2\nexec {PYTHON} {ROOT / 'tests' / 'platforms' / 'vantage6_mock.py'} $*\n")
    bridge.chmod(0o755)
    connection.write_text(
        f'python = "{bridge}"\nhost = "https://localhost"\nport = 443\nusername = "me"\ncollaboration = 1\n'
        'image = "registry.example.org/fedbnsl"\n'
    )
    with federation(study).open("a") as file:
        file.write('\n[platforms]\nvantage6 = "vantage6.toml"\n')
    words = ("-a", "secure-linear", "--secure", "--seed", 3, *BRIEF)
    over = ("--federation", federation(study), "--platform", "vantage6")
    code, err = learn(processes.environment, *over, *words, "--out", tmp_path / "found")
    assert code == 0, err
    assert_as_inline(study, processes.environment, tmp_path / "found", *words)
