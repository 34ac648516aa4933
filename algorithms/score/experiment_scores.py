"""Scores of families if experiments have set variables (`core/experiments.py`), for numbers, mixed tables and labels.

An experiment is done in some conditions (parts of the rows), and targets variables. A family (a child and its parents)
is scored on the rows of the conditions that do not target its child. With `target_rows=own` (the default), the rows of
the other conditions are also scored, with separate parameters: the child's mechanism is different there, but still
depends only on the child's parents (Yang, Katcoff, Uhler 2018, Definition 3.3). With `left-out`, these rows are not
scored (GIES: Hauser, Bühlmann 2012). Leaving them out is exact for experiments that cut the child off from its causes,
such as randomisation. If the child still depends on its causes, for example after inhibition by half, leaving the rows
out favours wrong directions, because the dependence in these rows then costs nothing. More rows increase this error.

There is a sum of moments for each set of conditions on which some child is scored. The sum over the rows that it leaves
out is its difference from the sum over all rows, so both settings need the same sums of moments. Tables of counts are
requested for the rows that a sum leaves out, too (`requests`). Scores are equal for all members of an interventional
class, because the two ends of an undirected edge are scored on the same rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.schema import FloatArray
from ..graphs.cpdag import member_of
from ..graphs.imposed_knowledge import experimental_arcs
from ..statistics.coding import Coding, blocks_of
from ..statistics.count_tables import PAD, offsets
from ..statistics.moments import covariance
from ..statistics.rows import configuration_offsets
from .boss import rounding_error
from .discrete import sets_of
from .families import Batch, families_of, split_by_group
from .gaussian import score_blocks, score_covariance, score_own_covariance
from .ges import Scores
from .procedures import ScoreSearch, search
from .settings import SearchSettings, TargetRows

SEARCHES = 4
"""number of searches over orders, each from several random orders; the best result is used"""
MAX_REPEATED = 40
"""number of variables above which there is only one search"""
MIN_SPARE_ROWS = 3
"""mixed data: the rows in which a variable was set are scored if they are more than the coded columns by this number"""


def number_scores(moments: FloatArray, group: NDArray[np.int64], target_rows: TargetRows, price: float) -> Scores:
    """The function that scores families of numbers by Gaussian BIC, with a further `price` for each parent.

    `moments` are the pooled moments of each sum, `[n_sums, size]`; sum 0 is over all rows. `group` `[d]` is the number
    of the sum on which each variable is scored as a child.
    """
    d = len(group)

    def untargeted(sums: FloatArray) -> Scores:
        n, S = covariance(sums, d)
        return lambda batch: score_covariance(n, S, batch) - price * (np.diff(batch.first) - 1)

    def own(sums: FloatArray) -> Scores:
        n, S = covariance(sums, d)
        return lambda batch: score_own_covariance(n, S, batch)

    return _by_sum(moments, group, untargeted, own if target_rows == "own" else None)


def block_scores(moments: FloatArray, coding: Coding, group: NDArray[np.int64], target_rows: TargetRows) -> Scores:
    """The function that scores families of mixed tables by the degenerate Gaussian; arguments as `number_scores`."""

    def untargeted(sums: FloatArray) -> Scores:
        blocks = blocks_of(sums, coding)
        return lambda batch: score_blocks(blocks, batch)

    def own(sums: FloatArray) -> Scores:
        enough = sums[0] >= coding.size + MIN_SPARE_ROWS
        return untargeted(sums) if enough else lambda batch: np.zeros(len(batch))

    return _by_sum(moments, group, untargeted, own if target_rows == "own" else None)


def best_class(
    procedure: ScoreSearch[Any], d: int, settings: SearchSettings, scores: Scores, prior: Prior
) -> NDArray[np.bool_]:
    """The class `[d, d]` that `procedure` finds with these `scores`.

    A search over orders of at most `MAX_REPEATED` variables is repeated with other random orders, and the class with
    the best score is returned. If experiments direct most edges, few orders have the same score, and the starts of one
    search may all end in the same local optimum.
    """
    repeats = SEARCHES if procedure.orders and d <= MAX_REPEATED else 1
    found = [search(procedure, d, replace(settings, seed=settings.seed + k), scores, prior) for k in range(repeats)]
    if len(found) == 1:
        return found[0]
    totals = [total_score(member_of(graph), scores) for graph in found]
    return found[next(k for k in range(repeats) if totals[k] >= max(totals) - rounding_error(max(totals)))]


def total_score(dag: NDArray[np.bool_], scores: Scores) -> float:
    """The sum of the `scores` of the families of `dag` `[d, d]`."""
    return float(scores(families_of(dag)).sum())


def _by_sum(
    moments: FloatArray,
    group: NDArray[np.int64],
    untargeted: Callable[[FloatArray], Scores],
    own: Callable[[FloatArray], Scores] | None,
) -> Scores:
    """The function that scores each family on its child's sum and, with `own`, on the rows that this sum leaves out."""
    first = [untargeted(sums) for sums in moments]
    rest = [None, *(own(moments[0] - sums) for sums in moments[1:])] if own else [None] * len(moments)

    def score(batch: Batch) -> FloatArray:
        scores = np.empty(len(batch))
        for k, chosen, families in split_by_group(batch, group):
            scores[chosen] = first[k](families)
            if (others := rest[k]) is not None:
                scores[chosen] += others(families)
        return scores

    return score


