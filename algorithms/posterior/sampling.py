"""The posterior over DAGs: chains of sampled graphs until they agree, and the probabilities that follow from them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from .family_space import FamilySpace
from .partition_sampler import layers_of, sample_dags, score_sums

CHAINS = 3
"""number of chains: one starts from the learned graph, the others from random orders"""
BURN_IN = 30
"""sweeps of each chain before its first graph"""
AGREEING = 1.05
"""R̂ below which chains agree"""
MAX_WORK = 1e7
"""maximum number of sweeps between the first and the last graph of all chains, times d²; about half a minute"""


@dataclass(frozen=True)
class Sample:
    """DAGs from the posterior."""

    dags: NDArray[np.bool_]
    """`[n, d, d]`"""
    r_hat: float
    """the largest R̂ of the indicator of an edge over the chains"""
    sweeps: int
    """sweeps between two graphs of a chain"""


def sample_posterior(
    scores: FloatArray, space: FamilySpace, start: NDArray[np.bool_], graphs: int, rng: np.random.Generator
) -> Sample:
    """`graphs` DAGs from the posterior with these `scores` of all families, `[d, masks, slots]`.

    The chains take more sweeps between graphs until R̂ (Gelman & Rubin 1992) of every edge is below `AGREEING`, or until
    `MAX_WORK`. `start` `[d, d]` is the DAG from which the first chain starts.
    """
    d, scored, each = len(start), score_sums(scores, space), -(-graphs // CHAINS)
    chains = [layers_of(start), *(rng.permutation(d) for _ in range(CHAINS - 1))]
    for layers in chains:
        sample_dags(scored, layers, 1, BURN_IN, rng)
    sweeps = 1
    while True:
        dags = np.stack([sample_dags(scored, layers, each, sweeps, rng) for layers in chains], axis=1)
        r_hat = largest_r_hat(dags)
        if r_hat < AGREEING or 2 * sweeps * graphs * d * d > MAX_WORK:
            return Sample(dags.reshape(-1, d, d)[:graphs], r_hat, sweeps)
        sweeps *= 2


def largest_r_hat(dags: NDArray[np.bool_]) -> float:
    """The largest R̂ of the indicator of an edge in `dags` `[n, chains, d, d]`; 1 for edges that all chains agree on."""
    n, share = len(dags), dags.mean(axis=0)
    within = (share * (1 - share)).mean(axis=0)
    between = n * share.var(axis=0, ddof=1)
    ratio = np.divide(between, within, out=np.where(between > 0, np.inf, 1.0), where=within > 0)
    return float(np.sqrt((n - 1) / n + ratio / n).max(initial=1.0))


@dataclass(frozen=True)
class Posterior:
    """Sampled DAGs with weights, their probabilities and effects."""

    variables: tuple[str, ...]
    weights: FloatArray
    """`[n, d, d]`: the weight of each edge in each DAG, drawn from its posterior; 1 if edges have no weights"""
    weighted: bool
    """whether weights are slopes of linear regressions, so that their products are effects"""
    r_hat: float
    sweeps: int

    @property
    def graphs(self) -> int:
        """The number of DAGs."""
        return len(self.weights)

    @property
    def agree(self) -> bool:
        """Whether the chains agree, so that probabilities are right up to the error of sampling."""
        return self.r_hat < AGREEING

    @cached_property
    def edges(self) -> FloatArray:
        """The probability of each edge i → j, `[d, d]`."""
        return np.asarray((self.weights != 0).mean(axis=0))

    @cached_property
    def joined(self) -> FloatArray:
        """The probability that i and j are adjacent, `[d, d]`, symmetric."""
        return np.asarray(self.edges + self.edges.T)

    @cached_property
    def is_path(self) -> NDArray[np.bool_]:
        """Whether a directed path leads from i to j in each DAG, that is, i is an ancestor of j, `[n, d, d]`."""
        d = len(self.variables)
        paths = self.weights != 0
        for v in range(d):
            paths = paths | (paths[:, :, v, None] & paths[:, None, v, :])
        return np.asarray(paths)

    @cached_property
    def paths(self) -> FloatArray:
        """The probability of a directed path from i to j, `[d, d]`."""
        return np.asarray(self.is_path.mean(axis=0))

    @cached_property
    def effects(self) -> FloatArray:
        """The total effect of one unit of i on j in each DAG, `[n, d, d]`; only if `weighted`."""
        unit = np.eye(len(self.variables))
        return np.asarray(np.linalg.inv(unit - self.weights) * self.is_path)

    def effect_quantiles(self, i: int, j: int) -> tuple[float, float, float] | None:
        """The median of the effect of one unit of i on j over all graphs, and the ends of its 95 % interval.

        None without weights.
        """
        if not self.weighted:
            return None
        middle, low, high = np.quantile(self.effects[:, i, j], (0.5, 0.025, 0.975))
        return float(middle), float(low), float(high)
