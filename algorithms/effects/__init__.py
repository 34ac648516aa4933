"""Effects: what happens to an outcome if another variable is changed."""

from ..core.spec import Entry, lazy_factory

STEPS: dict[str, Entry] = {
    "adjusted-regressions": Entry(
        releases="Newton terms",
        summary="after a run on numbers or mixed data: effects from regressions on treatment and covariates",
        source="ours; Robins 1986 for averages over the rows",
        disclosure="likelihood, gradient and Hessian of each regression without the intercept, twice for numbers "
        "and four to eight times for labels; for labels also sums of risks and of their gradients; always masked",
        maker=lazy_factory("effects.adjusted_regressions:AdjustedRegressions"),
        kinds=("continuous", "mixed"),
        takes=("empty cells",),
    ),
}
"""exchanges outside of runs, for the effects of a finished run"""
