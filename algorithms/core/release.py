"""What may leave a silo: a closed list of kinds of statistics, and the levels at which an owner allows them.

Every entry of the registry states the kind of statistic in the reply to a broadcast (`Entry.releases`). A silo derives
the kind from the broadcast that it is about to answer, never from what a coordinator says about it. Its gate
(`tasks/silo/gate.py`) then decides by the owner's level.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..errors import foreign_text, pluralize

Statistic = Literal[
    "moments",
    "counts",
    "scales",
    "conditional moments",
    "contrasts",
    "Newton terms",
    "ADMM step",
    "own graph",
    "own scores",
    "test votes",
    "own figures",
    "rows",
    "undeclared",
    "description",
    "masked messages",
    "records",
    "refusals",
]
STATISTICS: dict[Statistic, str] = {
    "moments": "sums over rows of products and powers of the columns' values",
    "counts": "count tables over sets of variables",
    "scales": "logarithms of the standard deviations of columns",
    "conditional moments": "moments of numbers within the cells of a count table",
    "contrasts": "sums over rows of functions with coefficients that the coordinator sends",
    "Newton terms": "likelihoods with derivatives, or expected moments, at parameters that the coordinator sends",
    "ADMM step": "the silo's own parameters, near those that the coordinator sends",
    "own graph": "the graph that the silo learns from its own rows",
    "own scores": "scores or regrets of graphs on the silo's own rows",
    "test votes": "the outcome of tests on the silo's own rows",
    "own figures": "numbers about the silo alone, also if they are entries of a sum",
    "rows": "the rows themselves, in baselines that pool them",
    "undeclared": "a statistic whose kind the algorithm does not declare",
    "description": "before round 1: the columns, their kinds and the number of rows",
    "masked messages": "keys, shares and masked vectors of secure sums, which disclose nothing by themselves",
    "records": "seals of the rows, charges of the ledger, this statement, and its signature",
    "refusals": "one line for each request that the silo refused, or could not answer",
}
assert set(STATISTICS) == set(get_args(Statistic))

FIXED_SUMS: frozenset[Statistic] = frozenset({"moments", "counts", "scales"})
"""the statistics that may be summed at level `sums`: functions of the rows that no number of a coordinator enters, so
that another request for the same columns adds nothing"""

Level = Literal["sums", "epsilon", "trusted"]
LEVELS: dict[Level, str] = {
    "sums": "only masked sums of moments and counts over the pinned members",
    "epsilon": "only replies with noise, each charged to the ledger",
    "trusted": "every exchange: the coordinator is trusted to follow the protocol",
}
"""what an owner allows at each level"""

Releases = Statistic | Callable[[Any], Statistic]
"""the statistic in the reply to every broadcast, or a function of the broadcast"""


def statistic_of(releases: Releases, broadcast: Any) -> Statistic:
    """The statistic in the reply to `broadcast`."""
    return releases(broadcast) if callable(releases) else releases


def of_query(query: Any) -> Statistic:
    """The statistic in the reply to a `Query` of a search (`statistics/rows.py`)."""
    return _OF_QUERY.get(query.what, "undeclared")


_OF_QUERY: dict[str, Statistic] = {
    "moments": "moments",
    "tables": "counts",
    "corners": "counts",
    "configurations": "conditional moments",
    "families": "own scores",
    "sketches": "contrasts",
    "votes": "test votes",
}


@dataclass(frozen=True)
class SiloRelease:
    """What a reply discloses about a silo's rows; the gate decides on it before the reply is computed."""

    algorithm: str
    """the algorithm or step, with its wrappers; "" for a message that is no reply of a round"""
    statistic: Statistic
    silos: tuple[str, ...]
    """the silos mixed in the statistic: those of the sum, or the silo alone"""
    masked: bool
    rows: int = 0
    """the rows of the silo that enter it, after all wrappers"""
    chosen: bool = False
    """whether the coordinator chose arguments of the statistic, from any number of possible ones"""
    private: bool = False
    """whether it has noise that is charged to the ledger"""


@dataclass(frozen=True)
class Disclosed(SiloRelease):
    """A line of the disclosure statement: the messages of a run that differ only in round and size."""

    part: str = ""
    """the part of the run: "round", or the name of an exchange before or after its rounds"""
    numbers: int = 0
    """the largest number of numbers in one reply"""
    rho: float = 0.0
    """the ρ charged for these releases together"""
    smallest: int = 0
    """the smallest count above 0 in an unmasked count table, which the coordinator has seen; 0 if there is none"""
    times: int = 0
    """how often replies left, also repeated ones"""
    bytes: int = 0
    """the bytes of these replies"""

    @property
    def in_words(self) -> str:
        """The line in words, for a terminal."""
        parts = [
            foreign_text(" of ".join(part for part in (self.part, self.algorithm) if part)),
            foreign_text(self.statistic)
            + ", masked" * self.masked
            + f", with noise of ρ = {self.rho:.3g}" * self.private,
            f"a sum over {pluralize(len(self.silos), 'silo')}" if self.masked else "",
            f"from {pluralize(self.rows, 'row')}" if self.rows else "",
            f"at most {pluralize(self.numbers, 'number')} at a time" if self.numbers else "",
            f"smallest count {self.smallest}" if self.smallest else "",
            f"{pluralize(self.times, 'message')}, {self.bytes:,} bytes",
        ]
        return "; ".join(part for part in parts if part)
