"""A federation over four machines, simulated by network namespaces on a switch whose traffic is recorded.

`sudo python benchmarks/machines.py` (Linux, root, `ip`): a coordinator and three owners, each with one experimental
condition of Sachs et al.'s data, learn over mutual TLS with masked replies. It shows four things. The run ends. A
client without a certificate is refused at the socket. The recorded traffic contains no cell of any row, and one sent on
purpose is found. A silo that is killed in round 5 and restarted changes no bit of the result.
"""

import csv
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fedbnsl.tracking.checkpoint import load

CONDITIONS = ("cd3cd28", "cd3cd28_icam2", "pma")
SWITCH, NETWORK, PORT = "fedbnsl-switch", "10.86.14", 8786
COORDINATOR = f"{NETWORK}.1"
LEARN = ("--secure", "-a", "fed-sparse", "-p", "preset=sachs")
NUMBER = 8
"""bytes of a number"""
LONG_ENOUGH = 6
"""minimum digits of a cell that is searched for as text; shorter ones occur in random bytes by chance"""


def machine(number: int) -> str:
    """The name of a namespace: 1 is the coordinator's, 2 to 4 are the silos'."""
    return f"fedbnsl-{number}"


def ip(*words: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *words], check=True)


def within(space: str, *words: str) -> list[str]:
    """The command that runs `words` on a machine."""
    return ["ip", "netns", "exec", space, *words]


@contextmanager
def machines() -> Iterator[None]:
    """Make the four machines and the switch between them; they end with the block."""
    spaces = [SWITCH, *(machine(number) for number in range(1, 5))]
    try:
        for space in spaces:
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        ip("-n", SWITCH, "link", "add", "bridge", "type", "bridge")
        ip("-n", SWITCH, "link", "set", "bridge", "up")
        for number in range(1, 5):
            port, space = f"port{number}", machine(number)
            ip("-n", SWITCH, "link", "add", port, "type", "veth", "peer", "name", "wire", "netns", space)
            ip("-n", SWITCH, "link", "set", port, "master", "bridge")
            ip("-n", SWITCH, "link", "set", port, "up")
            ip("-n", space, "addr", "add", f"{NETWORK}.{number}/24", "dev", "wire")
            ip("-n", space, "link", "set", "wire", "up")
        yield
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, stderr=subprocess.DEVNULL)


def listen(path: str) -> None:
    """Write every packet that passes the switch to `path` until terminated; the script runs this in the switch."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
    with Path(path).open("wb", buffering=0) as kept:
        while True:
            kept.write(packets.recv(65535))


@contextmanager
def running(space: str, log: Path, *words: str, home: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program on a machine within the block, in a process group of its own."""
    environment = os.environ | {"PREFECT_HOME": str(home / "prefect"), "MLFLOW_TRACKING_URI": f"sqlite:///{home}/m.db"}
    with log.open("ab") as said:
        child = subprocess.Popen(
            within(space, *words), stdout=said, stderr=said, cwd=home, env=environment, start_new_session=True
        )
    try:
        yield child
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def fedbnsl(*words: str) -> tuple[str, ...]:
    """The command line program with `words`."""
    return (str(Path(sys.executable).with_name("fedbnsl")), *words)


def prepared(home: Path) -> Path:
    """Make the federation: certificates, and the rows of three conditions at their owners."""
    for words in (
        ("prepare", "sachs", "sachs", "--by-condition"),
        ("federation", "init", "study", "--silos", ",".join(CONDITIONS), "--address", f"{COORDINATOR}:{PORT}"),
    ):
        subprocess.run(fedbnsl(*words), check=True, cwd=home, stdout=subprocess.DEVNULL)
    for number, silo in enumerate(CONDITIONS, 2):
        shutil.copy(home / "sachs" / f"{silo}.csv", home / "study" / silo / "rows.csv")
        file = home / "study" / silo / "silo.toml"
        file.write_text(file.read_text().replace("127.0.0.1:0", f"{NETWORK}.{number}:0"))
    shutil.copy(home / "sachs" / "truth.csv", home / "study" / "coordinator")
    return home / "study"


def owner(number: int, home: Path) -> tuple[str, Path, tuple[str, ...]]:
    """Machine, log and command of the silo on machine `number`."""
    silo = CONDITIONS[number - 2]
    words = fedbnsl("silo", "start", "--config", f"study/{silo}/silo.toml")
    return machine(number), home / f"{silo}.log", words


def learned(home: Path, name: str, stack: ExitStack, restart: int | None = None) -> tuple[int, float]:
    """Learn on the coordinator's machine, and return exit code and seconds.

    The silo on machine `restart` is killed once round 5 is done, and started again.
    """
    words = fedbnsl("learn", "--federation", "study/coordinator/federation.toml", *LEARN, "--out", name)
    begun = time.perf_counter()
    with running(machine(1), home / f"{name}.log", *words, home=home) as run:
        while restart is not None and run.poll() is None:
            checkpoint = home / name / "checkpoint.bin"
            if checkpoint.exists() and load(checkpoint).number >= 5:
                subprocess.run(["pkill", "-KILL", "-f", owner(restart, home)[2][-1]], check=True)
                stack.enter_context(running(*_start(restart, home), home=home))
                restart = None
            time.sleep(0.05)
        return run.wait(600), time.perf_counter() - begun


