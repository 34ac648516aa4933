"""The error-free independence test: d-separation in a known graph."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.constraint.search import IndependenceTests, Results
from fedbnsl.algorithms.constraint.subsets import Tests
from fedbnsl.algorithms.graphs.dag import d_separated
from fedbnsl.algorithms.statistics.count_tables import PAD


def oracle(dag: NDArray[np.bool_], observed: Sequence[int]) -> IndependenceTests:
    """The d-separation tests of the `observed` variables of `dag`, in their order."""

    def answer(tests: Tests) -> Results:
        independent = [
            d_separated(dag, observed[x], observed[y], [observed[k] for k in given if k != PAD])
            for x, y, *given in tests.tolist()
        ]
        p = np.array(independent, np.float64)
        return Results(p, 1 - p)

    return answer
