"""Serialisation of messages, states and checkpoints: msgpack with raw arrays, without pickle.

Messages, journaled states and checkpoints are frozen dataclasses of arrays, numbers, strings, enumerations, tuples and
dictionaries of these. Floats are preserved bit for bit.

Bytes may come from another party. `decode` therefore builds nothing but a value of the type that the reader names: the
type of every field is checked, arrays have numbers of a fixed set of types, and the number of items is limited before
any is built. The types of fields are resolved once per class; `prepare` resolves them in advance.
"""

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgpack
import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput, quoted

T = TypeVar("T")
Reader = Callable[[Any], Any]

_ARRAY = 1
_LEAVES = frozenset({bytes, str, int, float, bool, NoneType, np.ndarray})
"""types that are encoded without conversion; most parts of a message have one of these types"""
ARRAY_TYPES = {
    dtype.str: dtype
    for name in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
    for dtype in (np.dtype(name).newbyteorder("<"),)
}
"""the types of numbers that an array may have, by their names in a message"""
MAX_DIMENSIONS = 8
COUNTED_BYTES = 1 << 12
"""bytes above which the items of a message are counted before any is built; fewer bytes cannot claim much memory"""
MAX_ITEMS = 8_000_000
"""maximum number of items (numbers outside arrays, strings, entries of lists) in one message"""


def encode(value: object) -> bytes:
    """`value` (a dataclass, an array, a number, a string, a tuple or a dictionary of these) as bytes."""
    packed: bytes = msgpack.packb(_plain(value), default=_pack)
    return packed


def decode(kind: type[T], packed: bytes) -> T:
    """The value of type `kind` whose encoding is `packed`.

    Raises `ValueError`, without quoting the content, if the bytes are not such a value. The items of a plain `tuple`,
    `dict` or `np.ndarray` are not checked.
    """
    if len(packed) > COUNTED_BYTES:
        _require_few_items(packed)
    try:
        plain = msgpack.unpackb(packed, ext_hook=_unpack, use_list=False, strict_map_key=False)
    except (TypeError, OverflowError) as error:  # a dictionary as a key, a date out of range
        raise ValueError("the bytes are not a message") from error
    return cast(T, _reader(cast(Hashable, kind))(plain))


def prepare(kind: Any) -> None:
    """Resolve the types of the fields of `kind`, and of all dataclasses within it, so that `decode` need not."""
    pending, found = [kind], set()
    while pending:
        one = pending.pop()
        pending += [part for part in get_args(one) if isinstance(part, Hashable)]
        if isinstance(one, type) and dataclasses.is_dataclass(one) and one not in found:
            found.add(one)
            pending += field_types(one).values()


def field_types(kind: type) -> dict[str, Any]:
    """The types of the fields of a dataclass, by name."""
    return _field_types(cast(Hashable, kind))


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _plain(value: object) -> object:
    kind = type(value)
    if kind in _LEAVES:
        return value
    names = field_names(kind)  # type: ignore[arg-type]
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
def field_names(kind: type) -> tuple[str, ...] | None:
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
    unpacker = msgpack.Unpacker(use_list=False, max_array_len=MAX_DIMENSIONS, max_map_len=0, max_ext_len=0)
    unpacker.feed(packed)
    try:
        name, shape = unpacker.unpack()
        dtype = ARRAY_TYPES[name]
    except (msgpack.OutOfData, TypeError, LookupError) as error:
        raise ValueError("an array in a message has no valid head") from error
    if type(shape) is not tuple or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError("an array in a message has no valid shape")
    return np.frombuffer(packed, dtype, offset=unpacker.tell()).reshape(shape).copy()


