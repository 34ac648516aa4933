"""vantage6: the algorithm as its image runs it, and a run over the platform's own mock of its server and nodes."""

import json
import os
import subprocess
from base64 import b64decode, b64encode

import pytest

from fedbnsl.tasks.platforms.door import AWAY, NAME

from .processes import ROOT, door, silos_of
from .study import MASKED, assert_as_reference, learn, over, write_study
from .vantage6_processes import PYTHON, write_mock_connection

pytestmark = [pytest.mark.platforms, pytest.mark.slow(200)]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("vantage6") / "study")


@pytest.fixture(scope="module")
def processes(study):
    with silos_of(study, FEDBNSL_STUDY=str(study)) as running:
        yield running


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


def test_the_mock_client_gives_what_inline_gives_bit_for_bit(study, processes, reference, tmp_path):
    write_mock_connection(study)
    words = over(study, "vantage6", "vantage6.toml")
    code, err = learn(processes.environment, *words, *MASKED, "--out", tmp_path / "found")
    assert code == 0, err
    assert_as_reference(tmp_path / "found", reference)
