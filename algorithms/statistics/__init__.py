"""Sufficient statistics that silos compute from their rows and add up, and the packing of sums into vectors."""

from ..core.spec import SERIES, Entry, lazy_factory

STEPS: dict[str, Entry] = {
    "units": Entry(
        releases="scales",
        at_sums={},
        summary="before a masked run on numbers: the scale of each column, so that sums fit fixed-point numbers",
        source="ours",
        disclosure="once, log2 of the standard deviation of each column, masked",
        maker=lazy_factory("statistics.moments:Units"),
        prepares=True,
        kinds=("continuous", "mixed", *SERIES),
        takes=("empty cells", "rows in passes"),
    ),
    "design-effect": Entry(
        releases="moments",
        at_sums={},
        summary="before a run with --cluster: the effective number of rows",
        source="Moulton 1986; Rao, Scott 1984",
        disclosure="once, sums of products of columns, and the same products of means of clusters, about the silo's "
        "means, masked; numbers of complete rows and of their clusters, and a mean size of clusters, masked",
        maker=lazy_factory("statistics.design_effect:DesignEffect"),
        prepares=True,
        kinds=("continuous", "discrete", "mixed"),
        takes=("clusters", "empty cells"),
    ),
    "em": Entry(
        releases=lambda broadcast: "Newton terms" if len(broadcast.S) else "moments",
        summary="before a run on numbers with empty cells: their covariance, by expectation-maximisation",
        source="Dempster, Laird, Rubin 1977; one mean a silo, which stays there, is ours",
        disclosure="once, sums of products of pairs of cells, and numbers of these pairs; about ten times, expected "
        "second moments; masked if the run is",
        maker=lazy_factory("statistics.em:ExpectationMaximisation"),
        prepares=True,
        kinds=("continuous", "mixed"),
        takes=("empty cells", "rows in passes"),
    ),
}
"""exchanges that are steps of a run; users cannot choose them as algorithms"""
