"""Serialisation of messages, states and checkpoints: msgpack with raw arrays, without pickle.

Messages, journaled states and checkpoints are frozen dataclasses of arrays, numbers, strings, enumerations, tuples and
dictionaries of these. Floats are preserved bit for bit.
"""

import dataclasses
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgpack
import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

_ARRAY = 1
_LEAVES = frozenset({bytes, str, int, float, bool, type(None), np.ndarray})
"""types that are encoded without conversion; most parts of a message have one of these types"""


def encode(value: object) -> bytes:
    """`value` (a dataclass, an array, a number, a string, a tuple or a dictionary of these) as bytes."""
    packed: bytes = msgpack.packb(_plain(value), default=_pack)
    return packed


def decode(kind: type[T], packed: bytes) -> T:
    """The value whose encoding is `packed`.

    If `kind` is a dataclass, a tuple of dataclasses or an enumeration, raises `ValueError` if the bytes are not such a
    value. Other types are not checked.
    """
    plain = msgpack.unpackb(packed, ext_hook=_unpack, use_list=False, strict_map_key=False)
    return _typed(kind, plain)  # type: ignore[no-any-return]


def _plain(value: object) -> object:
    kind = type(value)
    if kind in _LEAVES:
        return value
    names = _field_names(kind)  # type: ignore[arg-type]
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return tuple(item if type(item) in _LEAVES else _plain(item) for item in value)
    return value


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a dataclass, None for any other class."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def _pack(value: object) -> object:
    if isinstance(value, np.ndarray):
        head: bytes = msgpack.packb((value.dtype.str, value.shape))
        return msgpack.ExtType(_ARRAY, head + np.ascontiguousarray(value).tobytes())
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(
        f"{type(value).__name__} cannot be encoded: only dataclasses, arrays, numbers, strings and tuples can"
    )


def _unpack(code: int, packed: bytes) -> NDArray[Any]:
    if code != _ARRAY:
        raise ValueError(f"unknown extension {code} in a message")
    unpacker = msgpack.Unpacker(use_list=False)
    unpacker.feed(packed)
    dtype, shape = unpacker.unpack()
    return np.frombuffer(packed, np.dtype(dtype), offset=unpacker.tell()).reshape(shape).copy()


def _typed(kind: Any, plain: Any) -> Any:
    read = _reader(kind)
    return plain if read is None else read(plain)


@cache
def _reader(kind: Any) -> Callable[[Any], Any] | None:
    """A function that converts the plain form to a value of `kind`; None if the plain form is the value.

    The function is cached, because resolving the types of a class's fields takes longer than decoding a small message.
    """
    if dataclasses.is_dataclass(kind):
        return lambda plain: _instance(kind, plain)
    if get_origin(kind) is tuple and dataclasses.is_dataclass(get_args(kind)[0]):
        item_kind = get_args(kind)[0]
        return lambda plain: tuple(_instance(item_kind, item) for item in plain)
    return kind if isinstance(kind, type) and issubclass(kind, Enum) else None


@cache
def _field_readers(kind: Any) -> dict[str, Callable[[Any], Any] | None]:
    return {name: _reader(hint) for name, hint in get_type_hints(kind).items()}


def _instance(kind: Any, plain: Any) -> Any:
    if not isinstance(plain, dict):
        # The message omits the value: in a silo's journal it may contain rows.
        raise ValueError(f"the bytes are not a {kind}, but a value of type {type(plain).__name__}")
    readers = _field_readers(kind)
    try:
        return kind(**{name: item if (read := readers[name]) is None else read(item) for name, item in plain.items()})
    except (KeyError, TypeError) as error:
        raise ValueError(f"the bytes are not a {kind}: {error}") from error
