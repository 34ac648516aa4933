"""What a run on this machine needs besides this process, started while this process still imports and checks."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedbnsl.tasks.fork_server import fork_server

from .environment import prepare_environment
from .processes import Ready, temporary_server


@contextmanager
def ahead(engine: str, *, quiet: bool) -> Iterator[Ready | None]:
    """Start a Prefect server unless the user has one, and the process that workers are forked from.

    Yield what waits for the server and returns the URL of its API; None for an engine other than Prefect, which needs
    neither. `quiet` silences Prefect's own messages.
    """
    prepare_environment(quiet=quiet)
    if engine != "prefect":
        yield None
        return
    with temporary_server() as ready:
        fork_server()
        yield ready
