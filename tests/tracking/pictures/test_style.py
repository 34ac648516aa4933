"""The style of edges, and the legend."""

import numpy as np

from fedbnsl.algorithms.graphs.edges import CATEGORIES, classify
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.pictures.style import STYLES, legend_entries


def graph(edges):
    weights = np.zeros((4, 4))
    for source, target in edges:
        weights["abcd".index(source), "abcd".index(target)] = 1.0
    return Structure(tuple("abcd"), weights)


def test_categories_differ_in_colour_dash_and_marker():
    compared = [STYLES[category] for category in CATEGORIES if category != "learned"]
    for look in ("colour", "dash", "marker"):
        assert len({getattr(style, look) for style in compared}) == len(compared)


def test_the_legend_counts():
    edges = classify(graph(["ab", "cb", "ad"]), graph(["ab", "bc"]))
    assert legend_entries(edges, True) == [("right", "1 correct"), ("extra", "1 extra"), ("reversed", "1 reversed")]
    assert legend_entries((), True) == [("right", "0 correct")]
    assert legend_entries((), False) == [("learned", "0 learned")]
