"""The silos on Dask workers, each call pinned to the worker that hosts its silo."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from fedbnsl.algorithms.core.protocol import SiloLost

from ..silo.method_call import MethodCall
from .cluster import hosted_silos
from .hosting import Raised, on_worker, resource


@dataclass(frozen=True)
class DaskTransport:
    """The workers that a Dask client reaches (see `SiloTransport`)."""

    client: Any

    def present(self) -> tuple[str, ...]:
        """Return the silos that workers host at this moment, sorted."""
        return hosted_silos(self.client)

    def submit(self, silo: str, call: MethodCall) -> "DaskAnswer":
        """Have the worker that hosts `silo` carry out `call`; Dask waits for such a worker if there is none."""
        # A key of its own: Dask must not take the result of an equal call for the answer to this one.
        key = f"{call.method}-{uuid4()}"
        return DaskAnswer(silo, self.client.submit(on_worker, silo, call, key=key, resources={resource(silo): 1}))


@dataclass(frozen=True)
class DaskAnswer:
    """The future of a call to `silo` (see `PendingAnswer`)."""

    silo: str
    future: Any

    def result(self, timeout: float) -> Any:
        """Return the answer, or raise what the silo raised.

        Raises `SiloLost` if the call has killed its worker too often for Dask to try again, or the scheduler has gone.
        """
        from asyncio import CancelledError
        from concurrent import futures

        from distributed import KilledWorker

        try:
            answer = self.future.result(timeout=timeout)
        except KilledWorker:
            raise SiloLost((self.silo,), "its worker died again and again while solving") from None
        except (CancelledError, futures.CancelledError):  # which of them depends on Dask's version
            raise SiloLost((self.silo,), "the connection to the coordinator's scheduler was lost") from None
        if isinstance(answer, Raised):
            raise answer.again()
        return answer

    def release(self) -> None:
        """Let Dask drop the call and its result."""
        self.future.release()
