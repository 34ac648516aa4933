from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from fedbnsl.algorithms.core import wire


@dataclass(frozen=True)
class Inner:
    flag: bool
    table: dict[str, float]


@dataclass(frozen=True)
class Message:
    number: int
    name: str
    values: NDArray[np.float64]
    names: tuple[str, ...]
    inner: Inner
    several: tuple[Inner, ...] = ()


@given(arrays(st.sampled_from(list(wire.ARRAY_TYPES.values())), array_shapes(min_dims=0, max_dims=3, min_side=0)))
def test_arrays_come_back_bit_for_bit(array: NDArray) -> None:
    back = wire.decode(np.ndarray, wire.encode(array))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


@given(st.integers(-(2**60), 2**60), st.text(), st.floats(), st.lists(st.text()))
def test_dataclasses_come_back_with_nested_ones(number: int, name: str, value: float, names: list[str]) -> None:
    message = Message(
        number, name, np.array([value, -0.0]), tuple(names), Inner(True, {"a": value}), (Inner(False, {}),)
    )
    packed = wire.encode(message)
    back = wire.decode(Message, packed)
    assert isinstance(back.inner, Inner)
    assert back.several == message.several
    assert wire.encode(back) == packed
    assert back.names == tuple(names)


def test_decoded_arrays_can_be_written_to() -> None:
    wire.decode(np.ndarray, wire.encode(np.zeros(3)))[0] = 1


def test_what_is_not_data_does_not_travel() -> None:
    with pytest.raises(TypeError, match="function cannot be encoded"):
        wire.encode(lambda: None)


@pytest.mark.parametrize("packed", [b"\x81\xa5other\x01", b"\x80"])
def test_bytes_of_something_else_are_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match="bytes are not"):
        wire.decode(Message, packed)


SAMPLES = {int: 3, float: 0.5, str: "a", bytes: b"a", bool: True, tuple[int, ...]: (1, 2), tuple[str, ...]: ("a",)}


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("other", SAMPLES)
def test_a_value_of_another_type_is_refused(kind, other):
    packed = wire.encode(SAMPLES[other])
    if kind == other or (kind, other) == (float, int):
        assert wire.decode(kind, packed) == SAMPLES[other]
    else:
        with pytest.raises(ValueError, match="the bytes are not"):
            wire.decode(kind, packed)
