"""Consensus ADMM: federated learning of a DAG by continuous optimisation."""

from ..core.spec import Entry, always, lazy_factory

ALGORITHMS: dict[str, Entry] = {
    "fed-sparse": Entry(
        releases="ADMM step",
        summary="consensus ADMM, sparse local solve by greedy coordinate descent (Fed-Sparse-BNSL)",
        source="Fassy El Fehri, Bellet, Bastien: Differentially Private and Federated Structure Learning, Alg. 1",
        disclosure="in each round, changed entries of the silo's d x d weights, and one residual; once, d mean "
        "squares; in late rounds, variances of residuals and changes of their sum",
        maker=lazy_factory("admm.fed_sparse:FedSparse"),
        equal_variances=always,
    ),
    "notears-admm": Entry(
        releases="ADMM step",
        summary="consensus ADMM with a closed-form local solve (Fed-BNSL)",
        source="Ng, Zhang 2022: Towards Federated Bayesian Network Structure Learning, Alg. 1",
        disclosure="in each round, nearly all entries of the silo's d x d weights; the first round reveals its "
        "covariance",
        maker=lazy_factory("admm.notears_admm:NotearsAdmm"),
        equal_variances=always,
    ),
    "fed-frank-wolfe": Entry(
        releases="ADMM step",
        summary="as fed-sparse, but the local lasso by Frank-Wolfe: a baseline that fails on raw data",
        source="Fassy El Fehri, Bellet, Bastien, Appendix C.1",
        disclosure="as fed-sparse",
        maker=lazy_factory("admm.frank_wolfe:FedFrankWolfe", "build_frank_wolfe"),
        equal_variances=always,
        exact_solver=False,
    ),
    "notears": Entry(
        releases="rows",
        summary="baseline: all rows in one place",
        source="Zheng et al. 2018",
        disclosure="every row",
        maker=lazy_factory("admm.notears:Notears", "admm.fed_sparse:build"),
        pooled=True,
        equal_variances=always,
    ),
}
"""the learners of this family, by name"""
