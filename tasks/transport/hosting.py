"""What a Dask worker that hosts silos has: their services, the resources that announce them, and one thread each.

The services are an attribute of the worker. A call from the coordinator runs `on_worker` there, which finds them again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms.errors import BadInput

from ..silo.method_call import MethodCall
from ..silo.policy import NotAllowed
from ..silo.service import SiloService

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""One BLAS thread a worker: two workers with a thread per core each take a hundred times as long."""

ATTRIBUTE = "fedbnsl_silos"
SAID = "fedbnsl_say"


def resource(silo: str) -> str:
    """Return the Dask resource that pins a call to the worker hosting `silo`."""
    return f"silo:{silo}"


def host(worker: Any, services: Iterable[SiloService], say: Callable[[str], None] = lambda line: None) -> None:
    """Attach `services` to a Dask `worker` that is starting, and announce each of them as a resource.

    `say` tells the owner, in one line, what its policy has refused.
    """
    hosted = {service.name: service for service in services}
    setattr(worker, ATTRIBUTE, hosted)
    setattr(worker, SAID, say)
    for silo in hosted:
        worker.state.total_resources.setdefault(resource(silo), 1)
        worker.state.available_resources.setdefault(resource(silo), 1)


def hosted_by(worker: Any) -> dict[str, SiloService]:
    """Return the services attached to a Dask `worker`, by silo."""
    hosted: dict[str, SiloService] = getattr(worker, ATTRIBUTE, {})
    return hosted


@dataclass(frozen=True)
class Raised:
    """What a call raised, as a value: Dask would send a traceback along, with paths and code of the silo's machine."""

    kind: type[Exception]
    arguments: tuple[Any, ...]

    def again(self) -> Exception:
        """Return the exception, to be raised where the answer is awaited."""
        return self.kind(*self.arguments)


def on_worker(silo: str, call: MethodCall) -> Any:
    """Return what `call` gives at `silo`, or what it `Raised`, on the Dask worker that runs this function."""
    from distributed import get_worker

    worker = get_worker()
    hosted = hosted_by(worker)
    if silo not in hosted:
        return Raised(BadInput, (f"silo {silo} is not hosted by this worker",))
    try:
        return call.on(hosted[silo])
    except Exception as error:
        if isinstance(error, NotAllowed):
            getattr(worker, SAID)(f"refused: {error}")
        return Raised(type(error), error.args)
