"""A silo's worker on its owner's machine: it joins the federation, answers calls, and reconnects after interruptions.

The worker runs only the calls of a coordinator (`MethodCall`). Dask's handlers that are not in `ALLOWED_HANDLERS` are
removed, and only messages of this project are unpickled (`unpickling.py`).
"""

import ast
import asyncio
import contextlib
from collections.abc import Callable

from distributed import Worker
from distributed.comm.core import connect

from ..silo.service import SiloService
from .cluster import host as host_services
from .cluster import resource
from .coordinator import WithoutHttpServer
from .identity import Identity
from .unpickling import restrict_unpickling

ALLOWED_HANDLERS = frozenset({"identity", "ping", "get_data", "free_keys", "connection_stream", "terminate"})
"""handlers that a coordinator may call besides tasks"""
REGISTRATION_ERROR = "Unexpected response from register: "
"""the start of Dask's message if the scheduler rejects a worker"""
RECONNECT_SECONDS = 3.0
"""pause between two attempts to reach the coordinator"""
CONNECT_SECONDS = 10.0
"""timeout for a connection to the coordinator"""


class SiloWorker(WithoutHttpServer, Worker):
    """A Dask worker that only runs calls of a silo's service."""

    def __init__(
        self,
        address: str,
        service: SiloService,
        identity: Identity,
        listen: tuple[str, int],
        log: Callable[[str], None],
    ) -> None:
        """Join the federation at `address` as the silo of `service`; bind to `listen` only."""
        super().__init__(
            address,
            nthreads=1,
            name=service.name,
            host=listen[0],
            port=listen[1],
            protocol="tls",
            security=identity.security(),
            resources={resource(service.name): 1},
            dashboard=False,
            memory_limit=0,
            extensions={},
        )
        for name in [name for name in self.handlers if name not in ALLOWED_HANDLERS]:
            del self.handlers[name]
        host_services(self, [service], log)


async def run_silo_worker(
    address: str,
    service: SiloService,
    identity: Identity,
    listen: tuple[str, int],
    log: Callable[[str], None],
    patience: float = CONNECT_SECONDS,
) -> None:
    """Run a worker of the federation at `address` until this task is cancelled; reconnect after a lost connection.

    The reason for a failure to join is logged once. An attempt to reach the coordinator fails after `patience` seconds.
    """
    restrict_unpickling()
    last_reason = ""
    while True:
        try:
            await _check_reachable(address, identity, patience)
            async with SiloWorker(address, service, identity, listen, log) as worker:
                last_reason = ""
                log(f"silo {service.name} has joined {address}, listening at {worker.address}")
                await worker.finished()
            log(f"silo {service.name}: connection to {address} lost; reconnecting")
        except (OSError, RuntimeError) as error:
            reason = _reason(error)
            if last_reason != reason:
                last_reason = reason
                log(f"silo {service.name} cannot join {address}: {reason}")
        await asyncio.sleep(RECONNECT_SECONDS)


async def _check_reachable(address: str, identity: Identity, patience: float) -> None:
    """Raise `OSError` unless `address` accepts a connection with this identity within `patience` seconds.

    Dask's worker would retry silently.
    """
    comm = await connect(address, timeout=patience, **identity.security().get_connection_args("worker"))
    await comm.close()


def _reason(error: Exception) -> str:
    """The root cause of Dask's exception, because the exception only reports that the worker did not start."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    head, _, answer = str(cause).partition(REGISTRATION_ERROR)
    if answer and not head:
        with contextlib.suppress(ValueError, SyntaxError, KeyError, TypeError):
            return str(ast.literal_eval(answer)["message"])
    return str(cause) or type(cause).__name__
