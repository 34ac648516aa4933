"""What the data can and cannot support: sums, signs of disagreement between silos, and findings for the user."""

from ..core.spec import ANY_ROWS, SERIES, Entry, lazy_factory

STEPS: dict[str, Entry] = {
    "missingness": Entry(
        summary="after a run on data with empty cells: whether values are missing completely at random",
        source="ours; Little 1988",
        disclosure="how other columns' means differ where a column is empty, once; masked if the run is",
        maker=lazy_factory("diagnosis.missingness:Missingness"),
        kinds=ANY_ROWS,
        gaps=True,
        streams=True,
    ),
    "diagnosis": Entry(
        summary="after a run on numbers: what its data can and cannot support, and which silo disagrees",
        source="ours",
        disclosure="its part of means and second moments, once; masked with --secure; then how far it is from "
        "the others: "
        "four figures with the columns they are greatest in",
        maker=lazy_factory("diagnosis.exchange:Diagnosis"),
        kinds=("continuous", "mixed", *SERIES),
        gaps=True,
        streams=True,
    ),
    "diagnosis-tables": Entry(
        summary="after a run on discrete data: what its data can and cannot support, and which silo disagrees",
        source="ours",
        disclosure="counts of each variable and of each joined pair, once; masked with --secure; then how far "
        "it is from "
        "the others: two figures with the columns they are greatest in",
        maker=lazy_factory("diagnosis.tables:TableDiagnosis"),
        kinds=("discrete",),
        gaps=True,
        streams=True,
    ),
}
"""exchanges that belong to a run without being an algorithm one would choose"""
