"""Silos that differ in numbers of rows, means, spreads and units, none of which may change the result."""

import numpy as np

ROWS = {"a": 40, "b": 90, "c": 310}


def unequal(rows=None, variables=5, seed=0, dag=False):
    """Tables `[n_rows, n_variables]` of silos with means and spreads of their own, columns in different units.

    With `dag`, all silos have the weights of one model from left to right; otherwise each has its own mixture.
    """
    rng = np.random.default_rng(seed)
    units = np.geomspace(1, 10, variables)
    weights = np.triu(rng.uniform(0.5, 1.5, (variables, variables)), 1)
    tables = {}
    for k, (silo, n) in enumerate(sorted((rows or ROWS).items())):
        mix = np.linalg.inv(np.eye(variables) - weights) if dag else rng.normal(size=(variables, variables))
        means = 3 * rng.normal(size=variables)
        tables[silo] = ((1 + k) * rng.normal(size=(n, variables)) @ mix + means) * units
    return tables


def stacked(tables):
    """The rows of all silos, in the order of their names."""
    return np.vstack([table for _, table in sorted(tables.items())])
