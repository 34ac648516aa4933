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
    "doubly-robust": Entry(
        releases=lambda broadcast: "contrasts" if broadcast.fitted else "Newton terms",
        summary="after a run with labels: doubly robust effects, from models of treatment and outcome",
        source="ours; Robins, Rotnitzky & Zhao 1994, Chernozhukov et al. 2018",
        disclosure="likelihood, gradient and Hessian of six regressions without the intercept, on halves of the rows, "
        "four to eight times; then the number of rows, sums of effects and of their squares, and how many rows have "
        "little overlap, in all and by level of a label; always masked",
        maker=lazy_factory("effects.doubly_robust:DoublyRobust"),
        kinds=("discrete", "mixed"),
        takes=("empty cells",),
    ),
}
"""exchanges outside of runs, for the effects of a finished run"""
