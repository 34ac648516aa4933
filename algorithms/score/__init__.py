"""Score-based learning: BDeu and BIC, greedy equivalence search, fusion of networks, best order score search."""

from ..core.release import of_query
from ..core.spec import ANY_ROWS, SERIES, UNMIXED_ROWS, Entry, lazy_factory

COUNTS = (
    "masked: of labels, counts over the sets of variables that the search requests; of other data, centred moments, "
    "once; with weights=own also the silo's scores of families; with a conditional Gaussian score, moments by "
    "configuration of the labels"
)

ALGORITHMS: dict[str, Entry] = {
    "rfcd": Entry(
        releases="own scores",
        summary="baseline: the graph of least worst-case regret over the silos, from each silo's own GES (RFCD)",
        source="Mian, Kaltenpoth, Kamp 2022: Regret-based Federated Causal Discovery",
        disclosure="its regret and the gain of each change of one edge on its own rows, d x d numbers a round",
        maker=lazy_factory("score.rfcd:Rfcd"),
        kinds=UNMIXED_ROWS,
    ),
    "fed-ges": Entry(
        releases="own graph",
        summary="GES in every silo from the fused graph, a few insertions a round, and structural fusion (FedGES)",
        source="Torrijos, Gámez, Puerta 2024: FedGES, Alg. 1; Puerta et al. 2021 for the fusion",
        disclosure="the arcs of the silo's own DAG, every round",
        maker=lazy_factory("score.fed_ges:FedGes"),
        kinds=UNMIXED_ROWS,
    ),
    "secure-ges": Entry(
        releases=of_query,
        at_sums={},
        summary="GES on the rows of all silos, scored from summed counts: exactly the pooled GES",
        source="ours; Chickering 2002; Hauser, Bühlmann 2012 for turning edges",
        disclosure=COUNTS,
        maker=lazy_factory("score.settings:SecureSearch", "score.secure_search:secure_ges"),
        kinds=(*ANY_ROWS, *SERIES),
        lags_before=True,
        takes=("clusters", "empty cells", "labels in series", "rows in passes", "targets of experiments"),
        one_sum=lambda settings: settings.weights == "common",
        server_settings=("score", "ess", "expected_parents", "starts"),
        fills=True,
        directs_by_knowledge=True,
        scores_tables=True,
    ),
    "secure-boss": Entry(
        releases=of_query,
        at_sums={},
        summary="best order score search on the rows of all silos, scored from summed counts: exactly the pooled BOSS",
        source="ours; Andrews et al. 2023",
        disclosure=COUNTS,
        maker=lazy_factory("score.settings:SecureSearch", "score.secure_search:secure_boss"),
        kinds=(*ANY_ROWS, *SERIES),
        lags_before=True,
        takes=("clusters", "empty cells", "labels in series", "rows in passes", "targets of experiments"),
        one_sum=lambda settings: settings.weights == "common",
        server_settings=("score", "ess", "expected_parents", "starts"),
        fills=True,
        directs_by_knowledge=True,
        scores_tables=True,
    ),
}
"""the learners of this family, by name"""
STEPS: dict[str, Entry] = {
    "unknown-targets": Entry(
        releases=of_query,
        summary="before a run with --targets unknown: which mechanisms changed in which silo or condition",
        source="ours; Perry, von Kügelgen, Schölkopf 2022; Squires, Wang, Uhler 2020",
        disclosure="for each of its conditions (without --condition, a silo is one): centred moments of numbers, or "
        "counts over the sets of variables that the search requests; masked, in the sum of silos with that condition",
        maker=lazy_factory("score.settings:SecureSearch", "score.unknown_targets:build"),
        kinds=UNMIXED_ROWS,
        takes=("rows in passes", "targets of experiments"),
    ),
}
"""exchanges of a run in addition to the exchanges of its algorithm"""
