"""Fit of a graph without a truth: its implied independences, Fisher's C, and its BIC (a Markov check).

A DAG implies that two variables without an edge are independent given the parents of the variable that is later in a
topological order (Pearl 1988). So there is one test per missing edge, of numbers from moments (`implied_moments.py`)
and of labels from count tables (`implied_tables.py`). The share of tests that fail after Benjamini & Hochberg 1995
measures what the graph leaves unexplained.

Fisher's C = −2 Σ ln p combines the tests (Shipley 2000, "A new inferential test for path models"). If the graph is
true, tests of different later variables are uncorrelated, because an error is independent of all earlier variables.
Tests of the same later variable are correlated. So C of k tests is compared with a χ² distribution that is scaled to
the mean of C, 2k, and the variance of C, 4k + 8 Σ ρ². The sum is over pairs of tests of the same variable, whose
statistics have the correlation ρ² (Brown 1975; Kost & McDermott 2002, for two-sided p-values).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray

FALSE_DISCOVERIES = 0.05
"""false discovery rate of the independences that are reported as failing"""
WORST_IN_LINE = 3
"""number of failing independences in a line of text"""
WORST_SHOWN = 10
"""number of failing independences that are named"""
MIN_P = 1e-300
"""smaller p-values count as this one in Fisher's C"""


@dataclass(frozen=True)
class Independence:
    """A missing edge between `earlier` and `later`, tested given the parents of `later`."""

    earlier: str
    later: str
    given: tuple[str, ...]
    strength: float
    """the absolute partial correlation; for a number and a label, the multiple one; for labels, Tschuprow's T"""
    p: float
    adjusted: float
    """the p-value, adjusted for the number of tests (Benjamini & Hochberg 1995)"""

    @property
    def text(self) -> str:
        """The pair, and the conditioning variables."""
        given = f" given {', '.join(self.given)}" if self.given else ""
        return f"{self.earlier} – {self.later}{given}"


@dataclass(frozen=True)
class FisherC:
    """Fisher's C with its nominal degrees of freedom 2k, and its p-value for correlated tests."""

    statistic: float
    degrees: int
    p: float


@dataclass(frozen=True)
class BicGains:
    """Gains in BIC in nats; None for a gain that is not defined.

    BIC is the log-likelihood − ½ ln n per parameter; means and offsets, which every graph has, are not counted. The
    likelihood itself is not published.
    """

    over_empty: float
    """the graph's BIC gain over the empty graph"""
    over_saturated: float | None = None
    """the graph's BIC gain over the saturated graph, in which all earlier variables are parents"""
    one_more: float | None = None
    """upper bound on the BIC gain of one more parent for each variable: the sum of the best gains"""


def nats(gain: float) -> str:
    """A gain of BIC with its sign and three significant digits, such as +2,150."""
    return f"{float(f'{gain:.3g}'):+,.0f}" if abs(gain) >= 100 else f"{gain:+.3g}"


@dataclass(frozen=True)
class Fit:
    """How well a graph fits its data."""

    why: str = ""
    """the reason if the fit is not known, otherwise empty"""
    implied: int = 0
    """number of missing edges"""
    tested: int = 0
    failing: int = 0
    worst: tuple[Independence, ...] = ()
    """failing independences, the least likely first"""
    fisher: FisherC | None = None
    bic: BicGains | None = None
    notes: tuple[str, ...] = ()
    """notes on tests and figures that are missing"""
    bytes_sent: int = 0
    """number of bytes of the exchange for count tables, in addition to the rounds"""

    @property
    def metrics(self) -> dict[str, float | int | str]:
        """The known figures for `metrics.json`, and the fit as text."""
        found: dict[str, float | int | str] = {"fit": " ".join(self.lines), "fit_bytes": self.bytes_sent}
        if self.why:
            return found
        found |= {"fit_implied": self.implied, "fit_tested": self.tested, "fit_failing": self.failing}
        if self.tested:
            found["fit_failing_share"] = self.failing / self.tested
        if self.fisher:
            found |= {"fit_fisher_c": self.fisher.statistic, "fit_fisher_degrees": self.fisher.degrees}
            found["fit_fisher_p"] = self.fisher.p
        if self.bic:
            gains = {
                "fit_bic_over_empty": self.bic.over_empty,
                "fit_bic_over_saturated": self.bic.over_saturated,
                "fit_bic_one_more_parent": self.bic.one_more,
            }
            found |= {name: gain for name, gain in gains.items() if gain is not None}
        return found | {"fit_worst": "; ".join(one.text for one in self.worst)}

    @property
    def lines(self) -> tuple[str, ...]:
        """The fit in one or two sentences, or the reason for having none."""
        if self.why:
            return (f"Fit of the graph: {self.why}.",)
        share = f", {100 * self.failing / self.tested:.3g} %" if self.tested else ""
        text = f"Fit of the graph: {self.failing:,} of {self.tested:,} tested independences fail{share}"
        if self.fisher:
            c = self.fisher
            text += f"; Fisher's C {c.statistic:.4g} on {c.degrees:,} degrees of freedom"
            text += f", p = {c.p:.3g} for correlated tests"
        if self.bic:
            text += f"; BIC gain {nats(self.bic.over_empty)} over the empty graph"
            if self.bic.over_saturated is not None:
                text += f" and {nats(self.bic.over_saturated)} over the saturated one (positive: this graph is better)"
            if self.bic.one_more is not None:
                text += f"; one more parent for each variable would gain at most {nats(self.bic.one_more)}"
        return (f"{'; '.join((text, *self.notes))}.", *self.missing)

    @property
    def missing(self) -> tuple[str, ...]:
        """The sentence on the independences that fail most clearly; empty if none fails."""
        worst = "; ".join(one.text for one in self.worst[:WORST_IN_LINE])
        return (f"Most doubtful missing edges: {worst}.",) if worst and not self.why else ()