@cache
def _reader(kind: Any) -> Reader:
    """A function that checks the plain form of a value of `kind` and returns the value; it raises `ValueError`."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda plain: plain
    if origin in (Union, UnionType):
        return _union_reader(kind, tuple(_reader(part) for part in parts))
    if origin is Literal:
        return lambda plain: _require(isinstance(plain, str | int) and plain in parts, plain, kind)
    if origin in (tuple, list):
        return _sequence_reader(kind, parts)
    if origin is not None and issubclass(origin, Mapping):
        key, item = map(_reader, parts)
        return lambda plain: {
            key(name): item(value) for name, value in _require(type(plain) is dict, plain, kind).items()
        }
    if origin is np.ndarray:
        numbers = get_args(parts[1])[0]
        if numbers is Any:
            return lambda plain: _require(isinstance(plain, np.ndarray), plain, kind)
        return lambda plain: _require(
            isinstance(plain, np.ndarray) and issubclass(plain.dtype.type, numbers), plain, kind
        )
    if dataclasses.is_dataclass(kind):
        return lambda plain: _instance(cast(type, kind), plain)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if kind is float:
        return lambda plain: _require(type(plain) in (float, int), plain, kind)
    if kind in (int, str, bytes, bool, NoneType, np.ndarray, tuple, dict):
        return lambda plain: plain if type(plain) is kind else _require(False, plain, kind)
    raise TypeError(f"{kind} cannot be in a message")


def _require(holds: bool, plain: Any, kind: Any) -> Any:
    if not holds:
        # The message omits the value: in a silo's journal it may contain rows.
        raise ValueError(f"the bytes are not a {kind}, but a value of type {type(plain).__name__}")
    return plain


def _union_reader(kind: Any, readers: tuple[Reader, ...]) -> Reader:
    def read(plain: Any) -> Any:
        for one in readers:
            try:
                return one(plain)
            except ValueError:
                continue
        return _require(False, plain, kind)

    return read


def _sequence_reader(kind: Any, parts: tuple[Any, ...]) -> Reader:
    if len(parts) == 2 and parts[1] is Ellipsis:
        leaf, item = (parts[0] if parts[0] in _LEAVES - {float} else None), _reader(parts[0])
        if leaf is not None:  # one pass without a call for each of possibly many items
            return lambda plain: _require(type(plain) is tuple and all(type(one) is leaf for one in plain), plain, kind)
        return lambda plain: tuple([item(one) for one in _require(type(plain) is tuple, plain, kind)])
    items = tuple(_reader(part) for part in parts if part != ())
    return lambda plain: tuple(
        [item(one) for item, one in zip(items, _require(_is_of_length(plain, len(items)), plain, kind), strict=True)]
    )


def _is_of_length(plain: Any, length: int) -> bool:
    return type(plain) is tuple and len(plain) == length


@cache
def _field_readers(kind: type) -> dict[str, Reader]:
    return {name: _reader(hint) for name, hint in field_types(kind).items()}


def _instance(kind: type, plain: Any) -> Any:
    _require(type(plain) is dict, plain, kind)
    readers, values = _field_readers(kind), {}
    for name, item in plain.items():
        if name not in readers:
            raise ValueError(f"the bytes are not a {kind}: it has no field {quoted(str(name))}")
        try:
            values[name] = readers[name](item)
        except BadInput:
            raise
        except ValueError as error:
            raise ValueError(f"the bytes are not a {kind}: its {name}: {error}") from error
    try:
        return kind(**values)
    except TypeError:
        raise ValueError(f"the bytes are not a {kind}: a field is missing") from None


_SIZES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""by the first byte of binary data, extensions and strings, the number of bytes of their length"""
_FIXED = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8} | {
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17
}  # fmt: skip
"""by the first byte of numbers and short extensions, the number of further bytes"""


def _require_few_items(packed: bytes) -> None:
    """Raise `ValueError` for a message with more than `MAX_ITEMS` items, or that claims more items than it has bytes.

    Only the heads of items are read. The library allocates a list as long as its head claims, and lists nest. The law
    here is that the open lists together claim no more items than bytes follow, because each item has at least one byte.
    """
    at, items, claimed, end = 0, 0, 1, len(packed)
    while claimed and at < end:
        head = packed[at]
        at += 1
        items += 1
        claimed -= 1
        if 0x80 <= head <= 0x9F:  # a short dictionary or list
            claimed += (head & 0x0F) * (2 if head < 0x90 else 1)
        elif head >= 0xDC:  # a long list or dictionary, or a small negative number
            if head < 0xE0:
                width = 2 if head in (0xDC, 0xDE) else 4
                claimed += int.from_bytes(packed[at : at + width]) * (1 if head < 0xDE else 2)
                at += width
        elif head in _SIZES:
            width = _SIZES[head]
            at += width + int.from_bytes(packed[at : at + width]) + (0xC7 <= head <= 0xC9)
        elif 0xA0 <= head <= 0xBF:  # a short string
            at += head & 0x1F
        else:
            at += _FIXED.get(head, 0)
        if items + claimed > MAX_ITEMS or claimed > end - at:
            raise ValueError(f"a message has more than {MAX_ITEMS:,} items, or claims more items than it has bytes")
