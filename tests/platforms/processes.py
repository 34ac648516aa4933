"""Processes of a platform and of the owners' silos, on this machine, for tests."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from fedbnsl.flows.servers.federation_demo import SILOS

ROOT = Path(__file__).parents[2]
PLATFORMS = Path(os.environ.get("FEDBNSL_PLATFORMS", ROOT / ".cache" / "platforms"))
"""the folder with an environment for each platform, which `make test-platforms` creates"""


class Processes:
    """Processes that end with the block, their output in files of `folder`."""

    def __init__(self, folder, environment):
        self.folder, self.environment, self.running = folder, environment, {}
        folder.mkdir(exist_ok=True)

    def start(self, name, *words, **more):
        output = (self.folder / f"{name}.log").open("ab")
        environment = self.environment | more
        # A group of its own, because platforms start further processes.
        self.running[name] = subprocess.Popen(
            list(map(str, words)), env=environment, stdout=output, stderr=output, start_new_session=True
        )

    def kill(self, name, number=signal.SIGKILL):
        process = self.running.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        process.wait(30)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def wait_for(self, name, text, seconds=60.0):
        end = time.monotonic() + seconds
        while text not in self.log(name):
            alive = time.monotonic() < end and self.running[name].poll() is None
            assert alive, f"{name} has not said {text!r}: {self.log(name)[-2000:]}"
            time.sleep(0.1)

    def close(self):
        for name in tuple(self.running):
            self.kill(name)


def start_silo(processes, folder, silo):
    """Start the silo whose owner's files are in `folder`; its door is there, too."""
    words = ("silo", "start", "--config", folder / silo / "silo.toml", "--socket", door(folder, silo))
    processes.start(f"silo-{silo}", sys.executable, "-m", "fedbnsl.flows.cli.main", *words)
    processes.wait_for(f"silo-{silo}", f"silo {silo} answers at")


def door(folder, silo):
    return folder / f"{silo}.sock"


@contextmanager
def silos_of(study, **environment):
    """Yield the running silos of the owners in `study`, and the `environment` of runs and further processes.

    Compiled Python is kept, because some platforms start a process for each message.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {"FEDBNSL_HOME": str(study.with_name("home"))}
    running = Processes(study.with_name("processes"), kept | own | environment)
    try:
        for silo in SILOS:
            start_silo(running, study, silo)
        yield running
    finally:
        running.close()
