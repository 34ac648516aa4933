"""The page for owners: every command on it runs, in the order of the page, in a federation over TLS."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.learn import learn_without_prefect
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.transport.configuration import read_silo_file
from fedbnsl.tasks.transport.hosted_silo import HostedSilo
from tests.tasks.transport.relay_peers import eventually, hub

PAGE = Path(__file__).parents[2] / "docs" / "owners.md"
COMMANDS = re.findall(r"^fedbnsl .+$", PAGE.read_text("utf-8"), re.MULTILINE)
SILOS = ("clinic", "lab", "ward")
MAX_LINES = 70
"""lines of one screen"""


def test_the_page_fits_on_a_screen():
    assert len(PAGE.read_text("utf-8").splitlines()) <= MAX_LINES


@pytest.fixture
def study(tmp_path):
    """The files of a federation, with rows."""
    init_federation(tmp_path / "study", SILOS, "127.0.0.1:1")
    for number, silo in enumerate(SILOS):
        rows = np.random.default_rng(number).normal(size=(120, 3))
        np.savetxt(tmp_path / "study" / silo / "rows.csv", rows, delimiter=",", header="a,b,c", comments="")
    return tmp_path / "study"


def called(words, capsys):
    """What a command prints; it must succeed."""
    with pytest.raises(SystemExit) as left:
        main(words)
    printed = capsys.readouterr()
    assert printed.err == ""
    assert left.value.code == 0
    return printed.out


def test_every_command_of_the_page_runs(study, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    said = {}
    with hub(study, SILOS) as relay, ExitStack() as stack:
        for path in study.rglob("*.toml"):
            path.write_text(path.read_text().replace("127.0.0.1:1", str(relay.where)))
        file = study / "coordinator" / "federation.toml"

        def learn():
            """Have the other owners join, and learn from all."""
            eventually(lambda: any("silo clinic has joined" in line for line in relay.log), 60)
            for silo in SILOS[1:]:
                shutil.copy(study / "clinic" / "about.json", study / silo / "about.json")
                own = read_silo_file(study / silo / "silo.toml")
                readers = own.readers(print)
                hosted = HostedSilo(own, readers, print)
                stack.callback(readers.close)
                stack.callback(hosted.close)
                relay.silo(silo, hosted.answer)
            shutil.copy(study / "clinic" / "about.json", file.parent / "about.json")
            settings = LearnSettings(
                data=str(file.parent),
                federation=str(file),
                algorithm="secure-sum",
                secure=True,
                out=str(tmp_path / "out"),
            )
            assert learn_without_prefect(settings.named(), RunContext()).result.outcome == "converged"

        for command in COMMANDS:
            program, *words = shlex.split(command)
            assert program == "fedbnsl"
            monkeypatch.chdir(tmp_path if "renew" in words else study / "clinic")
            capsys.readouterr()
            if words[:2] == ["silo", "start"]:
                log = stack.enter_context((tmp_path / "log").open("w"))
                process = subprocess.Popen([sys.executable, "-m", "fedbnsl.flows.cli.main", *words], stdout=log)
                stack.callback(process.kill)
                learn()
                process.send_signal(signal.SIGINT)
                assert process.wait(30) == 0
            else:
                said[command] = called(words, capsys)
    assert (study / "clinic" / "about.json").exists()
    assert "accepts this silo" in said["fedbnsl silo check"]
    assert "valid until" in said["fedbnsl silo check"]
    assert "a sum over 3 silos" in said["fedbnsl silo sent rows.csv"]
    assert "study/clinic/clinic.pem: for the owner of clinic" in said["fedbnsl federation renew study --members clinic"]
    assert "forgotten" in said["fedbnsl silo forget rows.csv"]
    assert len(said) == len(COMMANDS) - 1
