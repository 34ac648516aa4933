"""Diagnosis after a run: sums over the data, disagreement between silos, and findings for the user."""

from ..core.spec import ANY_ROWS, SERIES, Entry, lazy_factory

STEPS: dict[str, Entry] = {
    "missingness": Entry(
        releases="moments",
        at_sums={},
        summary="after a run on data with empty cells: whether values are missing completely at random",
        source="ours; Little 1988",
        disclosure="once, how the means of other columns differ where a column is empty; masked if the run is",
        maker=lazy_factory("diagnosis.missingness:Missingness"),
        kinds=ANY_ROWS,
        takes=("empty cells", "rows in passes"),
    ),
    "diagnosis": Entry(
        releases=lambda broadcast: "own figures" if broadcast.rows else "moments",
        at_sums={"own_figures": False},
        summary="after a run on numbers: what its data can and cannot support, and which silo disagrees",
        source="ours",
        disclosure="once, the silo's part of means and second moments (masked with --secure); then ten figures on its "
        "distance from the other silos, each with a column, for time series seven, with trend, season and a change of "
        "weights; whether each edge falls without it, summed over the silos; and its part "
        "of the gain of transforms, and of sums over parts of its series",
        maker=lazy_factory("diagnosis.exchange:Diagnosis"),
        kinds=("continuous", "mixed", *SERIES),
        takes=("empty cells", "rows in passes", "series in passes"),
    ),
    "error-checks": Entry(
        releases="contrasts",
        summary="after a run of auto on numbers: whether errors are independent of the causes, and rows of each other",
        source="ours; Breusch, Pagan 1979; Koenker 1981; Newey, West 1987",
        disclosure="once, sums over rows of products of squared residuals, of parents and their squares, and of "
        "residuals of rows that follow each other; masked if the run is",
        maker=lazy_factory("diagnosis.errors:ErrorChecks"),
        takes=("rows in passes",),
    ),
    "diagnosis-tables": Entry(
        releases=lambda broadcast: "own figures" if len(broadcast.counts) else "counts",
        at_sums={"own_figures": False},
        summary="after a run on discrete data: what its data can and cannot support, and which silo disagrees",
        source="ours",
        disclosure="once, counts of each variable and of each adjacent pair (masked with --secure); then two figures "
        "on the silo's distance from the other silos, each with the column of its maximum",
        maker=lazy_factory("diagnosis.tables:TableDiagnosis"),
        kinds=("discrete",),
        takes=("empty cells", "rows in passes"),
    ),
    "fit-tables": Entry(
        releases="counts",
        at_sums={},
        summary="after a run on discrete data: the counts for its parameters and diagnosis, and for the test whether "
        "the independences that the graph implies hold",
        source="ours; Shipley 2000 for Fisher's C",
        disclosure="count tables of each variable, alone and with its parents, of each pair, and of each missing edge "
        "with the parents of one end, once; masked if the run is",
        maker=lazy_factory("diagnosis.implied_tables:FitTables"),
        kinds=("discrete",),
        takes=("rows in passes",),
    ),
}
"""exchanges of a run besides those of its algorithm"""
