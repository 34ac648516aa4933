"""The coordinator of a federation: a Dask scheduler that silos and runs reach over mutual TLS.

Dask allows every connected peer any operation. Here the holder of a silo's certificate may perform only the operations
of a worker of this silo, and a silo may have only one worker at a time. All other operations require a coordinator's
certificate. Dask's second, unencrypted port for web pages is disabled (`WithoutHttpServer`).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from distributed import Scheduler
from distributed.comm.core import Comm
from distributed.http.routing import RoutingApplication
from tornado.httpserver import HTTPServer

from .cluster import resource
from .identity import COORDINATOR, Identity, peer_of
from .unpickling import restrict_unpickling


class WithoutHttpServer:
    """A mixin, to inherit first, with which a Dask scheduler or worker listens only at its TLS port."""

    def start_http_server(
        self, routes: Any, dashboard_address: Any, default_port: Any = 0, ssl_options: Any = None
    ) -> None:
        """Create the web server that Dask expects, without a port."""
        self.http_application = RoutingApplication([])
        self.http_server = HTTPServer(self.http_application)


UNREGISTERED_OPERATIONS = frozenset({"register-worker", "heartbeat_worker", "identity", "unregister", "close"})
"""operations that a silo's worker may request on a connection on which it has not registered"""
REGISTERED_OPERATIONS = frozenset(
    {"task-finished", "task-erred", "release-worker-data", "long-running", "reschedule", "keep-alive"}
    | {"worker-status-change", "close-stream", "log-event"}
)
"""messages that a silo's worker may send on the connection on which it has registered"""


ABOUT_TASKS = frozenset({"task-finished", "task-erred", "long-running", "reschedule", "release-worker-data"})
"""messages about a task; each has the key of the task"""


class Refusal(Exception):  # noqa: N818 - sent to a peer, not a fault of this process
    """An operation that a peer may not perform."""


class FederationScheduler(WithoutHttpServer, Scheduler):
    """A scheduler that limits each peer to the operations of its certificate."""

    def __init__(self, silos: tuple[str, ...], log: Callable[[str], None], **options: Any) -> None:
        """Serve a federation of `silos`, or of any silos if there are none.

        `log` gets a line for each join, exit and refusal; repetitions of the last refusal are left out.
        """
        super().__init__(**options)
        self._silos = silos
        self._log_line = _without_repeats(log)

    def handle_comm(self, comm: Comm) -> Any:
        """Serve a connection, restricted for a silo; TLS has already rejected peers without a certificate."""
        peer = peer_of(comm)
        if peer != COORDINATOR:
            _restrict_silo(comm, str(peer), self._log_line, self.impersonates)
        return super().handle_comm(comm)

    async def add_worker(self, comm: Comm, *, resources: dict[str, float], **about: Any) -> None:
        """Accept the worker of a silo, unless its certificate has another name or the silo already has a worker."""
        peer = str(peer_of(comm))
        try:
            self._check(peer, resources)
        except Refusal as refusal:
            self._log_line(f"refused: {refusal}")
            await comm.write({"status": "error", "message": str(refusal), "time": 0.0})
            return
        self._log_line(f"silo {peer} has joined from {comm.peer_address}")
        await super().add_worker(comm, resources=resources, **about)

    async def remove_worker(self, address: str, **about: Any) -> Any:
        """Remove a worker, and log its silo."""
        worker = self.workers.get(address)
        if worker is not None:
            self._log_line(f"{', '.join(name.replace(':', ' ') for name in worker.resources)} has left")
        return await super().remove_worker(address, **about)

    def impersonates(self, peer: str, message: Mapping[str, Any]) -> str | None:
        """How `message` of the silo `peer` impersonates another silo, for the log; None if it does not.

        Dask does not check the address, the resources and the keys of tasks that a worker writes into its messages.
        """
        own = {address for address, worker in self.workers.items() if resource(peer) in worker.resources}
        for field in ("address", "worker"):
            address = message.get(field)
            if address in self.workers and address not in own:
                return f"names the worker at {address} as its own"
        joins = message.get("op") == "register-worker"  # `add_worker` checks the resources in this case
        if not joins and set(message.get("resources") or {}) - {resource(peer)}:
            return f"claims the resources {', '.join(sorted(message['resources']))}"
        task = self.tasks.get(message.get("key", "")) if message.get("op") in ABOUT_TASKS else None
        if task is not None and task.processing_on is not None and task.processing_on.address not in own:
            return "reports on a task of another silo"
        return None

    def _check(self, peer: str, resources: dict[str, float]) -> None:
        if set(resources) != {resource(peer)}:
            raise Refusal(f"a worker with the certificate of {peer} claims to be {', '.join(resources) or 'nobody'}")
        if self._silos and peer not in self._silos:
            raise Refusal(f"silo {peer} is not a member: federation.toml lists {', '.join(self._silos)}")
        if any(resource(peer) in worker.resources for worker in self.workers.values()):
            raise Refusal(f"silo {peer} already has a worker: a second worker of this name is not accepted")


def _without_repeats(log: Callable[[str], None]) -> Callable[[str], None]:
    """`log` without repetitions of the last refusal, because a refused silo retries every few seconds."""
    last: dict[str, str] = {}

    def once(line: str) -> None:
        if not line.startswith("refused") or last.get("refusal") != line:
            log(line)
        last["refusal" if line.startswith("refused") else "news"] = line

    return once


def _restrict_silo(
    comm: Any,
    peer: str,
    log: Callable[[str], None],
    impersonates: Callable[[str, Mapping[str, Any]], str | None] = lambda peer, message: None,
) -> None:
    """Close `comm` as soon as `peer`, a silo, makes a request that only coordinators or another silo may make."""
    read, registered = comm.read, False

    async def restricted_read(deserializers: Any = None) -> Any:
        nonlocal registered
        message = await read(deserializers)
        for part in message if isinstance(message, list | tuple) else (message,):
            operation = part.get("op") if isinstance(part, dict) else None
            if operation not in (REGISTERED_OPERATIONS if registered else UNREGISTERED_OPERATIONS):
                log(f"refused: silo {peer} requests '{operation}', which is reserved for coordinators")
                comm.abort()
                raise OSError(f"{peer} may not request {operation}")
            reason = impersonates(peer, part)
            if reason is not None:
                log(f"refused: silo {peer} {reason}")
                comm.abort()
                raise OSError(f"{peer} {reason}")
            registered = registered or operation == "register-worker"
        return message

    comm.read = restricted_read


async def run_coordinator(
    identity: Identity, host: str, port: int, silos: tuple[str, ...], log: Callable[[str], None]
) -> None:
    """Run the scheduler of a federation until this task is cancelled."""
    restrict_unpickling()
    scheduler = FederationScheduler(
        silos, log, security=identity.security(), protocol="tls", host=host, port=port, dashboard=False, extensions={}
    )
    async with scheduler:
        log(f"listening at {scheduler.address} for {', '.join(silos) or 'any silo'}")
        await asyncio.Event().wait()
