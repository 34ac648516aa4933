"""The terminal line about the agreement between the silos' own structures."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.edges import ClassifiedEdges
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.report.sections import agreement_lines
from fedbnsl.tracking.result import silo_edges


def structure_with(*edges):
    """The DAG over a, b, c with these edges."""
    weights = np.zeros((3, 3))
    for cause, effect in edges:
        weights["abc".index(cause), "abc".index(effect)] = 1.0
    return Structure(("a", "b", "c"), weights)


@pytest.mark.parametrize(
    ("silos", "expected"),
    [
        ([("ab", "bc"), ("ab", "bc"), ("ab",), ()], "1 edge shared by most silos, 1 other"),
        ([("ab",), ("ab", "bc"), ("ab", "bc")], "2 edges shared by most silos, 0 others"),
    ],
)
def test_most_silos_are_more_than_half(silos, expected):
    own = {f"s{k}": structure_with(*edges) for k, edges in enumerate(silos)}
    edges = silo_edges({silo: ClassifiedEdges(one) for silo, one in own.items()})
    (line,) = agreement_lines(SimpleNamespace(local_structures=own, silo_edges=edges))
    assert line == f"the silos' own structures: {expected}"
    assert agreement_lines(SimpleNamespace(local_structures={}, silo_edges=[])) == []
