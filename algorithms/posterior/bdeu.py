"""BDeu scores of the families of labels, from one sum of count tables.

BDeu (Heckerman, Geiger & Chickering 1995) is that of the searches (`score/discrete.py`), with the prior over numbers of
parents in `family_space.py`. The tables to count follow from public numbers and the learned graph alone.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..errors import BadInput
from ..score.discrete import EXCLUDED_SCORE, Criterion, score_tables, sets_of
from ..score.families import Batch
from ..score.settings import SearchSettings
from ..statistics.count_tables import PAD
from .family_space import FamilySpace, structure_prices

EQUIVALENT_ROWS = 10.0
"""equivalent sample size of the prior of each table, in rows. With one row, as in searches, the prior expects tables of
zeros and ones, and probabilities of directions are too high (`benchmarks/posterior.py`, seeds 1000 to 1059)"""
MAX_CANDIDATES = 8
"""maximum number of candidate parents of a label"""
MAX_TABLE_CELLS = 500_000
"""maximum number of cells of all tables together"""
SEARCH = SearchSettings()
"""the searches of labels exclude families whose cells would have too few rows, and so does the posterior"""
SIZES = ((4, 2), (4, 1), (3, 1), (3, 0), (2, 0), (2, -1), (1, -1))
"""maximum number of candidates in a family without and with a further variable (−1: none); the first that fits"""


@dataclass(frozen=True)
class CountedFamilies:
    """The families to score, and the sets of variables whose tables contain them."""

    batch: Batch
    place: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    """child, mask and slot of each family of the batch"""
    sets: NDArray[np.int16]
    """`[n_sets, size]`, padded with -1"""


def counted_families(space: FamilySpace, levels: NDArray[np.int64]) -> CountedFamilies:
    """The families of variables with these numbers of `levels` `[d]`: as large as fit into `MAX_TABLE_CELLS`.

    Raises `BadInput` if not even those of single candidates fit.
    """
    for alone, beside in SIZES:
        found = _of_size(space, levels, alone, beside)
        cells = np.where(found.sets == PAD, 1.0, levels[found.sets]).prod(axis=1).sum()
        if cells <= MAX_TABLE_CELLS:
            return found
    raise BadInput(f"the tables of all pairs would have {cells:,.0f} cells, more than {MAX_TABLE_CELLS:,}")


def _of_size(space: FamilySpace, levels: NDArray[np.int64], alone: int, beside: int) -> CountedFamilies:
    """The families of at most `alone` candidates or, with a further variable, `beside` candidates."""
    listed = [one for one in space.small_families(alone) if one[2] == 0 or one[1].bit_count() <= beside]
    first = np.cumsum([0, *(1 + len(parents) for *_, parents in listed)])
    members = [v for child, _, _, parents in listed for v in (child, *parents)]
    batch = Batch(first.astype(np.int64), np.array(members, np.uint16))
    child, mask, slot = (np.array([one[at] for one in listed], np.int64) for at in range(3))
    return CountedFamilies(batch, (child, mask, slot), sets_of(batch, levels, SEARCH.most_cells).sets)


def bdeu_scores(
    counts: NDArray[np.int64],
    families: CountedFamilies,
    space: FamilySpace,
    levels: NDArray[np.int64],
    ess: float = EQUIVALENT_ROWS,
) -> FloatArray:
    """BDeu of every family from the concatenated `counts` of the tables, `[d, masks, slots]`; −∞ if it is not counted.

    `ess` is the equivalent sample size of the prior, in rows.
    """
    criterion = Criterion(bdeu=True, weight=ess, prior=structure_prices(len(levels)))
    found = score_tables(counts, families.batch, levels, criterion, SEARCH)
    scores = np.full(space.shape, -np.inf)
    scores[families.place] = np.where(found > EXCLUDED_SCORE, found, -np.inf)
    return scores
