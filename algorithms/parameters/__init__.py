"""The parameters of a learned structure from sums over the silos: probability tables, or weights and variances."""

from ..core.spec import Entry, lazy_factory

STEPS: dict[str, Entry] = {
    "refit": Entry(
        releases="own figures",
        summary="after a run: each silo refits the weights of the learned structure on its own rows",
        source="Fassy El Fehri, Bellet, Bastien, Appendix B.2.2",
        disclosure="where the truth is known and nothing is masked, two errors; its weights stay",
        maker=lazy_factory("parameters.refit:Refit"),
        takes=("rows in passes",),
    ),
    "family-tables": Entry(
        releases="counts",
        at_sums={},
        summary="after a run on discrete data: the probability tables of the learned structure",
        source="ours; Heckerman, Geiger, Chickering 1995 for the prior",
        disclosure="count tables of each variable with its parents, once; masked with --secure",
        maker=lazy_factory("parameters.tables:FamilyTables"),
        kinds=("discrete",),
        takes=("empty cells", "rows in passes"),
    ),
    "regressions": Entry(
        releases="moments",
        at_sums={},
        summary="after a run on continuous data: weights, intercepts and variances of the learned structure",
        source="ours",
        disclosure="means, and second moments of the pairs that share a family, once; masked with --secure",
        maker=lazy_factory("parameters.regressions:Regressions"),
        takes=("empty cells", "rows in passes"),
    ),
    "mixed-families": Entry(
        releases=lambda broadcast: "Newton terms" if len(broadcast.weights) else "moments",
        summary="after a run on mixed data: regressions, tables and logistic regressions of the learned graph",
        source="ours",
        disclosure="means, second moments, count tables of families, once; sums for logistic regressions, some "
        "five times; "
        "masked if the run is",
        maker=lazy_factory("parameters.mixed_families:MixedFamilies"),
        kinds=("mixed",),
        takes=("empty cells", "rows in passes"),
    ),
    "lagged-regressions": Entry(
        releases="moments",
        at_sums={},
        summary="after a run on time series: weights, intercepts, variances and forecast errors of the structure",
        source="ours; Lütkepohl 2005 for the reduced form",
        disclosure="means, and lagged second moments of the pairs that share a family or the error of one "
        "forecast, once; "
        "masked with --secure",
        maker=lazy_factory("parameters.regressions:Regressions"),
        kinds=("time-series",),
        takes=("series in passes",),
    ),
    "lagged-families": Entry(
        releases=lambda broadcast: "Newton terms" if len(broadcast.weights) else "moments",
        summary="after a run on series with labels: regressions, tables and logistic regressions of the structure",
        source="ours",
        disclosure="of windows: means, second moments, count tables of families, once; sums for logistic regressions, "
        "some five times; masked if the run is",
        maker=lazy_factory("parameters.mixed_families:MixedFamilies"),
        kinds=("time-series",),
    ),
    "forecast-errors": Entry(
        releases="contrasts",
        summary="after that: the errors of the model's forecasts beside those of a persistence forecast",
        source="ours",
        disclosure="two sums of forecast errors for each variable, once; masked if the run is",
        maker=lazy_factory("parameters.forecast_errors:ForecastErrors", "build_forecasts"),
        kinds=("time-series",),
    ),
    "survival": Entry(
        releases="Newton terms",
        summary="after a run with survival outcomes: the parents of each, and a piecewise-exponential model",
        source="ours; Holford 1980, Friedman 1982, Volinsky & Raftery 2000 for the score",
        disclosure="histograms of times with and without event on a public grid, once; likelihood, gradient and "
        "Hessian for all candidates without the silo's hazards, four to eight times; events and time at risk by "
        "interval, once; always masked",
        maker=lazy_factory("parameters.survival:Survival"),
        kinds=("mixed",),
        takes=("empty cells",),
    ),
}
"""exchanges that are steps of a run; users cannot choose them as algorithms"""
