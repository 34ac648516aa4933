"""The figures of edges that are columns of the output files."""

from fedbnsl.algorithms.graphs.edges import EdgeFigures, known_figures

KEYS = ("a", "b", 0), ("b", "c", 1)


def test_only_figures_that_an_edge_has_are_columns():
    assert known_figures({}) == ()
    assert known_figures({KEYS[0]: EdgeFigures(bic=0.0), KEYS[1]: EdgeFigures(score=1.0)}) == ("bic", "score")
