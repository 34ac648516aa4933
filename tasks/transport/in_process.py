"""The silos in this process: their own services, called directly."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..silo.method_call import MethodCall
from ..silo.service import SiloService


@dataclass(frozen=True)
class InProcessTransport:
    """Services by silo (see `SiloTransport`)."""

    services: Mapping[str, SiloService]

    def present(self) -> tuple[str, ...]:
        """Return all silos."""
        return tuple(sorted(self.services))

    def submit(self, silo: str, call: MethodCall) -> "Answered":
        """Carry out `call` before returning; raises what the silo raises."""
        return Answered(call.on(self.services[silo]))


@dataclass(frozen=True)
class Answered:
    """An answer that is there (see `PendingAnswer`)."""

    answer: Any

    def result(self, timeout: float) -> Any:
        """Return the answer at once."""
        return self.answer

    def release(self) -> None:
        """Do nothing: nothing is held."""
