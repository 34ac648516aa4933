"""A silo's worker on its owner's machine: it joins the federation, answers, and joins again whenever it has to.

It carries out the calls of a coordinator (`MethodCall`) and nothing else: Dask's other services are taken out of it,
and what it unpickles are messages of this project (`unpickling.py`).
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
from .unpickling import only_messages

SERVED = frozenset({"identity", "ping", "get_data", "free_keys", "connection_stream", "terminate"})
"""what a coordinator may ask of the worker besides tasks"""
REFUSED = "Unexpected response from register: "
"""how Dask begins to say that the scheduler did not take a worker in"""
RECONNECT_SECONDS = 3.0
"""seconds between two attempts to reach the coordinator"""
REACH = 10.0
"""seconds for the coordinator to take a connection"""


class SiloWorker(WithoutHttpServer, Worker):
    """A Dask worker that can do no more than carry out calls of a silo's service."""

    def __init__(
        self,
        address: str,
        service: SiloService,
        identity: Identity,
        listen: tuple[str, int],
        say: Callable[[str], None],
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
        for name in [name for name in self.handlers if name not in SERVED]:
            del self.handlers[name]
        host_services(self, [service], say)


async def attend(
    address: str,
    service: SiloService,
    identity: Identity,
    listen: tuple[str, int],
    say: Callable[[str], None],
    patience: float = REACH,
) -> None:
    """Be a worker of the federation at `address` until this task is cancelled, through losses of the connection.

    Why it cannot join is said once, after `patience` seconds where nobody answers.
    """
    only_messages()
    said = ""
    while True:
        try:
            await _reach(address, identity, patience)
            async with SiloWorker(address, service, identity, listen, say) as worker:
                said = ""
                say(f"silo {service.name} has joined {address}, listening at {worker.address}")
                await worker.finished()
            say(f"silo {service.name}: {address} has gone; waiting for it")
        except (OSError, RuntimeError) as error:
            reason = _reason(error)
            if said != reason:
                said = reason
                say(f"silo {service.name} cannot join {address}: {reason}")
        await asyncio.sleep(RECONNECT_SECONDS)


async def _reach(address: str, identity: Identity, patience: float) -> None:
    """Raise `OSError` if nobody answers at `address`, or not with this identity, within `patience` seconds.

    A worker of Dask would go on trying, and say nothing.
    """
    comm = await connect(address, timeout=patience, **identity.security().get_connection_args("worker"))
    await comm.close()


def _reason(error: Exception) -> str:
    """Return what Dask's own exception, which says only that the worker did not start, was raised from."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    head, _, answer = str(cause).partition(REFUSED)
    if answer and not head:
        with contextlib.suppress(ValueError, SyntaxError, KeyError, TypeError):
            return str(ast.literal_eval(answer)["message"])
    return str(cause) or type(cause).__name__