NO_FIT = Fit("not requested")


@dataclass(frozen=True)
class MissingEdgeTests:
    """Tests of the missing edges of one variable or of several, `[k]` each."""

    earlier: NDArray[np.int64]
    later: NDArray[np.int64]
    strength: FloatArray
    p: FloatArray
    shared: float
    """the sum of the correlations of the statistics over all pairs of these tests"""


def missing_edges(dag: NDArray[np.bool_], order: Sequence[int]) -> int:
    """The number of pairs of variables in `order` without an edge in `dag`."""
    k = len(order)
    return k * (k - 1) // 2 - int(dag[np.ix_(order, order)].sum())


def adjusted_p_values(p: FloatArray) -> FloatArray:
    """The p-values `[k]` adjusted for the false discovery rate (Benjamini & Hochberg 1995)."""
    order = np.argsort(p)[::-1]
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum.accumulate(p[order] * len(p) / np.arange(len(p), 0, -1))
    return np.minimum(adjusted, 1.0)


def fisher_c(p: FloatArray, shared: float) -> FisherC:
    """Fisher's C of the p-values `[k]` of tests; `shared` is the sum of the correlations over pairs of statistics.

    Source: Brown 1975, Biometrics 31, 987-992.
    """
    from scipy.special import chdtrc  # late, because listing the commands must not import SciPy

    statistic, mean = float(-2 * np.log(np.maximum(p, MIN_P)).sum()), 2.0 * len(p)
    scale = (4 * len(p) + 8 * shared) / (2 * mean)
    return FisherC(statistic, 2 * len(p), float(chdtrc(mean / scale, statistic / scale)))


def summarised(
    tests: Sequence[MissingEdgeTests],
    implied: int,
    names: Sequence[str],
    dag: NDArray[np.bool_],
    bic: BicGains | None,
    *,
    untested: str,
    combined: bool = True,
) -> Fit:
    """The fit of `dag`, which has `implied` missing edges, by their `tests`; `untested` says why some have no test."""
    earlier, later, strength, p = (
        np.concatenate([getattr(one, name) for one in tests]) if tests else np.empty(0)
        for name in ("earlier", "later", "strength", "p")
    )
    adjusted = adjusted_p_values(p)
    failing = np.flatnonzero(adjusted <= FALSE_DISCOVERIES)
    worst = failing[np.lexsort((-strength[failing], p[failing]))][:WORST_SHOWN]
    notes = []
    if len(p) < implied:
        notes.append(f"{implied - len(p):,} of {implied:,} missing edges are not tested ({untested})")
    if not combined:
        notes.append("Fisher's C is not computed for so many variables")
    fisher = fisher_c(p, sum(one.shared for one in tests)) if combined and len(p) else None
    return Fit(
        implied=implied,
        tested=len(p),
        failing=len(failing),
        worst=tuple(
            Independence(
                names[int(earlier[t])],
                names[int(later[t])],
                tuple(names[u] for u in np.flatnonzero(dag[:, int(later[t])]).tolist()),
                float(strength[t]),
                float(p[t]),
                float(adjusted[t]),
            )
            for t in worst
        ),
        fisher=fisher,
        bic=bic,
        notes=tuple(notes),
    )
