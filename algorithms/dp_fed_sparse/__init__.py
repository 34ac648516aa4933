"""DP-Fed-Sparse-BNSL: private greedy coordinate descent at every silo, each with its own privacy budget."""

from ..core.spec import Entry, always, lazy_factory

ALGORITHMS: dict[str, Entry] = {
    "dp-fed-sparse": Entry(
        private=True,
        releases="ADMM step",
        summary="consensus by private greedy coordinate steps, with an ε for each silo (DP-Fed-Sparse-BNSL)",
        source="Fassy El Fehri, Bellet, Bastien, Section 5; the order from equal error variances is ours",
        disclosure="once, noisy bucket counts; in each round, the weights changed by the silo's noisy steps, and d "
        "noisy sizes of residuals",
        maker=lazy_factory("dp_fed_sparse.algorithm:DpFedSparse"),
        equal_variances=always,
    ),
}
"""the learners of this family, by name"""
