"""FedGES (Torrijos, Gámez & Puerta 2024, Algorithm 1): the silos continue GES from the server's fusion of their graphs.

The algorithm is printed over two published procedures, which are those of `algorithms/score`: GES with the BDeu score
and a limit on the insertions (Chickering 2002; Alonso-Barba et al. 2013), and the fusion of DAGs (Puerta et al. 2021).
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..score.fusion import fuse

Dag = NDArray[np.bool_]
Search = Callable[[Dag], Dag]
"""a silo's GES: the DAG to start from -> the DAG that it finds with at most l insertions"""


def fed_ges(
    silos: Sequence[Search],
    variables: Sequence[str],
    *,
    rounds: int = 100,
    quota: float = 0.0,
    client_quota: float = 0.0,
    repeated: bool = True,
) -> tuple[Dag, list[Dag]]:
    """The server's DAG and those of the silos, `[d, d]` each.

    `quota` is the share of the DAGs that must have an arc: 0 for UNION, .25 for C25, .5 for C50 (§4.1). The run
    converges if no silo's DAG is new, compared with all its earlier ones (`repeated`) or with its last one (§3).
    """
    d = len(variables)
    G = np.zeros((d, d), bool)
    own = [G for _ in silos]
    seen: list[list[Dag]] = [[] for _ in silos]
    for _ in range(rounds):
        own = [ges(fuse(np.stack([G_i, G]), client_quota, variables)) for ges, G_i in zip(silos, own, strict=True)]
        earlier = [all_of if repeated else all_of[-1:] for all_of in seen]
        new = [not any(np.array_equal(G_i, old) for old in olds) for G_i, olds in zip(own, earlier, strict=True)]
        G = fuse(np.stack(own), quota, variables)
        if not any(new):
            break
        seen = [[*all_of, G_i] for all_of, G_i in zip(seen, own, strict=True)]
    return G, own
