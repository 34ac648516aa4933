"""A round of an algorithm with secure aggregation: what a silo adds to the sum, how the coordinator reads it."""

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
from .masks import Ring, SecureSession, default_threshold

Algorithm = FederatedAlgorithm[Any, Any, Any, Any]

# Fixed-point numbers have 32 bits before and after the point; mean squares must keep their leading digits in them.
LEAST_MEAN_SQUARE = 2.0**-16
GREATEST_MEAN_SQUARE = 2.0**24


def is_masked(algorithm: Algorithm, schema: Schema, *, asked: bool) -> bool:
    """Whether replies to `algorithm` travel masked: where `asked`, or where the algorithm needs it.

    Raises `BadInput` if they must but cannot: with one silo, or for an algorithm that needs each single reply.
    """
    if asked and algorithm.summand is None:
        raise BadInput("--secure: this algorithm needs each silo's reply, not only their sum")
    if asked and len(schema.rows) < 2:
        raise BadInput("--secure: there is one silo, so its reply would be the sum")
    return asked or (algorithm.needs_secure_sum and len(schema.rows) > 1)


def check_range(algorithm: Algorithm, table: Table, schema: Schema, silo: str) -> None:
    """Raise `BadInput` for a column whose values are too small or too large for the fixed-point sums of `algorithm`.

    The message reaches the coordinator, from whom the figure itself is to be hidden: it names the column alone.
    Codes always fit, and so do the indicators of mixed data. Where its summands travel in units, columns are measured
    in them, about their means. The silo service skips this check in private runs: the outcome would disclose something
    about the rows that no ε covers, and their replies are made of clipped values.
    """
    if schema.kind == "discrete":
        return
    columns = column_summaries(table)
    squares = columns.variances + columns.means**2
    if travels_in_units(algorithm, schema):
        _check_means(columns.means, schema, silo)
        squares = columns.variances / np.array(schema.units) ** 2
        squares = np.where(squares == 0, 1.0, squares)
    outside = (squares < LEAST_MEAN_SQUARE) | (squares > GREATEST_MEAN_SQUARE)
    for j in np.flatnonzero(outside & ~schema.discrete):
        raise BadInput(
            f"silo {silo}, column '{schema.variables[j]}': its mean square does not fit the fixed-point numbers "
            f"of a secure sum ({LEAST_MEAN_SQUARE:.3g} to {GREATEST_MEAN_SQUARE:.3g}): use another unit"
        )


def _check_means(means: FloatArray, schema: Schema, silo: str) -> None:
    far = np.abs(means / np.array(schema.units))
    greatest = 2.0**30 / len(schema.rows)
    for j in np.flatnonzero(far >= greatest):
        raise BadInput(
            f"silo {silo}, column '{schema.variables[j]}': its mean is so large beside what it varies by that it "
            "does not fit the fixed-point numbers of a secure sum: take a constant away"
        )


def new_attempt() -> int:
    """A number for an attempt at a sum that no coordinator has used before: 62 bits, all of the same length."""
    return secrets.randbits(61) | 1 << 61


def session_of(run: str, number: int, attempt: int, schema: Schema) -> SecureSession:
    """The terms of the secure sum of round `number`; each attempt at it has keys of its own."""
    return SecureSession(run, number, attempt, schema.silos, default_threshold(len(schema.rows)))


def travels_in_units(algorithm: Algorithm, schema: Schema) -> bool:
    """Whether the summands of `algorithm` travel in units of the columns."""
    return bool(schema.units) and algorithm.entry_units is not None


def units_of(algorithm: Algorithm, schema: Schema, broadcast: Any) -> FloatArray | None:
    """The public units in which the entries of this round's summands travel; None where they have none."""
    if not travels_in_units(algorithm, schema):
        return None
    assert algorithm.entry_units is not None
    return algorithm.entry_units(schema, broadcast)


def to_ring(
    algorithm: Algorithm, reply: Any, sparse: Sparse | None, silos: int, units: FloatArray | None = None
) -> Ring:
    """A silo's reply as the ring vector it adds to the sum: all of its summand, or the public positions."""
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
    """The sum of the summands, in its full length."""
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
    """The sum that the silos behind `transport` gave, in `units` on its way, and what all messages took.

    `broadcast_bytes` is the size of the encoded broadcast. Raises `Aborted` if too few silos answered.
    """
    found = secure_sum(session, transport)
    total = from_ring(algorithm, found.total, sparse, units)
    silos = len(session.silos)
    traffic = Traffic(
        up=found.bytes_up,
        down=found.bytes_down + silos * broadcast_bytes,
        formula=silos * algorithm.cost(broadcast) + len(found.survivors) * 8 * len(found.total),
    )
    return Replies(found.survivors, total=total), traffic
