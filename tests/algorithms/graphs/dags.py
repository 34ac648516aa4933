"""Random DAGs for properties that hypothesis checks."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays


@st.composite
def dags(draw, most=7, least=1):
    """The adjacency matrix of any DAG on `least` to `most` variables in any order."""
    d = draw(st.integers(least, most))
    order = draw(st.permutations(range(d)))
    return np.triu(draw(arrays(np.bool_, (d, d))), 1)[np.ix_(order, order)]
