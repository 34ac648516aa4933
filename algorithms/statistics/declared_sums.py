"""Checks of a sum against what the silos have declared: a sum that honest silos cannot send is refused.

Masks hide the parts of a sum, so these checks name no silo, and they are necessary conditions only. A silo that counts
twice, or multiplies its whole part, has more rows than it declared. A sum of second moments about means has no negative
eigenvalue. Counts of rows are not negative, and no table has more rows than were declared.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..errors import BadInput

MAX_RELATIVE_ERROR = 1e-6
"""relative error of a number of rows that the rounding of masked sums may cause"""
MIN_EIGENVALUE = -1e-3
"""least eigenvalue of a correlation matrix that rounding may cause"""
WRONG = "the reply of a silo is wrong, and masks hide whose; ask the owners whether they run the same version"


def require_declared_rows(rows: float, declared: int) -> None:
    """Raise `BadInput` unless a sum is over the `declared` number of rows."""
    if not abs(rows - declared) <= MAX_RELATIVE_ERROR * declared:
        raise BadInput(f"a sum is over {rows:,.6g} rows, and the silos declared {declared:,}: {WRONG}")


def require_second_moments(S: FloatArray) -> None:
    """Raise `BadInput` unless `S` `[d, d]` may be second moments: finite and positive semidefinite up to rounding."""
    scales = np.sqrt(np.maximum(np.diag(S), 0.0))
    some = scales > 0
    valid = bool(np.isfinite(S).all() and (np.diag(S) >= 0).all())
    if valid and some.any():
        R = (S / np.outer(np.where(some, scales, 1.0), np.where(some, scales, 1.0)))[np.ix_(some, some)]
        valid = float(np.linalg.eigvalsh(R)[0]) >= MIN_EIGENVALUE * len(R)
    if not valid:
        raise BadInput(f"a sum of second moments is not positive semidefinite: {WRONG}")


def require_counts(counts: NDArray[Any], begins: NDArray[np.int64], declared: int) -> None:
    """Raise `BadInput` unless `counts` are not negative and no table has more than the `declared` number of rows.

    The tables are concatenated; `begins` has the offset of each, then their total size.
    """
    if not len(counts):
        return
    rows, least = float(np.add.reduceat(counts, begins[:-1]).max()), float(counts.min())
    if least < 0 or rows > declared:
        raise BadInput(
            f"a sum of counts is over {rows:,.0f} rows, with a least count of {least:,.0f}, and the silos declared "
            f"{declared:,} rows: {WRONG}"
        )
