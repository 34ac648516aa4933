"""The summands of several learners as one: one sum over the silos is then the sum of each of them.

The length of a summand is the same at all silos, and may be known to nobody before. So the lengths stand in front, and
are added up with everything else: their sum over the silos is so many times each of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import Sparse


def joined(summands: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the lengths of the `summands`, then all of them, one after another."""
    lengths = np.array([len(one) for one in summands], summands[0].dtype)
    return np.concatenate([lengths, *summands])


def taken_apart(total: NDArray[Any], count: int, silos: int) -> list[NDArray[Any]]:
    """Return the sums of `count` summands of which `total` is the sum over so many `silos`."""
    lengths = np.rint(total[:count] / silos).astype(np.int64)
    return np.split(total[count:], np.cumsum(lengths)[:-1])


def joined_sparse(each: Sequence[Sparse | None]) -> Sparse | None:
    """Return where joined summands may differ from zero, None if that is not known of one of them."""
    known = [one for one in each if one is not None]
    if len(known) < len(each):
        return None
    begins = len(known) + np.cumsum([0, *(one.length for one in known)])
    parts = [begin + one.positions for begin, one in zip(begins[:-1], known, strict=True)]
    return Sparse(np.concatenate([np.arange(len(known)), *parts]), int(begins[-1]))
