"""The deployment files: valid commands, containers without privileges, and units that systemd accepts."""

import re
import shlex
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path

import pytest
import yaml

from .test_documents import check_arguments

DEPLOY = Path(__file__).parents[1] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
OWN = {name: service for name, service in SERVICES.items() if service["image"] == "fedbnsl"}


def unit_command(path):
    """The words of a unit's ExecStart."""
    parser = RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(path, "utf-8")
    return shlex.split(parser["Service"]["ExecStart"])


@pytest.mark.parametrize("name", [name for name, service in OWN.items() if service["command"][0] == "fedbnsl"])
def test_the_program_takes_the_command_of_every_service(name):
    check_arguments(OWN[name]["command"])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_the_program_takes_the_command_of_every_unit(path):
    program, *words = unit_command(path)
    assert program == "/opt/fedbnsl/bin/fedbnsl"
    check_arguments(["fedbnsl", *words])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_accepts_every_unit(tmp_path):
    for path in UNITS:
        text = path.read_text("utf-8").replace("/opt/fedbnsl/bin/fedbnsl", str(Path(sys.executable).parent / "fedbnsl"))
        (tmp_path / path.name).write_text(text, "utf-8")
    verify = ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=60, check=False)
    own = [line for line in (done.stdout + done.stderr).splitlines() if "fedbnsl" in line]
    assert own == []


def test_no_service_is_privileged_or_open_to_the_network():
    for name, service in OWN.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    assert all("no-new-privileges:true" in service["security_opt"] for service in SERVICES.values())
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_services_wait_for_services_that_exist_and_report_their_health():
    for name, service in SERVICES.items():
        waits = service.get("depends_on", {})
        assert set(waits) <= set(SERVICES), name
        for other in waits if isinstance(waits, dict) else ():
            assert "healthcheck" in SERVICES[other] or int(SERVICES[other]["environment"]["HEALTH_PORT"]) > 0, other


def test_secrets_and_rows_are_mounted_and_not_built_in():
    ignored = (DEPLOY.parent / ".dockerignore").read_text("utf-8").split()
    mounted = {
        volume.split("/")[1] for service in OWN.values() for volume in service.get("volumes", ()) if "./" in volume
    }
    assert mounted == {"study", "rows"}
    assert {f"deploy/{name}" for name in (*mounted, ".env")} <= set(ignored)
    passwords = re.findall(r"PASSWORD\S*: (\S+)", (DEPLOY / "compose.yaml").read_text("utf-8"))
    assert passwords
    assert all(one.startswith("${") for one in passwords)


def test_the_image_has_a_pinned_base_an_ordinary_user_and_a_health_check():
    lines = (DEPLOY / "Containerfile").read_text("utf-8").splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert bases
    assert all(re.fullmatch(r"python:3\.\d+-slim-\w+", base) for base in bases)
    assert [line for line in lines if line.startswith("USER ")] == ["USER fedbnsl"]
    assert any(line.startswith("HEALTHCHECK ") for line in lines)
    assert "--require-hashes" in "".join(lines)
