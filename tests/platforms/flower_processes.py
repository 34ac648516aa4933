"""Flower's own processes on this machine: a SuperLink with TLS and authenticated SuperNodes, and the owners' silos."""

import os
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedbnsl.flows.servers.processes import free_port
from fedbnsl.tasks.transport.certificates import new_authority, new_certificate, pem

from .processes import PLATFORMS, Processes, door, start_silo


class Flower:
    """A SuperLink and the SuperNodes of `silos`; SuperNodes authenticate with keys that the SuperLink knows."""

    def __init__(self, folder, federation, silos):
        self.folder, self.federation, self.silos = folder, federation, silos
        self.bin = PLATFORMS / "flower" / "bin"
        # Without PYTHONDONTWRITEBYTECODE: Flower starts a process for each message.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_HOME": str(folder / "home"),
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
        }
        self.processes = Processes(folder, environment)
        self.port = free_port(0)

    def start(self):
        authority = new_authority("flower")
        key, certificate = new_certificate(authority, "superlink", ("127.0.0.1",))
        for name, content in {"ca": pem(authority.certificate), "superlink": certificate, "superlink.key": key}.items():
            (self.folder / f"{name}.pem").write_bytes(content)
        home = self.folder / "home"
        home.mkdir()
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{self.folder / "ca.pem"}"\n'
        )
        tls = ("--ssl-ca-certfile", "ca.pem", "--ssl-certfile", "superlink.pem", "--ssl-keyfile", "superlink.key.pem")
        words = [self.folder / one if one.endswith(".pem") else one for one in tls]
        self.processes.start(
            "superlink",
            *(self.bin / "flower-superlink", *words, "--enable-supernode-auth", "--port", self.port),
            "--disable-runtime-dependency-installation",
        )
        self.processes.wait_for("superlink", "Uvicorn running")
        for silo in self.silos:
            key = self._key(silo)
            subprocess.run(
                [self.bin / "flwr", "supernode", "register", f"{key}.pub", "here"],
                env=self.processes.environment, check=True, capture_output=True,
            )  # fmt: skip
            start_silo(self.processes, self.federation, silo)
            self.start_node(silo)
        for silo in self.silos:
            self.processes.wait_for(f"node-{silo}", "SuperNode ID")

    def _key(self, silo):
        key, path = ec.generate_private_key(ec.SECP384R1()), self.folder / f"{silo}.key"
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
        path.write_bytes(key.private_bytes(*form))
        path.chmod(0o600)
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        Path(f"{path}.pub").write_bytes(public)
        return path

    def restart_node(self, silo):
        """Start the SuperNode of `silo` again, as a service manager does: Flower refuses it for up to a minute."""
        known = self.processes.log(f"node-{silo}").count("SuperNode ID")
        while self.processes.log(f"node-{silo}").count("SuperNode ID") == known:
            if f"node-{silo}" not in self.processes.running:
                self.start_node(silo)
            elif self.processes.running[f"node-{silo}"].poll() is not None:
                self.processes.kill(f"node-{silo}")
            time.sleep(0.2)

    def start_node(self, silo):
        self.processes.start(
            f"node-{silo}",
            *(self.bin / "flower-supernode", "--root-certificates", self.folder / "ca.pem"),
            *("--superlink", f"127.0.0.1:{self.port}", "--port", free_port(0)),
            *("--auth-supernode-private-key", self.folder / f"{silo}.key"),
            *("--node-config", f'silo="{door(self.federation, silo)}"'),
            FLWR_HOME=str(self.folder / f"home-{silo}"),
        )


@contextmanager
def flower_of(folder, federation, silos):
    """Yield the running `Flower` for the owners' files in `federation`."""
    folder.mkdir()
    flower = Flower(folder, federation, silos)
    assert flower.bin.exists(), f"run `make test-platforms`: {flower.bin} is missing"
    try:
        flower.start()
        yield flower
    finally:
        flower.processes.close()
