"""The deployment files: valid commands, containers without privileges, and units that systemd accepts."""

import importlib.util
import os
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
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
SERVICES = COMPOSE["services"]
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


def test_no_service_is_privileged_unlimited_or_open_to_the_network():
    for name, service in SERVICES.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"] is True, name
        assert re.fullmatch(r"\d+[gm]", service["mem_limit"]), name
        assert 0 < service["pids_limit"] <= 1024, name
        assert not {"privileged", "cap_add", "network_mode", "pid", "ipc", "devices"} & {*service}, name
    assert SERVICES["postgres"]["user"] == "postgres"  # the image of the project has a user of its own
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)


FEDERATION = {"coordinator", "clinic", "lab", "ward", "nightly"}
REACHES = {
    **{name: FEDERATION - {name} for name in FEDERATION},
    "nightly": FEDERATION - {"nightly"} | {"prefect", "mlflow"},
    "prefect": {"postgres", "nightly"},
    "mlflow": {"postgres", "nightly"},
    "postgres": {"prefect", "mlflow"},
}
"""for each service, the services with which it shares a network"""


def test_each_service_reaches_only_what_it_needs():
    networks = COMPOSE["networks"]
    for name, service in SERVICES.items():
        assert set(service["networks"]) <= set(networks), name
        near = {one for one, other in SERVICES.items() if set(other["networks"]) & set(service["networks"])} - {name}
        assert near == REACHES[name], name
    assert all(networks[one] == {"internal": True} for one in SERVICES["postgres"]["networks"])


def test_each_server_has_a_database_and_a_role_of_its_own():
    """The SQL was run on PostgreSQL 15: neither role connects to another database, or reads files."""
    sql = (DEPLOY / "databases.sql").read_text("utf-8")
    for name in ("prefect", "mlflow"):
        secret = f"{name.upper()}_DATABASE_PASSWORD"
        assert f"\\getenv {name}_password {secret}\n" in sql
        assert f"CREATE ROLE {name} LOGIN PASSWORD :'{name}_password';\nCREATE" in sql
        assert f"CREATE DATABASE {name} OWNER {name};" in sql
        urls = [value for value in SERVICES[name]["environment"].values() if "@postgres" in str(value)]
        assert [re.sub(r"^\S+://", "", url) for url in urls] == [f"{name}:${{{secret}}}@postgres/{name}"]
        # Only this server and PostgreSQL itself know the password.
        knowing = {one for one, service in SERVICES.items() if secret in str(service)}
        assert knowing == {name, "postgres"}
    assert "REVOKE CONNECT, TEMPORARY ON DATABASE prefect, mlflow, postgres, template1 FROM PUBLIC;" in sql
    assert {one for one, service in SERVICES.items() if "POSTGRES_PASSWORD" in str(service)} == {"postgres"}


def test_no_secret_is_an_argument():
    for name, service in SERVICES.items():
        assert "$" not in shlex.join(service.get("command", [])), name
    for path in UNITS:
        assert not re.search("password|token|secret|://", shlex.join(unit_command(path)), re.IGNORECASE), path


def test_both_servers_require_a_credential_that_their_client_has():
    nightly = SERVICES["nightly"]["environment"]
    prefect, mlflow = (SERVICES[name]["environment"] for name in ("prefect", "mlflow"))
    assert prefect["PREFECT_SERVER_API_AUTH_STRING"].startswith("fedbnsl:${PREFECT_PASSWORD")
    assert nightly["PREFECT_API_AUTH_STRING"] == "fedbnsl:${PREFECT_PASSWORD}"
    assert {"--app-name=fedbnsl"} < {*SERVICES["mlflow"]["command"]}  # the application that requires it
    assert mlflow["MLFLOW_TRACKING_USERNAME"] == nightly["MLFLOW_TRACKING_USERNAME"]
    assert mlflow["MLFLOW_TRACKING_PASSWORD"].startswith("${MLFLOW_PASSWORD:?")
    assert nightly["MLFLOW_TRACKING_PASSWORD"] == "${MLFLOW_PASSWORD}"
    for silo in ("coordinator", "clinic", "lab", "ward"):
        assert "PASSWORD" not in str(SERVICES[silo]["environment"]), silo


