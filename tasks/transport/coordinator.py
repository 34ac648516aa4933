"""The meeting point of a federation: a Dask scheduler that silos and coordinators reach over mutual TLS.

Dask lets whoever is connected do everything. Here the holder of a silo's certificate may do what a silo's worker does,
for the silo of that name, once at a time; all else is for coordinators.

Dask's processes without the second, unencrypted port on which each of them would serve pages.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from distributed import Scheduler
from distributed.comm.core import Comm
from distributed.http.routing import RoutingApplication
from tornado.httpserver import HTTPServer

from .cluster import resource
from .identity import COORDINATOR, Identity, peer_of
from .unpickling import only_messages


class WithoutHttpServer:
    """What a Dask scheduler or worker inherits first, so that it listens at its one TLS port and nowhere else."""

    def start_http_server(
        self, routes: Any, dashboard_address: Any, default_port: Any = 0, ssl_options: Any = None
    ) -> None:
        """Make the server of pages that Dask expects, but let it listen nowhere."""
        self.http_application = RoutingApplication([])
        self.http_server = HTTPServer(self.http_application)


OPERATIONS = frozenset({"register-worker", "heartbeat_worker", "identity", "unregister", "close"})
"""what a silo's worker may ask of the scheduler"""
STREAMED = frozenset(
    {"task-finished", "task-erred", "release-worker-data", "add-keys", "long-running", "reschedule", "keep-alive"}
    | {"worker-status-change", "close-stream", "log-event"}
)
"""what it may report once it is registered"""


class Refusal(Exception):  # noqa: N818 - said to a peer, not a fault of this process
    """Something that a peer may not do."""


class FederationScheduler(WithoutHttpServer, Scheduler):
    """A scheduler that holds every peer to the certificate it has shown."""

    def __init__(self, silos: tuple[str, ...], say: Callable[[str], None], **options: Any) -> None:
        """Serve a federation of `silos` (none: whichever come); `say` is told who comes, goes, or is refused."""
        super().__init__(**options)
        self._silos = silos
        self._say = _said_once(say)

    def handle_comm(self, comm: Comm) -> Any:
        """Serve a connection; one without a certificate never comes here, one of a silo is watched."""
        peer = peer_of(comm)
        if peer != COORDINATOR:
            _watch(comm, str(peer), self._say)
        return super().handle_comm(comm)

    async def add_worker(self, comm: Comm, *, resources: dict[str, float], **about: Any) -> None:
        """Take in the worker of a silo, unless it cannot prove whose it is, or the silo has one already."""
        peer = str(peer_of(comm))
        try:
            self._check(peer, resources)
        except Refusal as refusal:
            self._say(f"refused: {refusal}")
            await comm.write({"status": "error", "message": str(refusal), "time": 0.0})
            return
        self._say(f"silo {peer} is here, from {comm.peer_address}")
        await super().add_worker(comm, resources=resources, **about)

    async def remove_worker(self, address: str, **about: Any) -> Any:
        """Let a worker go, and say whose it was."""
        worker = self.workers.get(address)
        if worker is not None:
            self._say(f"{', '.join(name.replace(':', ' ') for name in worker.resources)} has gone")
        return await super().remove_worker(address, **about)

    def _check(self, peer: str, resources: dict[str, float]) -> None:
        if set(resources) != {resource(peer)}:
            raise Refusal(f"a worker with the certificate of {peer} claims to be {', '.join(resources) or 'nobody'}")
        if self._silos and peer not in self._silos:
            raise Refusal(f"silo {peer} does not take part: federation.toml names {', '.join(self._silos)}")
        if any(resource(peer) in worker.resources for worker in self.workers.values()):
            raise Refusal(f"silo {peer} is here already: a second worker of this name is not taken in")


def _said_once(say: Callable[[str], None]) -> Callable[[str], None]:
    """`say` without refusals that have just been said: a silo that is refused tries again and again."""
    last: dict[str, str] = {}

    def once(line: str) -> None:
        if not line.startswith("refused") or last.get("refusal") != line:
            say(line)
        last["refusal" if line.startswith("refused") else "news"] = line

    return once


def _watch(comm: Any, peer: str, say: Callable[[str], None]) -> None:
    """Close `comm` as soon as `peer`, a silo, asks for what is a coordinator's to ask."""
    read, registered = comm.read, False

    async def watched(deserializers: Any = None) -> Any:
        nonlocal registered
        message = await read(deserializers)
        for part in message if isinstance(message, list | tuple) else (message,):
            asked = part.get("op") if isinstance(part, dict) else None
            if asked not in (STREAMED if registered else OPERATIONS):
                say(f"refused: silo {peer} asks for '{asked}', which is for coordinators")
                comm.abort()
                raise OSError(f"{peer} may not ask for {asked}")
            registered = registered or asked == "register-worker"
        return message

    comm.read = watched


async def serve(identity: Identity, host: str, port: int, silos: tuple[str, ...], say: Callable[[str], None]) -> None:
    """Run the scheduler of a federation until this task is cancelled."""
    only_messages()
    scheduler = FederationScheduler(
        silos, say, security=identity.security(), protocol="tls", host=host, port=port, dashboard=False, extensions={}
    )
    async with scheduler:
        say(f"listening at {scheduler.address} for {', '.join(silos) or 'any silo'}")
        await asyncio.Event().wait()
