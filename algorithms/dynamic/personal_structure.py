"""A silo's own dynamic structure, with as much weight on what all silos agree on as its own rows bear out (ours).

The silo learns an order and selects parents (`moments/equal_variance.py`) from its own second moments plus κ times
those that the consensus implies: pseudo-rows of its model. κ = 0 is learning alone, a large κ is taking over the
consensus with the silo's own lagged moments. κ, and the price of an edge within one time, which is low where networks
are dense, are those whose models predict the silo's own windows best when a fifth of them is left out in turn.

Nothing leaves the silo but the structure.
"""

from itertools import product

import numpy as np

from ..core.schema import FloatArray
from ..moments.equal_variance import equal_variance
from ..moments.lag_order import lagged_price

TRUST = (0.0, 0.5, 2.0, 8.0)
"""the κ that are tried"""
PRICES = (0.1, 0.25, 0.5, 1.0)
"""the prices within one time that are tried, in units of `lagged_price`, which lagged edges cost"""
FOLDS = 5
PASSES = 5
"""of moves that improve the order; one while κ and the price are tried"""
FLOOR = 1e-6
"""this share of their diagonal is added to moments, which are singular if windows are few"""


def personal_structure(windows: FloatArray, consensus: FloatArray) -> FloatArray:
    """Return the silo's own weights `[m, d]` for its `windows` `[n_windows, m]` and the `consensus` `[m, d]`."""
    d, n = consensus.shape[1], len(windows)
    products = windows.T @ windows
    noise = float(((windows[:, :d] - windows @ consensus) ** 2).mean())
    folds = np.array_split(np.arange(n), min(FOLDS, n))
    reachable = np.linalg.cond(np.eye(d) - consensus[:d]) < 1 / FLOOR
    tried = list(product(TRUST if reachable else TRUST[:1], PRICES))
    losses = np.zeros(len(tried))
    for left_out in folds:
        rest = windows[left_out]
        S, rows = (products - rest.T @ rest) / max(n - len(rest), 1), max(n - len(rest), 2)
        implied = implied_moments(S, consensus, noise) if reachable else S
        for k, (trust, price) in enumerate(tried):
            weights = fitted((S + trust * implied) / (1 + trust), rows * (1 + trust), d, price, 1)
            losses[k] += ((rest[:, :d] - rest @ weights) ** 2).sum()
    trust, price = tried[int(np.argmin(losses))]
    S = products / n
    mixed = (S + trust * implied_moments(S, consensus, noise)) / (1 + trust) if trust else S
    return fitted(mixed, n * (1 + trust), d, price, PASSES)


def implied_moments(S: FloatArray, weights: FloatArray, noise: float) -> FloatArray:
    """Return the second moments `[m, m]` of windows whose past is that of `S` and whose present follows `weights`.

    x_t = (y_t A + u)(I − W)⁻¹ for the lagged y_t, with errors u of variance `noise`.
    """
    d = weights.shape[1]
    total = np.linalg.inv(np.eye(d) - weights[:d])
    past, effect = S[d:, d:], weights[d:] @ total
    crossed = past @ effect
    return np.block([[effect.T @ crossed + noise * total.T @ total, crossed.T], [crossed, past]])


def fitted(S: FloatArray, rows: float, d: int, price: float, passes: int) -> FloatArray:
    """Return the weights `[m, d]` learned from second moments `S` `[m, m]` worth so many `rows`."""
    m = len(S)
    prices = lagged_price(m, rows) * np.repeat([price, 1.0], [d, m - d])
    return equal_variance(S + FLOOR * np.diag(np.diag(S)), prices, m, passes, d).weights
