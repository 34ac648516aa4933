"""Nonlinear learners with a multilayer perceptron for every variable (Zheng et al. 2020; Ng & Zhang 2022, §5.2)."""

from ..core.spec import Entry, always, lazy_factory

ALGORITHMS: dict[str, Entry] = {
    "notears-mlp-admm": Entry(
        releases="ADMM step",
        summary="consensus ADMM for nonlinear data: a small neural network for every variable (NOTEARS-MLP-ADMM)",
        source="Ng, Zhang 2022, Section 5.2; Zheng et al. 2020: Learning Sparse Nonparametric DAGs",
        disclosure="the d·(d·u + 2u + 1) weights of its networks of u hidden units, and one residual, a round",
        maker=lazy_factory("mlp.admm:NotearsMlpAdmm"),
        equal_variances=always,
        nonlinear=True,
        message_size=lambda settings, d: d * (d * settings.units + 2 * settings.units + 1),
    ),
}
"""the learners of this family, by name"""
