"""What a Dask worker that hosts silos has: their services, the resources that announce them, and one thread each.

The services are an attribute of the worker. A call from the coordinator runs `on_worker` there, which finds them again.
"""

from collections.abc import Iterable
from typing import Any

from fedbnsl.algorithms.errors import BadInput

from ..silo.method_call import MethodCall
from ..silo.service import SiloService

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""One BLAS thread a worker: two workers with a thread per core each take a hundred times as long."""

ATTRIBUTE = "fedbnsl_silos"


def resource(silo: str) -> str:
    """Return the Dask resource that pins a call to the worker hosting `silo`."""
    return f"silo:{silo}"


def host(worker: Any, services: Iterable[SiloService]) -> None:
    """Attach `services` to a Dask `worker` that is starting, and announce each of them as a resource."""
    hosted = {service.name: service for service in services}
    setattr(worker, ATTRIBUTE, hosted)
    for silo in hosted:
        worker.state.total_resources.setdefault(resource(silo), 1)
        worker.state.available_resources.setdefault(resource(silo), 1)


def hosted_by(worker: Any) -> dict[str, SiloService]:
    """Return the services attached to a Dask `worker`, by silo."""
    hosted: dict[str, SiloService] = getattr(worker, ATTRIBUTE, {})
    return hosted


def on_worker(silo: str, call: MethodCall) -> Any:
    """Return what `call` gives at `silo`, on the Dask worker that runs this function.

    Raises `BadInput` if this worker does not host the silo.
    """
    from distributed import get_worker

    hosted = hosted_by(get_worker())
    if silo not in hosted:
        raise BadInput(f"silo {silo} is not hosted by this worker: start it with --silo {silo}=FILE")
    return call.on(hosted[silo])
