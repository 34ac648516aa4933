"""A round of an algorithm with secure aggregation: the encoding of a silo's summand, and the decoding of the sum."""

import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Sparse, Traffic
from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from ..statistics.moments import Table, column_summaries
from . import masks
from .exchange import Transport, secure_sum
from .masks import MESH_SILOS, Aborted, Ring, SecureSession, default_threshold, mask_threshold

Algorithm = FederatedAlgorithm[Any, Any, Any, Any]

# Fixed-point numbers have 32 bits before and after the point; the range keeps the leading digits of mean squares.
MIN_MEAN_SQUARE = 2.0**-16
MAX_MEAN_SQUARE = 2.0**24


class OutOfRange(BadInput):
    """A column does not fit the fixed-point sums; `variable` is its name."""

    def __init__(self, message: str, variable: str) -> None:
        """The message, and the column that it is about."""
        super().__init__(message)
        self.variable = variable


def check_range(algorithm: Algorithm, table: Table, schema: Schema, silo: str) -> None:
    """Raise `OutOfRange` for a column whose values are too small or too large for the fixed-point sums of `algorithm`.

    The message reaches the coordinator, so it names the column but not the value. Codes always fit, as do the
    indicators of mixed data and the sums over events. If summands are sent in units, the check uses centred columns
    in these units. The silo service skips this check in private runs: ε does not account for its outcome, and
    replies use clipped values.
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
            f"of a secure sum ({MIN_MEAN_SQUARE:.3g} to {MAX_MEAN_SQUARE:.3g}): use another unit",
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

    `exchange` is a digest of what is summed: all silos of a session were sent the same settings and broadcast. Above
    32 silos the session is one of those that are `present`, by default all; raises `Aborted` if these are fewer than
    the default threshold, or not silos of `schema`.
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
    return SecureSession(run, number, attempt, silos, mask_threshold(len(schema.rows)), exchange)


def travels_in_units(algorithm: Algorithm, schema: Schema) -> bool:
    """Whether the summands of `algorithm` are sent in units of the columns."""
    return bool(schema.units) and algorithm.entry_units is not None


def units_of(algorithm: Algorithm, schema: Schema, broadcast: Any) -> FloatArray | None:
    """The public units in which the entries of this round's summands are sent; None without units."""
    if not travels_in_units(algorithm, schema):
        return None
    assert algorithm.entry_units is not None
    return algorithm.entry_units(schema, broadcast)


def to_ring(
    algorithm: Algorithm, reply: Any, sparse: Sparse | None, silos: int, units: FloatArray | None = None
) -> Ring:
    """A silo's reply as a ring vector for the sum: its full summand, or the entries at the public positions."""
    assert algorithm.summand is not None
    vector = algorithm.summand(reply)
    if units is not None:
        vector = vector / units
    if sparse is not None:
        vector = masks.gather(vector, sparse.positions)
    if algorithm.whole_numbers:
        return masks.encode_integers(vector, silos)
    return masks.encode_fixed(vector, silos)


def from_ring(
    algorithm: Algorithm, total: Ring, sparse: Sparse | None, units: FloatArray | None = None
) -> NDArray[Any]:
    """The sum of the summands, at full length."""
    values: NDArray[Any] = masks.decode_integers(total) if algorithm.whole_numbers else masks.decode_fixed(total)
    full = values if sparse is None else masks.scatter(values, sparse.positions, sparse.length)
    return full if units is None else full * units


def masked_round(
    algorithm: Algorithm,
    session: SecureSession,
    transport: Transport,
    broadcast: Any,
    broadcast_bytes: int,
    sparse: Sparse | None,
    units: FloatArray | None = None,
) -> tuple[Replies[Any], Traffic]:
    """The sum over the silos of `transport`, sent in `units`, and the traffic of all messages.

    `broadcast_bytes` is the size of the encoded broadcast. Raises `Aborted` if too few silos answer.
    """
    unmasked = secure_sum(session, transport)
    total = from_ring(algorithm, unmasked.total, sparse, units)
    silos = len(session.silos)
    traffic = Traffic(
        up=unmasked.bytes_up,
        down=unmasked.bytes_down + silos * broadcast_bytes,
        formula=silos * algorithm.cost(broadcast) + len(unmasked.survivors) * 8 * len(unmasked.total),
    )
    return Replies(unmasked.survivors, total=total), traffic
