"""Seconds of one call to a silo, from the coordinator's run over the relay to the silo's process and back.

`python benchmarks/relay.py` starts a relay and a silo that answers with what it receives, in separate processes over
mutual TLS on this machine, and then a Dask scheduler and worker with the same certificates. It shows the wall time of a
call and the CPU time of the relay (or scheduler), the silo (or worker) and the run.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

from measure import show

SIZES = {100: 300, 1_000_000: 60, 20_000_000: 8}
"""bytes of a call -> number of calls"""
Call = Callable[[bytes], object]


def echo(content: bytes) -> bytes:
    """The answer to a call: what it has sent."""
    return content


def identity(folder: Path, holder: str):  # noqa: ANN201 (imported below, as each process needs only a part)
    """The certificate of `holder`."""
    from fedbnsl.tasks.transport.certificates import Identity

    return Identity(
        folder / holder / f"{holder}.pem", folder / holder / f"{holder}.key", folder / holder / "trusted.pem"
    )


def security(folder: Path, holder: str):  # noqa: ANN201
    """The same certificate for Dask."""
    from distributed import Security

    own, roles = identity(folder, holder), ("client", "scheduler", "worker")
    files = {
        f"tls_{role}_{kind}": str(file)
        for role in roles
        for kind, file in (("cert", own.certificate), ("key", own.key))
    }
    return Security(tls_ca_file=str(own.trusted), require_encryption=True, **files)


async def serve(role: str, folder: Path, port: int) -> None:
    """Run one of the four servers until it is killed."""
    from fedbnsl.tasks.transport.channel import serve_silo
    from fedbnsl.tasks.transport.configuration import Endpoint
    from fedbnsl.tasks.transport.relay import run_relay

    if role == "relay":
        await run_relay(identity(folder, "coordinator"), "127.0.0.1", port, (), lambda line: None)
    elif role == "silo":
        await serve_silo("a", Endpoint("127.0.0.1", port), identity(folder, "a"), echo, lambda line: None, 0.1)
    else:
        from distributed import Scheduler, Worker

        holder = "coordinator" if role == "scheduler" else "a"
        common = {"security": security(folder, holder), "host": "127.0.0.1", "protocol": "tls", "dashboard": False}
        address = f"tls://127.0.0.1:{port}"
        server = Scheduler(port=port, **common) if role == "scheduler" else Worker(address, nthreads=1, **common)
        async with server:
            await asyncio.Event().wait()


@contextmanager
def servers(folder: Path, port: int, *roles: str):  # noqa: ANN201
    """The processes of `roles`, in this order."""
    started = []
    try:
        for role in roles:
            started.append(subprocess.Popen([sys.executable, __file__, role, str(folder), str(port)]))
            time.sleep(3)
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def cpu_seconds(process: int) -> float:
    """The CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(name: str, processes: list[int], call: Call) -> list[dict[str, object]]:
    """A row of the table for each size of a call."""
    rows = []
    for size, calls in SIZES.items():
        call(bytes(size))
        before, seconds = [cpu_seconds(one) for one in processes], []
        for _ in range(calls):
            content = os.urandom(size)
            begun = time.perf_counter()
            call(content)
            seconds.append(time.perf_counter() - begun)
        used = [1e3 * (cpu_seconds(one) - then) / calls for one, then in zip(processes, before, strict=True)]
        shown = {"between": used[0], "silo": used[1], "run": used[2]}
        row = {"transport": name, "bytes": f"{size:,}", "wall ms": f"{1e3 * statistics.median(seconds):.2f}"}
        rows.append(row | {f"CPU ms, {who}": f"{value:.2f}" for who, value in shown.items()})
    return rows


def main() -> None:
    """Measure both transports."""
    from distributed import Client

    from fedbnsl.flows.cli.federation import init_federation
    from fedbnsl.tasks.transport.channel import RelayClient
    from fedbnsl.tasks.transport.configuration import Endpoint

    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "federation"
        init_federation(folder, ["a"], "127.0.0.1:1")
        with (
            servers(folder, 18733, "relay", "silo") as started,
            RelayClient.connect(Endpoint("127.0.0.1", 18733), identity(folder, "coordinator"), 30) as client,
        ):
            while not client.present():
                time.sleep(0.05)
            processes = [*(one.pid for one in started), os.getpid()]
            rows += measured("relay", processes, lambda content: client.submit("a", content).result(60))
        with (
            servers(folder, 18734, "scheduler", "worker") as started,
            Client("tls://127.0.0.1:18734", security=security(folder, "coordinator")) as client,
        ):
            client.wait_for_workers(1)
            processes = [*(one.pid for one in started), os.getpid()]
            rows += measured("Dask", processes, lambda content: client.submit(echo, content, pure=False).result())
    show("relay", rows, {})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
    else:
        main()