def test_a_part_with_a_root_that_is_read_only_has_the_folders_that_it_writes_to():
    """The Containerfile names them: numba's compiled code, and the folder of databases and results."""
    lines = (DEPLOY / "Containerfile").read_text("utf-8")
    cache = re.search(r"NUMBA_CACHE_DIR=(\S+)/numba", lines)[1]
    home = re.search(r"FEDBNSL_HOME=(\S+)", lines)[1]
    assert f"PREFECT_HOME={home}/prefect" in lines
    for name, service in OWN.items():
        volumes = {volume.split(":")[1] if ":" in volume else volume for volume in service["volumes"]}
        assert cache in volumes, name
        assert home in volumes | {*service["tmpfs"]}, name
        assert "/tmp" in service["tmpfs"], name


HARDENED = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectProc": "invisible",
    "ReadWritePaths": "/var/lib/fedbnsl",
    "CapabilityBoundingSet": "",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "SystemCallFilter": "@system-service",
    "UMask": "0077",
}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_every_unit_is_confined_and_limited(path):
    parser = RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(path, "utf-8")
    service = parser["Service"]
    assert {name: service.get(name) for name in HARDENED} == HARDENED
    assert re.fullmatch(r"\d+G", service["MemoryMax"])
    assert 0 < int(service["TasksMax"]) <= 1024
    assert service["User"] == "fedbnsl"


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
    passwords = [
        str(value)
        for service in SERVICES.values()
        for name, value in service.get("environment", {}).items()
        if re.search("PASSWORD|AUTH|CONNECTION_URL|STORE_URI", name)
    ]
    assert len(passwords) >= 8
    assert all(re.fullmatch(r"([^$]*[:/])?\$\{[A-Z_]*PASSWORD(:\?[^}]*)?\}(@postgres/\w+)?", one) for one in passwords)


def test_the_image_has_a_pinned_base_an_ordinary_user_and_a_health_check():
    lines = (DEPLOY / "Containerfile").read_text("utf-8").splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert bases
    assert all(re.fullmatch(r"python:3\.\d+-slim-\w+", base) for base in bases)
    assert [line for line in lines if line.startswith("USER ")] == ["USER fedbnsl"]
    assert any(line.startswith("HEALTHCHECK ") for line in lines)
    assert "--require-hashes" in "".join(lines)


