"""Rows with exactly given second moments, for tests on both sides of a threshold."""

import numpy as np

ROWS = {"a": 40, "b": 90, "c": 310}


def exact(S, rows=None, seed=0, draw=None):
    """Tables of silos with different means, each with covariance `S` `[d, d]` (divided by its rows minus one).

    The covariance within all silos, per degree of freedom, is `S` as well. `draw(rng, size)` gives the errors before
    they are made uncorrelated; by default they are Gaussian.
    """
    rng, d = np.random.default_rng(seed), len(S)
    factor, tables = np.linalg.cholesky(S), {}
    for silo, n in sorted((rows or ROWS).items()):
        errors = draw(rng, (n, d)) if draw else rng.normal(size=(n, d))
        errors = errors - errors.mean(axis=0)
        # The symmetric root mixes the columns least, so errors keep the shape of their distribution.
        values, vectors = np.linalg.eigh(errors.T @ errors / (n - 1))
        white = errors @ (vectors / np.sqrt(values)) @ vectors.T
        tables[silo] = white @ factor.T + 3 * rng.normal(size=d)
    return tables


def freedom(tables):
    """The number of rows of all silos minus the number of silos."""
    return sum(map(len, tables.values())) - len(tables)


def of_model(weights, variances):
    """The covariance `[d, d]` of a linear model with these `weights` `[d, d]` and error `variances` `[d]`."""
    total = np.linalg.inv(np.eye(len(weights)) - weights)
    return total.T @ np.diag(variances) @ total


def centred(tables):
    """All rows, each about the means of its silo."""
    return np.vstack([table - table.mean(axis=0) for _, table in sorted(tables.items())])
