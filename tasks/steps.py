"""Work for several silos at once, each in a thread of its own."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

Work = Callable[[], Any]
"""what is to be done for one silo"""

Wait = Callable[[], Any]
"""a function that returns what the work returned, once it has been done, or raises what it raised"""

Start = Callable[[Mapping[str, Work]], Mapping[str, Wait]]
"""Start the work for every silo, all at once."""


def in_threads(works: Mapping[str, Work]) -> Mapping[str, Wait]:
    """Start the work for each silo in a thread of its own."""
    pool = ThreadPoolExecutor(max(1, len(works)))
    waits = {silo: pool.submit(work).result for silo, work in works.items()}
    pool.shutdown(wait=False)
    return waits