def _start(number: int, home: Path) -> tuple[str, ...]:
    space, log, words = owner(number, home)
    return (space, log, *words)  # type: ignore[return-value]


def refused(home: Path) -> str:
    """How the coordinator's port answers, on a silo's machine, to a client without a certificate."""
    script = f"import machines; machines.knock('{COORDINATOR}', {PORT})"
    words = within(machine(2), sys.executable, "-c", script)
    here = Path(__file__).parent
    return subprocess.run(words, check=True, cwd=here, capture_output=True, text=True).stdout.strip()


def knock(host: str, port: int) -> None:
    """Print the outcome for a client without a certificate; the script runs this on a silo's machine."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), 10) as plain, context.wrap_socket(plain) as wrapped:
            wrapped.settimeout(5)
            print(f"let in: {wrapped.recv(100)!r}")
    except OSError as error:
        print(f"refused: {getattr(error, 'reason', None) or error}")


def cells(home: Path) -> set[bytes]:
    """Every row as text, and every cell as text and as the bytes of its number in both byte orders."""
    found = set()
    for silo in CONDITIONS:
        with (home / "study" / silo / "rows.csv").open(newline="") as file:
            rows = list(csv.reader(file))[1:]
        for cell in (cell for row in rows for cell in row):
            found |= {struct.pack("<d", float(cell)), struct.pack(">d", float(cell))}
            if len(cell) >= LONG_ENOUGH:
                found.add(cell.encode())
        found |= {",".join(row).encode() for row in rows}
    # Numbers whose bytes are mostly zeros occur by chance, too.
    return {one for one in found if one.count(0) < LONG_ENOUGH}


def seen(wire: bytes, wanted: set[bytes]) -> int:
    """The number of `wanted` texts and numbers that occur in the recorded traffic."""
    numbers = {one for one in wanted if len(one) == NUMBER}
    windows = {wire[start : start + NUMBER] for start in range(len(wire) - NUMBER + 1)}
    return len(numbers & windows) + sum(one in wire for one in wanted - numbers)


def same(home: Path, one: str, other: str) -> bool:
    """Whether two runs gave the same bits: the structure, and every figure of every round."""
    return all((home / one / name).read_bytes() == (home / other / name).read_bytes() for name in COMPARED)


COMPARED = ("structure.csv", "rounds.csv")


def main() -> None:
    """Run it, and print the table."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        raise SystemExit("this needs root and `ip`: it makes network namespaces")
    with tempfile.TemporaryDirectory() as scratch, machines(), ExitStack() as stack:
        home = Path(scratch)
        study, wire = prepared(home), home / "wire.bin"
        script = f"import machines; machines.listen('{wire}')"
        here = Path(__file__).parent
        listener = subprocess.Popen(within(SWITCH, sys.executable, "-c", script), cwd=here, start_new_session=True)
        stack.callback(lambda: os.killpg(listener.pid, signal.SIGKILL))
        file = str(study / "coordinator" / "federation.toml")
        words = fedbnsl("coordinator", "start", "--federation", file)
        stack.enter_context(running(machine(1), home / "coordinator.log", *words, home=home))
        for number in range(2, 5):
            stack.enter_context(running(*_start(number, home), home=home))
        whole, seconds = learned(home, "whole", stack)
        again, longer = learned(home, "again", stack, restart=3)
        answer = refused(home)
        wanted, control = cells(home), sorted(cells(home))[0]
        quiet = seen(wire.read_bytes(), wanted)
        send = f"import socket; socket.socket(2, 2).sendto({control!r}, ('{COORDINATOR}', 9))"
        subprocess.run(within(machine(2), sys.executable, "-c", send), check=True)
        time.sleep(1)
        packets = wire.read_bytes()
        joined = (home / "coordinator.log").read_text().count(f"silo {CONDITIONS[1]} has joined")
        for what, found in (
            ("learns Sachs by condition, --secure", f"exit code {whole}, {seconds:.0f} s"),
            ("a silo killed in round 5, started again", f"exit code {again}, {longer:.0f} s, joined {joined} times"),
            ("the same bits", "yes" if same(home, "whole", "again") else "NO"),
            ("a client without a certificate", answer),
            ("bytes on the wires", f"{len(packets):,}"),
            (f"of {len(wanted):,} rows and cells, as texts and as numbers, seen in plain", str(quiet)),
            ("a cell sent in plain on purpose is seen", "yes" if seen(packets, {control}) else "NO"),
        ):
            print(f"| {what} | {found} |", flush=True)


if __name__ == "__main__":
    main()
