"""Learners for time series: contemporaneous and lagged edges."""

from ..core.spec import SERIES, Entry, always, lazy_factory

ALGORITHMS: dict[str, Entry] = {
    "fdbnl": Entry(
        releases="ADMM step",
        summary="dynamic networks of time series by consensus ADMM (FDBNL)",
        source="Chen, Ma, Yue 2025: Federated Learning of Dynamic Bayesian Network, Alg. 1",
        disclosure="in each round, changed entries of the silo's (p + 1)d x d weights, and one residual; once, the "
        "mean squares of its windows; in late rounds, changes of a sum of variances",
        maker=lazy_factory("dynamic.fdbnl:Fdbnl"),
        kinds=SERIES,
        lags_before=True,
        equal_variances=always,
        varying_messages=True,
        takes=("series in passes",),
    ),
    "pfdbnl": Entry(
        releases="ADMM step",
        summary="a dynamic network for each silo, near a consensus of all (PFDBNL)",
        source="Chen, Ma, Yue 2025, Alg. 2; the last step, which weights the other silos, is ours",
        disclosure="in each round with the silo, (p + 1)d x d weights and h, a measure of cycles; at the end, its own "
        "weights, once",
        maker=lazy_factory("dynamic.pfdbnl:Pfdbnl"),
        kinds=SERIES,
        lags_before=True,
        equal_variances=always,
    ),
    "dynotears": Entry(
        releases="rows",
        summary="baseline: dynamic networks from all series in one place",
        source="Pamfil et al. 2020: DYNOTEARS",
        disclosure="every row",
        maker=lazy_factory("dynamic.fdbnl:Dynotears", "dynamic.fdbnl:build"),
        kinds=SERIES,
        lags_before=True,
        pooled=True,
        equal_variances=always,
        varying_messages=True,
    ),
    "var": Entry(
        releases="moments",
        at_sums={},
        summary="baseline: a ridge vector autoregression, lagged edges only, from one sum",
        source="Lütkepohl 2005; Hoerl, Kennard 1970",
        disclosure="the silo's part of the means and second moments of all windows of lags + 1 rows, once; masked with "
        "--secure",
        maker=lazy_factory("dynamic.var:Var"),
        kinds=SERIES,
        subtracts_means=True,
        takes=("series in passes",),
    ),
}
"""the learners of this family, by name"""

STEPS: dict[str, Entry] = {
    "lag-order": Entry(
        releases="moments",
        at_sums={},
        summary="before a run on time series with lags=auto: the lag order with minimum BIC",
        source="ours; Lütkepohl 2005, §4.3; Chen, Chen 2008 for the number of candidates",
        disclosure="the silo's part of the means and second moments of all windows of at most 6 rows, once; masked "
        "with --secure",
        maker=lazy_factory("dynamic.lag_order:LagOrder"),
        prepares=True,
        kinds=SERIES,
        takes=("series in passes",),
    ),
}
"""additional exchanges of a run, before or after those of its algorithm"""
