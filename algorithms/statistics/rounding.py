"""Numbers on a binary grid: sums of such numbers are exact, in any order, in the clear and behind masks."""

import numpy as np

from ..core.schema import FloatArray


def to_multiples(values: FloatArray, bits: int) -> FloatArray:
    """Return `values` rounded to multiples of 2^-`bits`."""
    return np.asarray(np.rint(np.ldexp(values, bits)) * 2.0**-bits)
