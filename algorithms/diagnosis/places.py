"""Figures of each silo in a sum: each has a place of its own, and leaves those of the others at zero."""

from typing import Any

import numpy as np

from ..core.protocol import Replies
from ..core.schema import FloatArray, Schema


def places(silos: int, figures: int) -> FloatArray:
    """Return room for so many figures of so many silos, each a value and the number of its column."""
    return np.zeros((silos, figures, 2))


def by_silo(replies: Replies[Any], schema: Schema) -> FloatArray:
    """Return what the sum holds of each silo, in sorted order, `[silos, figures, 2]`; NaN for one that is lost."""
    assert replies.total is not None
    found = replies.total.reshape(len(schema.silos), -1, 2).copy()
    found[[place for place, silo in enumerate(schema.silos) if silo not in replies.silos]] = np.nan
    return found
