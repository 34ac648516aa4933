"""fedbnsl: learn the structure of a Bayesian network from data that several owners hold and may not pool."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedbnsl.flows.api import learn, prepare

__all__ = ["learn", "prepare"]


def __getattr__(name: str) -> Any:
    """Import the Python API on first use: it brings Prefect, which takes seconds."""
    if name in __all__:
        from fedbnsl.flows import api

        return getattr(api, name)
    raise AttributeError(f"module 'fedbnsl' has no attribute {name!r}")
