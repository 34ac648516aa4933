"""All DAGs of few variables, to compare a search with."""

import functools
from itertools import combinations, product

import numpy as np

from fedbnsl.algorithms.graphs.dag import is_acyclic


@functools.cache
def all_dags(d):
    """Every DAG over d variables."""
    pairs = list(combinations(range(d), 2))
    found = []
    for ways in product(range(3), repeat=len(pairs)):
        dag = np.zeros((d, d), bool)
        for (i, j), way in zip(pairs, ways, strict=True):
            dag[i, j], dag[j, i] = way == 1, way == 2
        if is_acyclic(dag):
            found.append(dag)
    return found
