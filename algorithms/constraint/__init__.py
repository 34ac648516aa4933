"""Constraint-based learning: federated independence tests, and PC and FCI with these tests."""

from ..core.release import of_query
from ..core.spec import ANY_ROWS, SERIES, Entry, lazy_factory

TABLES = (
    "sums only: of discrete data count tables over sets of variables, in one or more exchanges for each size of set; "
    "of other data second moments, once"
)
SUMMED = f"{TABLES}; with an ε noisy tables, masked"

ALGORITHMS: dict[str, Entry] = {
    "fed-pc": Entry(
        private=True,
        releases=of_query,
        at_sums={},
        summary="PC-stable with federated independence tests (FedPC), a CPDAG; of time series as PCMCI+",
        source="Wang, Ma, Wang 2023: Towards Practical Federated Causal Structure Learning, §4; Runge 2020: PCMCI+",
        disclosure=f"{SUMMED}; of time series moments of windows of 2 lags + 1 rows, once",
        maker=lazy_factory("constraint.fed_pc:FedPc", "fed_pc"),
        one_sum=lambda settings: not settings.epsilon,
        server_settings=("alpha", "statistic", "orientation", "depth", "max_sets"),
        kinds=(*ANY_ROWS, *SERIES),
        lags_before=True,
        reach=2,
        takes=("clusters", "empty cells", "rows in passes"),
        directs_by_knowledge=True,
    ),
    "fed-fci": Entry(
        private=True,
        releases=of_query,
        at_sums={},
        summary="FCI with federated independence tests (FedFCI), for latent variables, a PAG",
        source="Wang, Ma, Wang 2023, §4; Zhang 2008",
        disclosure=SUMMED,
        maker=lazy_factory("constraint.fed_pc:FederatedSettings", "fed_fci"),
        kinds=ANY_ROWS,
        takes=("clusters", "empty cells", "rows in passes"),
    ),
}
"""the learners of this family, by name"""
