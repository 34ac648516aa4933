"""The choice of an algorithm from public facts: the kind of data, the variables, and whether an ε is given."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .core.schema import Schema
from .errors import BadInput

AUTO = "auto"


@dataclass(frozen=True)
class Choice:
    """An algorithm by name, the parameters that differ from its defaults, and the reason to choose it."""

    name: str
    why: str
    params: Mapping[str, Any] = field(default_factory=dict)


LOCAL_NOISE = "each silo adds all the noise for its own ε, without masks; so the sum over the silos has more noise"
PRIVATE_SUM = (
    "one masked sum in which the silos' shares of noise together hide every record: of the private learners it needs "
    "the least noise"
)
CONTINUOUS = (
    Choice(
        "secure-linear",
        "one masked sum gives the result of pooled rows; the data determine whether variances, non-Gaussian errors or "
        "only conditional independences direct the edges",
    ),
    Choice("fed-sparse", "the papers' consensus over many rounds: no second moments leave a silo, only sparse weights"),
    Choice("secure-lingam", "directions for all edges, if you know that all errors are non-Gaussian"),
)
PRIVATE_CONTINUOUS = (
    Choice("secure-sum", PRIVATE_SUM),
    Choice("dp-covariance", LOCAL_NOISE),
    Choice("dp-fed-sparse", "each silo has its own ε, spent on consensus steps (Fassy El Fehri et al., Section 5)"),
)
DISCRETE = (
    Choice("secure-boss", "masked sums of counts, and the search with the best scores: the result of pooled rows"),
    Choice("fed-pc", "independence tests on the same masked sums: it reports the failed tests of each edge"),
    Choice("fed-ges", "each silo's own search, and a fusion of the graphs: no counts leave a silo, only arcs"),
)
GREEDY = Choice(
    "secure-ges",
    "masked sums of counts, and a greedy search over equivalence classes: with so many variables it sends a small "
    "fraction of the bytes of secure-boss",
)
REFINED = Choice(
    "secure-ges",
    "masked sums of counts, and a greedy search over equivalence classes, refined by a search over orders near its "
    "graph: with so many variables it sends a small fraction of the bytes of secure-boss",
    {"refine": True},
)
PRIVATE_DISCRETE = (
    Choice("fed-pc", "independence tests on noisy, masked counts: the private learner of discrete data"),
    Choice("fed-fci", "the same, if unobserved variables may act on several others"),
)
MIXED = (
    Choice(
        "secure-boss",
        "one masked sum of second moments in which labels are indicators, and the search with the best scores: the "
        "result of pooled rows",
    ),
    Choice("fed-pc", "independence tests on the same masked sum: it reports the failed tests of each edge"),
    Choice("fed-fci", "the same tests, if unobserved variables may act on several others"),
)
PRIVATE_MIXED = (
    Choice("secure-sum", PRIVATE_SUM),
    Choice("dp-covariance", LOCAL_NOISE),
)
SERIES = (
    Choice(
        "secure-linear",
        "one masked sum of all windows gives the result of pooled series; BIC chooses the number of lags, and the data "
        "determine what directs the edges within a time step",
    ),
    Choice("pfdbnl", "a network for each silo, drawn towards those of similar silos"),
    Choice("fdbnl", "the paper's consensus over many rounds: no second moments leave a silo, only weights"),
)
LABELLED_SERIES = (
    Choice(
        "secure-boss",
        "masked sums over windows, with counts or indicators of the labels (such as states and alarms), and the search "
        "with the best scores: the result of pooled series; lagged columns precede the present, and BIC scores counts",
        {"score": "bic"},
    ),
    Choice("secure-ges", "the same sums, and a greedy search over equivalence classes", {"score": "bic"}),
)
PRIVATE_SERIES = (
    Choice("secure-sum", PRIVATE_SUM, {"lags": "auto"}),
    Choice("dp-covariance", LOCAL_NOISE),
)
EVENTS = (
    Choice(
        "fed-hawkes",
        "masked sums over events give the maximum-likelihood Hawkes process of the pooled devices: which types of "
        "events excite which others, and with what mean delay",
    ),
)
CHOICES = {
    ("continuous", False): CONTINUOUS,
    ("continuous", True): PRIVATE_CONTINUOUS,
    ("discrete", False): DISCRETE,
    ("discrete", True): PRIVATE_DISCRETE,
    ("mixed", False): MIXED,
    ("mixed", True): PRIVATE_MIXED,
    ("time-series", False): SERIES,
    ("time-series", True): PRIVATE_SERIES,
    ("events", False): EVENTS,
}


MAX_BOSS_VARIABLES = 40
"""number of discrete variables above which BOSS needs gigabytes of masked counts"""
MAX_REFINED_VARIABLES = 100
"""number of discrete variables above which refining GES takes too long"""


def choices(schema: Schema, *, private: bool) -> tuple[Choice, ...]:
    """The algorithm that `auto` selects, then its alternatives.

    Raises `BadInput` if no algorithm learns from this kind of data or, with `private`, no private algorithm.
    """
    if (schema.kind, private) not in CHOICES:
        raise BadInput(f"auto: no algorithm learns from {schema.kind} data{' with an ε' if private else ''}")
    if schema.kind == "discrete" and not private and len(schema.variables) > MAX_BOSS_VARIABLES:
        return (REFINED if len(schema.variables) <= MAX_REFINED_VARIABLES else GREEDY, *DISCRETE)
    if schema.kind == "time-series" and schema.levels:
        if private:
            raise BadInput("auto: no algorithm learns from time series with labels with an ε")
        return LABELLED_SERIES
    return CHOICES[schema.kind, private]