@pytest.fixture(scope="module")
def image():
    spec = importlib.util.spec_from_file_location("image", DEPLOY / "image.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["image"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder that is the only one on the path; a function adds a program, which logs its words, and its exit code."""
    monkeypatch.setenv("PATH", str(tmp_path))
    log = tmp_path / "log"
    log.touch()

    def add(name, *, info=0, other=0):
        text = f'#!/bin/sh\necho "{name} $*" >> {log}\ntest "$1" = info && exit {info}\nexit {other}\n'
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    add.log = log
    return add


class TestImage:
    def test_the_first_builder_that_works_is_taken(self, image, programs):
        assert image.builder() is None
        programs("docker", info=1)
        assert image.builder() is None
        programs("buildah")
        assert image.builder() == "buildah"
        programs("podman")
        assert image.builder() == "podman"
        programs("docker")
        assert image.builder() == "docker"

    def test_a_container_is_confined_and_runs_the_check_with_the_health_check_of_the_image(self, image, programs):
        programs("docker")
        image.build_and_check("docker", ["python", "-c", "health"], "1.2")
        built, ran = programs.log.read_text().split("docker ")[1:3]
        assert built.split()[:3] == ["build", "--build-arg", "VERSION=1.2"]
        assert f"--file {DEPLOY / 'Containerfile'}" in built
        for words in ("--rm", "--read-only", "--cap-drop ALL", "--security-opt no-new-privileges", "--tmpfs /work"):
            assert words in ran
        assert ran.split("sh -c")[1].rstrip().endswith("sh python -c health")

    @pytest.mark.parametrize("step", ["build", "run"])
    def test_a_step_that_fails_is_an_exit_code(self, image, programs, step, monkeypatch, capsys):
        programs("docker", other=3)
        monkeypatch.setattr(sys, "argv", ["image.py"])
        if step == "run":
            honest = image.call
            monkeypatch.setattr(image, "call", lambda *words: honest(*words) if words[1] == "run" else None)
        assert image.main() == 1
        assert f"failed with exit code 3: docker {step}" in capsys.readouterr().err

    def test_without_a_builder_and_root_there_is_one_line(self, image, programs, monkeypatch, capsys):
        monkeypatch.setattr(sys, "argv", ["image.py"])
        monkeypatch.setattr(image.os, "geteuid", lambda: 1000)
        assert image.main() == 2
        assert capsys.readouterr().err == "neither a builder (docker, podman, buildah) nor root for a chroot\n"

    def test_without_a_builder_root_uses_a_chroot(self, image, programs, monkeypatch, capsys):
        monkeypatch.setattr(sys, "argv", ["image.py"])
        monkeypatch.setattr(image.os, "geteuid", lambda: 0)
        programs("unshare")
        assert image.main() == 0
        assert programs.log.read_text().startswith("unshare --mount --fork ")
        programs("unshare", other=4)
        assert image.main() == 1

    def test_the_instructions_and_the_health_check_are_those_of_the_containerfile(self, image):
        text = (DEPLOY / "Containerfile").read_text("utf-8")
        found = list(image.instructions(text))
        names = [one.name for one in found]
        assert names.count("FROM") == 2
        assert names.count("USER") == 1
        assert not any(one.rest.endswith("\\") for one in found)
        (install,) = (one.rest for one in found if "--require-hashes" in one.rest)
        assert install.endswith("'.[orchestration,sql,tables,server]'")
        command = image.health_command(text)
        assert command[:2] == ["python", "-c"]
        compile(command[2], "health", "exec")

    def test_each_instruction_of_the_containerfile_can_be_executed_in_a_chroot(self, image, tmp_path, monkeypatch):
        """As far as the chroot itself goes: commands are recorded, files are written below its root."""
        chroot, ran = image.Chroot(tmp_path), []
        monkeypatch.setattr(chroot, "run", lambda *words: ran.append((chroot.user, chroot.workdir, words)))
        monkeypatch.setattr(image, "copy_context", lambda target: (target / "constraints.txt").touch())
        for one in image.instructions((DEPLOY / "Containerfile").read_text("utf-8")):
            chroot.execute(one, {"UID": "1234", "VERSION": "1.2"})
        assert [(user, folder) for user, folder, _ in ran] == [
            ("root", "/source"), ("root", "/"), ("root", "/"), ("fedbnsl", "/work"),
        ]  # fmt: skip
        assert chroot.environment["UID"] == "1234"
        assert chroot.environment["PATH"].startswith("/opt/fedbnsl/bin:/")
        assert chroot.environment["HEALTH_PORT"] == "8786"
        assert (tmp_path / "source" / "constraints.txt").exists()
        with pytest.raises(ValueError, match="ADD"):
            chroot.execute(image.Instruction("ADD", "a b"), {})
        with pytest.raises(ValueError, match="COPY a b"):
            chroot.execute(image.Instruction("COPY", "a b"), {})

    def test_the_context_has_no_secrets_and_no_environment(self, image, tmp_path, monkeypatch):
        root = tmp_path / "checkout"
        for name in (".git/config", ".venv/bin/python", "flows/__pycache__/a.pyc", "deploy/.env", "flows/a.py"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
        shutil.copy(DEPLOY.parent / ".dockerignore", root)
        monkeypatch.setattr(image, "ROOT", root)
        image.copy_context(tmp_path / "context")
        there = {str(path.relative_to(tmp_path / "context")) for path in (tmp_path / "context").rglob("*")}
        assert there == {".dockerignore", "flows", "flows/a.py", "deploy"}

    def test_the_check_fails_unless_the_health_check_fails_first_and_passes_then(self, image, tmp_path):
        """With a program in place of fedbnsl, which makes what the health check looks for when a coordinator starts."""
        (tmp_path / "fedbnsl").write_text('#!/bin/sh\ntest "$1" = coordinator && touch "$MARKER" && sleep 5\nexit 0\n')
        (tmp_path / "id").write_text("#!/bin/sh\necho ${AS:-1000}\n")
        for name in ("fedbnsl", "id"):
            (tmp_path / name).chmod(0o755)

        def check(**more):
            marker = tmp_path / "marker"
            environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "MARKER": str(marker), **more}
            environment["HEALTH_PORT"] = "1"
            words = ["sh", "-c", image.CHECK, "sh", "test", "-e", str(marker)]
            return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)

        done = check()
        assert (done.returncode, "healthy after" in done.stdout) == (0, True), done.stderr
        done = check()
        assert (done.returncode, done.stderr) == (1, "healthy before the start\n")
        (tmp_path / "marker").unlink()
        assert check(AS="0").returncode == 1
