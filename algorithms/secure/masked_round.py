"""A round of an algorithm with secure aggregation: the encoding of a silo's summand, and the decoding of the sum."""

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import Algorithm, Replies, Sparse, Traffic
from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from ..statistics.moments import Table, column_summaries
from . import masks
from .exchange import Transport, secure_sum
from .masks import MESH_SILOS, PROTOCOL, Aborted, Ring, SecureSession, default_threshold, mask_threshold

# Fixed-point numbers have 32 bits before and 32 after the point. In this range of mean squares, the sums keep their
# leading digits.
MIN_MEAN_SQUARE = 2.0**-16
MAX_MEAN_SQUARE = 2.0**24


class OutOfRange(BadInput):
    """A column does not fit the fixed-point sums.

    `variable` is its name.
    """

    def __init__(self, message: str, variable: str) -> None:
        super().__init__(message)
        self.variable = variable


def check_range(algorithm: Algorithm, table: Table, schema: Schema, silo: str) -> None:
    """Raise `OutOfRange` for a column whose values are too small or too large for the fixed-point sums of `algorithm`.

    The message reaches the coordinator, so it names the column but not the value. Labels and events always fit. If
    summands are sent in units, the check uses centred columns in these units, and also checks the means. A silo's
    service skips the check in private runs: their replies use clipped values, and ε does not account for the outcome of
    the check.
    """
    if schema.kind in ("discrete", "events"):
        return
    columns = column_summaries(table)
    squares = columns.variances + columns.means**2
    if travels_in_units(algorithm, schema):
        _check_means(columns.means, schema, silo)
        squares = columns.variances / np.array(schema.units) ** 2
        squares = np.where(squares == 0, 1.0, squares)
    outside = (squares < MIN_MEAN_SQUARE) | (squares > MAX_MEAN_SQUARE)
    for j in np.flatnonzero(outside & ~schema.discrete):
        raise OutOfRange(
            f"silo {silo}, column '{schema.variables[j]}': its mean square does not fit the fixed-point numbers "
            f"of a secure sum ({MIN_MEAN_SQUARE:.3g} to {MAX_MEAN_SQUARE:.3g}): use another unit or, if all rows "
            f"of the silo are 0 there, leave the column out with --ignore {schema.variables[j]}",
            schema.variables[j],
        )


def _check_means(means: FloatArray, schema: Schema, silo: str) -> None:
    scaled_means = np.abs(means / np.array(schema.units))
    limit = 2.0**30 / len(schema.rows)
    for j in np.flatnonzero(scaled_means >= limit):
        raise OutOfRange(
            f"silo {silo}, column '{schema.variables[j]}': its mean is so large compared with its standard deviation "
            "that it does not fit the fixed-point numbers of a secure sum: subtract a constant",
            schema.variables[j],
        )


def new_attempt() -> int:
    """A fresh random number for an attempt at a sum: 62 bits, always of the same length."""
    return secrets.randbits(61) | 1 << 61


def session_of(
    run: str, number: int, attempt: int, schema: Schema, exchange: bytes, present: tuple[str, ...] | None = None
) -> SecureSession:
    """The terms of the secure sum of round `number`; each attempt has its own keys.

    `exchange` is a digest of the settings and the broadcast, which are the same for all silos of a session. If `schema`
    has more than 32 silos, the session consists of the silos in `present`, by default all. It then raises `Aborted` if
    `present` has fewer silos than the default threshold, or a silo that is not in `schema`.
    """
    silos = schema.silos
    if len(silos) > MESH_SILOS and present is not None:
        least, unknown = default_threshold(len(silos)), sorted(set(present) - set(silos))
        if unknown or len(set(present)) < least:
            raise Aborted(
                f"secure sum aborted: {', '.join(unknown)} is not in this run"
                if unknown
                else f"secure sum aborted: {len(present)} of {len(silos)} silos are left, the threshold is {least}"
            )
        silos = tuple(sorted(set(present)))
    return SecureSession(run, number, attempt, silos, mask_threshold(len(schema.rows)), exchange, PROTOCOL)


def travels_in_units(algorithm: Algorithm, schema: Schema) -> bool:
    """Whether the summands of `algorithm` are sent in units of the columns."""
    return bool(schema.units) and algorithm.entry_units is not None


@dataclass(frozen=True)
class Encoding:
    """The encoding of the summands of a round as ring elements.

    Public facts determine the encoding, so all silos and the coordinator use the same encoding.
    """

    silos: int
    whole: bool
    """whether summands are whole numbers"""
    sparse: Sparse | None = None
    """the positions of the entries that are sent; None means that all entries are sent"""
    units: FloatArray | None = None
    """the units in which floats are sent; None means that they are sent unchanged"""
    greatest: int | None = None
    """a bound on the entries of the sum, if the summands are counts; otherwise None"""

    def encode(self, vector: NDArray[Any]) -> Ring:
        """A silo's summand, or its entries at the public positions. Raises `BadInput` for a number out of range."""
        if self.units is not None:
            vector = vector / self.units
        if self.sparse is not None:
            vector = masks.gather(vector, self.sparse.positions)
        if self.greatest is not None:
            return masks.encode_counts(vector, self.greatest)
        return masks.encode_integers(vector, self.silos) if self.whole else masks.encode_fixed(vector, self.silos)

    def decode(self, total: Ring) -> NDArray[Any]:
        """The sum of the summands, at full length. Raises `Aborted` for a sum in another ring."""
        ring = masks.ring_of(self.greatest) if self.greatest is not None else masks.RINGS[-1]
        if total.dtype != ring:
            raise Aborted(f"secure sum aborted: the silos sent {total.dtype}, but this sum needs {ring}")
        integers = self.whole or self.greatest is not None
        values: NDArray[Any] = masks.decode_integers(total) if integers else masks.decode_fixed(total)
        if not self.whole:
            values = values.astype(np.float64, copy=False)
        full = values if self.sparse is None else masks.scatter(values, self.sparse.positions, self.sparse.length)
        return full if self.units is None else full * self.units


def encoding_of(algorithm: Algorithm, schema: Schema, broadcast: Any, sparse: Sparse | None = None) -> Encoding:
    """The encoding of the replies to `broadcast`; only the entries at the positions in `sparse` are sent."""
    greatest = algorithm.greatest_total(schema, broadcast) if algorithm.private is None else None
    in_units = greatest is None and travels_in_units(algorithm, schema)
    units = algorithm.entry_units(schema, broadcast) if in_units and algorithm.entry_units is not None else None
    return Encoding(len(schema.rows), algorithm.whole_numbers, sparse, units, greatest)


def masked_round(
    algorithm: Algorithm,
    session: SecureSession,
    transport: Transport,
    broadcast: Any,
    broadcast_bytes: int,
    encoding: Encoding,
) -> tuple[Replies[Any], Traffic]:
    """The sum over the silos that answered, and the traffic of all messages.

    `broadcast_bytes` is the size of the encoded broadcast. Raises `Aborted` as `secure_sum` and `Encoding.decode` do.
    """
    unmasked = secure_sum(session, transport)
    total = encoding.decode(unmasked.total)
    silos = len(session.silos)
    traffic = Traffic(
        up=unmasked.bytes_up,
        down=unmasked.bytes_down + silos * broadcast_bytes,
        formula=silos * algorithm.cost(broadcast) + len(unmasked.survivors) * 8 * len(unmasked.total),
    )
    return Replies(unmasked.survivors, total=total), traffic
