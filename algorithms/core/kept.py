"""The fields of a silo's state that change from round to round, as bytes: all that is kept of it between rounds."""

from dataclasses import replace
from typing import Any, get_type_hints

from . import wire
from .protocol import FederatedAlgorithm


def pack_state(algorithm: FederatedAlgorithm[Any, Any, Any, Any], state: Any) -> bytes:
    """Return the fields of a silo's state that change from round to round, as bytes."""
    return wire.encode({name: wire.encode(getattr(state, name)) for name in algorithm.kept})


def unpack_state(algorithm: FederatedAlgorithm[Any, Any, Any, Any], opened: Any, packed: bytes) -> Any:
    """Return `opened` (fresh from `open_silo`) with the fields in `packed` put back."""
    hints = get_type_hints(algorithm.silo_type)
    kept: dict[str, bytes] = wire.decode(dict, packed)
    return replace(opened, **{name: wire.decode(hints[name], value) for name, value in kept.items()})