def experiment_basis(
    graph: NDArray[np.bool_], variables: Sequence[str], group: NDArray[np.int64], prior: Prior
) -> tuple[str, ...]:
    """Sentences on the directions in the class `graph` `[d, d]`; variables of a `group` other than 0 are targets."""
    fixed, following = experimental_arcs(graph, prior.separated, prior.required, prior.possible)
    edges, undirected = int(np.triu(graph | graph.T).sum()), int(np.triu(graph & graph.T).sum())
    targets = [name for name, k in zip(variables, group, strict=True) if k]
    lines = [
        f"Experiments set {', '.join(targets)}: each variable is scored on the rows in which it was not set.",
        f"{edges - undirected} of {edges} edges have a direction. Of these, {_verb(fixed, 'rest')} on experiments that "
        f"set one of the two variables, and {_verb(following, 'follow')} from these; the others rest on conditional "
        "independences.",
    ]
    if undirected:
        have = "s have" if undirected != 1 else " has"
        lines.append(f"{undirected} edge{have} no direction: no experiment sets only one of their variables.")
    return tuple(lines)


def _verb(arcs: NDArray[np.bool_], verb: str) -> str:
    """The number of `arcs`, followed by `verb` in the singular or the plural."""
    count = int(arcs.sum())
    return f"{count} {verb}{'s' * (count == 1)}"


Request = tuple[int, NDArray[np.int64], Batch]
"""the number of a sum, the numbers of the families of a batch that are counted in it, and these families"""


def requests(batch: Batch, group: NDArray[np.int64], n_sums: int, target_rows: TargetRows) -> list[Request]:
    """The families of `batch` to count in each sum, in ascending order of the sums.

    The sum with number `n_sums` + k is over the rows that sum k leaves out.
    """
    first = list(split_by_group(batch, group))
    return first + [(n_sums + k, chosen, families) for k, chosen, families in first if k and target_rows == "own"]


def numbered_sets(each: Sequence[Request], cardinalities: NDArray[np.int64], most_cells: float) -> NDArray[np.int16]:
    """The sets to count for `each` request, `[n_sets, 1 + size]`: the number of a sum, then a set, padded with -1."""
    sets = [(k, sets_of(families, cardinalities, most_cells).sets) for k, _, families in each]
    size = max(own.shape[1] for _, own in sets)
    padded = [np.pad(own, ((0, 0), (0, size - own.shape[1])), constant_values=PAD) for _, own in sets]
    numbers = np.repeat([k for k, _ in sets], [len(own) for _, own in sets]).astype(np.int16)
    return np.column_stack([numbers, np.concatenate(padded)])


def length_of_tables(
    sets: NDArray[np.int16], cardinalities: NDArray[np.int64], discrete: NDArray[np.bool_] | None
) -> int:
    """The number of entries of the tables over `sets`: counts or, of mixed tables, moments by configuration."""
    ends = offsets(sets, cardinalities) if discrete is None else configuration_offsets(sets, cardinalities, discrete)
    return int(ends[-1])
