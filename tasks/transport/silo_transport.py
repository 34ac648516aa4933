"""What a federation needs of whatever carries its calls to the silos: Dask, or nothing at all within one process."""

from typing import Any, Protocol

from ..silo.method_call import MethodCall


class PendingAnswer(Protocol):
    """An answer that is on its way."""

    def result(self, timeout: float) -> Any:
        """Return the answer, or raise what the silo raised.

        Raises `TimeoutError` if it has not come after `timeout` seconds, `SiloLost` if it never will.
        """
        ...

    def release(self) -> None:
        """Stop waiting for the answer, and free what is held for it."""
        ...


class SiloTransport(Protocol):
    """A way to the silos."""

    def present(self) -> tuple[str, ...]:
        """Return the names of the silos that are connected at this moment, sorted."""
        ...

    def submit(self, silo: str, call: MethodCall) -> PendingAnswer:
        """Send `call` to `silo` and return at once."""
        ...
