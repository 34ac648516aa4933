"""The marks at the two ends of an edge.

A matrix of marks is int8, `[n_variables, n_variables]`: `[i, j]` is the mark at j of the edge between i and j, so that
i → j is `[i, j] = ARROW`, `[j, i] = TAIL`.
"""

import numpy as np
from numpy.typing import NDArray

Marks = NDArray[np.int8]
NO_EDGE, TAIL, ARROW, CIRCLE = 0, 1, 2, 3
