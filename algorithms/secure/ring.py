"""Vectors of numbers as vectors of the ring of integers modulo 2⁶⁴, in which masks are uniform and sums are exact.

Integers are themselves, floats fixed-point numbers: v is the integer nearest to v·2^f, so the sum of P vectors is off
by at most P·2^-(f+1) an entry, plus the rounding of the decoded sum to 53 bits. Each of the P summands must stay below
2⁶³/P, so that no sum wraps around; a larger entry is refused, not clipped.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.schema import FloatArray
from ..errors import BadInput
from .masks import Ring

FRACTION_BITS = 32

Number = TypeVar("Number", bound=np.number)
Labels = Sequence[str] | None
"""what the entries are called in messages, besides by their position"""


def encode_integers(values: ArrayLike, summands: int, labels: Labels = None) -> Ring:
    """Return integers `[n]` as ring elements, to be summed over at most `summands` silos.

    Raises `BadInput` that names the place of an entry of size 2⁶³/summands or more, `TypeError` for numbers of another
    type.
    """
    integers = np.asarray(values)
    if not np.issubdtype(integers.dtype, np.integer):
        raise TypeError(f"whole numbers must come as an integer type, not as {integers.dtype}")
    most = (2**63 - 1) // _positive(summands)
    _refuse_first((integers > most) | (integers < -most), f"at most {most}", summands, labels)
    return integers.astype(np.int64).view(np.uint64)


def encode_fixed(values: ArrayLike, summands: int, fraction_bits: int = FRACTION_BITS, labels: Labels = None) -> Ring:
    """Return floats `[n]` as ring elements with `fraction_bits` bits after the point, for at most `summands` silos.

    Raises `BadInput` that names the place of an entry that is not finite, or of size 2^(63 − fraction_bits)/summands or
    more.
    """
    if not 0 <= fraction_bits <= 62:
        raise BadInput(f"parameter fraction_bits is {fraction_bits}: it must be 0 to 62")
    floats = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        scaled = np.rint(np.ldexp(floats, fraction_bits))
    # No float lies between 2⁶³/summands and its rounded value here, so comparing with either gives the same answer.
    limit = 2.0**63 / _positive(summands)
    range_ = f"below {np.ldexp(limit, -fraction_bits):g}"
    _refuse_first(~(np.abs(scaled) < limit), range_, summands, labels)
    return scaled.astype(np.int64).view(np.uint64)


def decode_integers(total: Ring) -> NDArray[np.int64]:
    """Return the sum of the integers whose encodings sum to `total`."""
    return total.view(np.int64)


def decode_fixed(total: Ring, fraction_bits: int = FRACTION_BITS) -> FloatArray:
    """Return the sum of the floats whose encodings, with `fraction_bits`, sum to `total`."""
    return np.ldexp(total.view(np.int64).astype(np.float64), -fraction_bits)


def gather(dense: NDArray[Number], positions: NDArray[np.int64], labels: Labels = None) -> NDArray[Number]:
    """Return the entries of `dense` `[length]` at public `positions`: the vector must be 0 everywhere else.

    The positions must be fixed by the coordinator: positions chosen by a silo would reveal the support of its vector.
    Raises `BadInput` that names the first entry elsewhere that is not 0, and for positions as `scatter` does.
    """
    _check_positions(positions, len(dense))
    elsewhere = np.asarray(dense != 0)
    elsewhere[positions] = False
    for at in np.flatnonzero(elsewhere)[:1]:
        raise BadInput(f"{_name(at, labels)} is not 0: only {len(positions)} other, public positions are sent")
    return dense[positions]


def scatter(entries: NDArray[Number], positions: NDArray[np.int64], length: int) -> NDArray[Number]:
    """Return the vector `[length]` with `entries` at `positions` and 0 elsewhere: the inverse of `gather`.

    Raises `BadInput` if the positions do not rise, are not within the length, or not as many as the entries.
    """
    _check_positions(positions, length)
    if len(entries) != len(positions):
        raise BadInput(f"{len(entries)} entries were sent for {len(positions)} public positions")
    dense = np.zeros(length, entries.dtype)
    dense[positions] = entries
    return dense


def _positive(summands: int) -> int:
    if summands < 1:
        raise BadInput(f"parameter summands is {summands}: it must be 1 or more")
    return summands


def _check_positions(positions: NDArray[np.int64], length: int) -> None:
    if len(positions) and (np.any(np.diff(positions) <= 0) or positions[0] < 0 or positions[-1] >= length):
        raise BadInput(f"public positions must rise, from 0 or more to below {length}")


def _refuse_first(bad: NDArray[np.bool_], range_: str, summands: int, labels: Labels) -> None:
    """Refuse the first bad entry by its place alone: its value is what masks are to hide."""
    for at in np.flatnonzero(bad)[:1]:
        raise BadInput(
            f"{_name(at, labels)} is out of range: its size must be {range_}, "
            f"so that a sum of {summands} cannot overflow"
        )


def _name(at: int, labels: Labels) -> str:
    return f"entry {at} ({labels[at]})" if labels is not None else f"entry {at}"
