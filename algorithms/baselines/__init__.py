"""Baselines for federated learners: pooled, local, voting, best."""

from typing import Any

from ..core.spec import ANY_ROWS, SERIES, UNMIXED_ROWS, Entry, always, lazy_factory

MARKS = "once, the end marks of the silo's own graph; the server receives only sums"
TESTS = (
    "for each test, whether the silo's own rows show independence, and how strong the dependence is; the server "
    "receives only sums"
)
OWN_DYNAMIC = "the (p + 1)d x d weights of the silo's own structure, once"
OWN_STRUCTURE = "the d x d weights of the silo's own structure, once"


def all_marks(settings: Any, variables: int) -> int:
    """The message size of a graph's end marks: whether each of three marks is at j, for all ordered pairs i, j."""
    return 3 * variables**2


def all_tests(settings: Any, variables: int) -> int:
    """An upper bound on the message size of votes: 5 numbers for each test of a pair given a set of other variables."""
    return 5 * (variables * (variables - 1) // 2) * int(2 ** (variables - 2))


ALGORITHMS: dict[str, Entry] = {
    "dynotears-average": Entry(
        releases="own graph",
        summary="baseline: the mean of the dynamic networks that the silos learn separately",
        source="Chen, Ma, Yue 2025, Section 4 (Ave)",
        disclosure=OWN_DYNAMIC,
        maker=lazy_factory("dynamic.fdbnl:Dynotears", "baselines.local:dynotears_average"),
        kinds=SERIES,
        lags_before=True,
        vote=True,
        equal_variances=always,
    ),
    "dynotears-best": Entry(
        releases="own graph",
        summary="baseline: the silos' own dynamic network that is nearest to the true one",
        source="Chen, Ma, Yue 2025, Section 4 (Best)",
        disclosure=OWN_DYNAMIC,
        maker=lazy_factory("dynamic.fdbnl:Dynotears", "baselines.local:dynotears_medoid"),
        kinds=SERIES,
        lags_before=True,
        needs_truth=True,
        equal_variances=always,
    ),
    "notears-local": Entry(
        releases="own graph",
        summary="baseline: every silo learns separately, scores are means over the silos",
        source="Ng, Zhang 2022, Section 6",
        disclosure=OWN_STRUCTURE,
        maker=lazy_factory("admm.notears:Notears", "baselines.local:notears_medoid"),
        equal_variances=always,
    ),
    "notears-voting": Entry(
        releases="own graph",
        summary="baseline: edges that more than half of the silos find separately",
        source="Na, Yang 2010; Ng, Zhang 2022, Section 6",
        disclosure=OWN_STRUCTURE,
        maker=lazy_factory("admm.notears:Notears", "baselines.local:notears_vote"),
        vote=True,
        equal_variances=always,
    ),
    "notears-best": Entry(
        releases="own graph",
        summary="baseline: the silos' own structure that is nearest to the true one",
        source="Ng, Zhang 2022, Section 6",
        disclosure=OWN_STRUCTURE,
        maker=lazy_factory("admm.notears:Notears", "baselines.local:notears_medoid"),
        needs_truth=True,
        equal_variances=always,
    ),
    "notears-mlp": Entry(
        releases="rows",
        summary="baseline for nonlinear data: a small neural network for every variable, all rows in one place",
        source="Zheng et al. 2020",
        disclosure="every row",
        maker=lazy_factory("mlp.pooled:NotearsMlp", "baselines.local:notears_mlp_medoid"),
        pooled=True,
        equal_variances=always,
        nonlinear=True,
    ),
    "notears-mlp-voting": Entry(
        releases="own graph",
        summary="baseline: edges that more than half of the silos find by notears-mlp",
        source="Ng, Zhang 2022, Section 6",
        disclosure=OWN_STRUCTURE,
        maker=lazy_factory("mlp.pooled:NotearsMlp", "baselines.local:notears_mlp_vote"),
        vote=True,
        equal_variances=always,
        nonlinear=True,
    ),
    "notears-mlp-best": Entry(
        releases="own graph",
        summary="baseline: the silos' own structure by notears-mlp that is nearest to the true one",
        source="Ng, Zhang 2022, Section 6",
        disclosure=OWN_STRUCTURE,
        maker=lazy_factory("mlp.pooled:NotearsMlp", "baselines.local:notears_mlp_medoid"),
        needs_truth=True,
        equal_variances=always,
        nonlinear=True,
    ),
    "pc": Entry(
        releases="rows",
        summary="baseline: PC on all rows in one place",
        source="Spirtes, Glymour, Scheines 2000; Colombo, Maathuis 2014",
        disclosure="every row",
        maker=lazy_factory("constraint.settings:ConstraintSettings", "baselines.pooled:pc"),
        kinds=ANY_ROWS,
        pooled=True,
        takes=("empty cells",),
        directs_by_knowledge=True,
    ),
    "fci": Entry(
        releases="rows",
        summary="baseline: FCI on all rows in one place",
        source="Spirtes, Glymour, Scheines 2000; Zhang 2008",
        disclosure="every row",
        maker=lazy_factory("constraint.settings:ConstraintSettings", "baselines.pooled:fci"),
        kinds=ANY_ROWS,
        pooled=True,
        takes=("empty cells",),
    ),
    "pc-voting": Entry(
        releases="own graph",
        summary="baseline: the majority vote of the CPDAGs that PC learns in each silo",
        source="Wang, Ma, Wang 2023, §5",
        disclosure=MARKS,
        maker=lazy_factory("constraint.settings:ConstraintSettings", "baselines.vote_on_graphs:pc_voting"),
        kinds=UNMIXED_ROWS,
        message_size=all_marks,
        vote=True,
    ),
    "fci-voting": Entry(
        releases="own graph",
        summary="baseline: the majority vote of the PAGs that FCI learns in each silo",
        source="Wang, Ma, Wang 2023, §5",
        disclosure=MARKS,
        maker=lazy_factory("constraint.settings:ConstraintSettings", "baselines.vote_on_graphs:fci_voting"),
        kinds=UNMIXED_ROWS,
        message_size=all_marks,
        vote=True,
    ),
    "pc-cit-voting": Entry(
        releases="test votes",
        summary="baseline: PC whose every test is a vote of the silos' own tests",
        source="Wang, Ma, Wang 2023, §5",
        disclosure=TESTS,
        maker=lazy_factory("constraint.settings:ConstraintSettings", "baselines.vote_on_tests:pc_cit_voting"),
        kinds=UNMIXED_ROWS,
        varying_messages=True,
        message_size=all_tests,
    ),
    "fci-cit-voting": Entry(
        releases="test votes",
        summary="baseline: FCI whose every test is a vote of the silos' own tests",
        source="Wang, Ma, Wang 2023, §5",
        disclosure=TESTS,
        maker=lazy_factory("constraint.settings:ConstraintSettings", "baselines.vote_on_tests:fci_cit_voting"),
        kinds=UNMIXED_ROWS,
        varying_messages=True,
        message_size=all_tests,
    ),
    "ges": Entry(
        releases="rows",
        summary="baseline: GES on all rows in one place",
        source="Chickering 2002; Hauser, Bühlmann 2012 for turning edges",
        disclosure="every row",
        maker=lazy_factory("score.settings:SearchSettings", "baselines.pooled:pooled_ges"),
        kinds=ANY_ROWS,
        pooled=True,
        takes=("empty cells",),
        fills=True,
        directs_by_knowledge=True,
    ),
    "boss": Entry(
        releases="rows",
        summary="baseline: best order score search on all rows in one place",
        source="Andrews et al. 2023",
        disclosure="every row",
        maker=lazy_factory("score.settings:SearchSettings", "baselines.pooled:pooled_boss"),
        kinds=ANY_ROWS,
        pooled=True,
        takes=("empty cells",),
        fills=True,
        directs_by_knowledge=True,
    ),
    "ges-union": Entry(
        releases="own graph",
        summary="baseline: GES until convergence in every silo, then one fusion",
        source="Torrijos, Gámez, Puerta 2024, §4.1",
        disclosure="the arcs of the silo's own DAG, once",
        maker=lazy_factory("baselines.pooled:GesUnion", "ges_union"),
        kinds=UNMIXED_ROWS,
        vote=True,
    ),
}
"""the learners of this family, by name"""
