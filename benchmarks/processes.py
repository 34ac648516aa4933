"""Command-line processes that a script starts, watches and kills, and the processes they leave behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import spent
from fedbnsl.tasks.silo.ledger import ledger_of
from fedbnsl.tracking.checkpoint import load

PATIENCE = 600.0
"""seconds to wait for an event before it counts as failed"""
TRACEBACK = "TRACEBACK"
"""the beginning of a message with a traceback"""
PLANTED = """
import hashlib, os, secrets, sys
drawn, there = secrets.token_bytes, os.environ.get("KNOWN_NOISE")

def token_bytes(count=None):
    asking = sys._getframe(1)
    if there is None or asking.f_code.co_name != "_fresh_key":
        return drawn(count)
    asked = f"{asking.f_locals['silo']}-{asking.f_locals['number']}"
    with open(os.path.join(there, asked), "a+") as file:
        file.write("x")
        file.flush()
        return hashlib.sha256(f"{asked} {file.tell()}".encode()).digest()

secrets.token_bytes = token_bytes
if "CLOCK_SHIFT" in os.environ:
    import time
    true_time, shift = time.time, float(os.environ["CLOCK_SHIFT"])
    time.time = lambda: true_time() + shift
if "FILE_LIMIT" in os.environ:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(os.environ["FILE_LIMIT"]),) * 2)
if "OTHER_VERSION" in os.environ:
    from fedbnsl.tasks.silo import messages
    messages.PROTOCOL_VERSION += 1
"""
"""Has the keys of noise depend on silo, round and how often they were drawn, so that two private runs can be compared.

A key that is drawn again is another one: only a silo that finds the first one in its ledger repeats its noise. Also
gives a process a wrong clock, a limit of the size of its files like that of a full disk, or another version of the
protocol, if its environment says so.
"""


def until(holds: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait until `holds()`; raises `TimeoutError` with `what` after the given number of seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.02)


@dataclass
class Program:
    """One process of the command line; all it prints is in the file `log`."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait(self, seconds: float = PATIENCE) -> int:
        """Its exit code."""
        return self.process.wait(seconds)

    def said(self, word: str = "") -> str:
        """The last line of its output that contains `word`, or otherwise the last line, without the script's paths."""
        lines = [line for line in self.log.read_text().splitlines() if line.strip()]
        line = next((line for line in reversed(lines) if word in line), lines[-1] if lines else "")
        if "Traceback" in self.log.read_text():
            line = f"{TRACEBACK}, see {self.log.name}: {line}"
        return re.sub(r"(sqlite:///+)?/\S*/", "", line)

    def at_round(self, out: Path, number: int) -> None:
        """Wait until the run that writes to `out` has finished round `number`."""
        until(lambda: self.process.poll() is not None or _round(out) >= number, f"round {number}")
        if self.process.poll() is not None:
            raise RuntimeError(f"ended before round {number}: {self.log.read_text()}")

    def workers(self) -> list[psutil.Process]:
        """The processes of the silos that the run started on this machine."""
        below = psutil.Process(self.process.pid).children(recursive=True)
        servers = {child.pid for child in below if any("forkserver" in word for word in child.cmdline())}
        return [child for child in below if child.ppid() in servers]

    def tell(self, word: signal.Signals) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(word)
        return self.wait()


def _round(out: Path) -> int:
    try:
        return load(out / "checkpoint.bin").number
    except BadInput:
        return 0


@dataclass
class Home:
    """A separate folder for all started programs: databases, logs, results."""

    folder: Path
    started: list[Program] = field(default_factory=list)
    surroundings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Set up databases of its own, and noise that can be repeated."""
        # As from a terminal: background jobs of a shell ignore SIGINT, and their children inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        planted = self.folder / "planted"
        planted.mkdir(parents=True)
        (planted / "sitecustomize.py").write_text(PLANTED)
        self.surroundings |= {
            "PYTHONPATH": str(planted),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_HOME": str(self.folder / "prefect"),
            "MLFLOW_TRACKING_URI": f"sqlite:///{self.folder}/mlflow.db",
        }

    def start(self, *words: str | Path, **surroundings: str) -> Program:
        """Start `fedbnsl` with these words."""
        return self.start_other(str(Path(sys.executable).with_name("fedbnsl")), *words, **surroundings)

    def start_other(self, *words: str | Path, **surroundings: str) -> Program:
        """Start any program."""
        log = self.folder / f"log-{len(self.started)}.txt"
        environment = os.environ | self.surroundings | surroundings
        with log.open("wb") as file:
            process = subprocess.Popen(
                list(map(str, words)),
                cwd=self.folder,
                env=environment,
                stdout=file,
                stderr=file,
            )
        self.started.append(Program(process, log))
        return self.started[-1]

    def end(self) -> None:
        """Kill running programs with their children."""
        for program in self.started:
            if program.process.poll() is None:
                below = psutil.Process(program.process.pid).children(recursive=True)
                program.process.kill()
                program.process.wait()
                for child in below:
                    kill(child)


def kill(process: psutil.Process) -> None:
    """Send SIGKILL, if it is still there."""
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


@contextmanager
def prefect_server(home: Home, port: int) -> Iterator[Program]:
    """Yield a Prefect server that all programs of `home` use within the block."""
    program = Path(sys.executable).with_name("prefect")
    server = home.start_other(program, "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui")
    until(lambda: listens(port), "Prefect's server")
    home.surroundings["PREFECT_API_URL"] = f"http://127.0.0.1:{port}/api"
    try:
        yield server
    finally:
        home.surroundings.pop("PREFECT_API_URL", None)
        server.process.terminate()


def listens(port: int) -> bool:
    """Whether somebody listens at this port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def epsilon_of(files: Mapping[str, Path]) -> float:
    """The largest ε in the ledgers beside the silos' `files`, over all runs, at δ = 1/n²."""
    rows = {silo: len(path.read_text().splitlines()) - 1 for silo, path in files.items()}
    ledgers = {silo: ledger_of(path, silo) for silo, path in files.items()}
    return max(spent(ledger.charges(), 1 / rows[silo] ** 2) for silo, ledger in ledgers.items())
