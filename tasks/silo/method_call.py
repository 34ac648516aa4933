"""A call of a method of a silo's service, as a value that a transport carries."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from .service import SiloService

Method = Literal["describe", "admit", "seal", "solve", "secure_answer", "charges", "finish"]
"""the methods of `SiloService` that a coordinator may call"""
METHODS = get_args(Method)


@dataclass(frozen=True)
class MethodCall:
    """A method of `SiloService` by name, and the arguments to call it with."""

    method: Method
    arguments: tuple[Any, ...] = ()

    def on(self, service: SiloService) -> Any:
        """Return what the method of `service` returns; raises `ValueError` for one that is not for a coordinator."""
        if self.method not in METHODS:
            raise ValueError(f"a coordinator may not call '{self.method}' of a silo: only {', '.join(METHODS)}")
        return getattr(service, self.method)(*self.arguments)
