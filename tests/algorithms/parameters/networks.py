"""Small networks of every kind with asymmetric parameters, and their distributions by enumeration."""

import numpy as np

from fedbnsl.algorithms.graphs.structure import Structure, unrolled_names
from fedbnsl.algorithms.parameters.distributions import Linear, Logistic, Tabular
from fedbnsl.algorithms.parameters.networks import Network, linear_network

LEVELS = {"c": ("low", "high"), "a": ("x", "y", "z"), "b": ("no", "yes"), "e": ("0", "1")}


def discrete(seed=1):
    """c → b ← a → e ← b, with parents listed in another order than the variables, and all tables unequal."""
    rng = np.random.default_rng(seed)
    parents = {"c": (), "a": (), "b": ("a", "c"), "e": ("b", "a")}
    shapes = {name: [len(LEVELS[one]) for one in (*own, name)] for name, own in parents.items()}
    tables = {name: rng.dirichlet(np.ones(shape[-1]), tuple(shape[:-1])) for name, shape in shapes.items()}
    return Network(tuple(LEVELS), LEVELS, parents, tables)


def joint(network, do=None):
    """The probability of every joint state, in the order of `LEVELS`."""
    total = np.ones([len(levels) for levels in LEVELS.values()])
    names = tuple(LEVELS)
    for name in names:
        if name in (do or {}):
            table, family = (np.array(LEVELS[name]) == do[name]).astype(float), (name,)
        else:
            table, family = network.tables[name], (*network.parents[name], name)
        axes = [names.index(one) for one in family]
        total = total * np.moveaxis(table, range(len(axes)), np.argsort(np.argsort(axes))).reshape(
            [table.shape[axes.index(k)] if k in axes else 1 for k in range(4)]
        )
    return total


def exact(network, targets, given, do=None):
    """The distribution of the targets by enumeration."""
    names = tuple(LEVELS)
    total = joint(network, do)[tuple(LEVELS[n].index(given[n]) if n in given else slice(None) for n in names)]
    left = [n for n in names if n not in given]
    total = total.sum(axis=tuple(k for k, n in enumerate(left) if n not in targets))
    shown = [n for n in left if n in targets]
    total = np.moveaxis(total, range(len(shown)), [targets.index(n) for n in shown])
    return (total / total.sum()).ravel()


def normal():
    """x → y → z, x → z, with intercepts, and its draws."""
    W = np.array([[0, 1.5, -0.7], [0, 0, 2.0], [0, 0, 0]])
    return linear_network(Structure(("x", "y", "z"), W), np.array([1.0, -2.0, 0.5]), np.array([1.0, 0.25, 4.0]))


def mixed():
    """label g → number x → label h, and g → h."""
    local = (
        Tabular(np.array([0.7, 0.3])),
        Linear(1.0, np.array([2.0]), 0.5),
        Logistic(np.array([0.0, -1.0]), np.array([[0.0, 0.0], [0.5, 0.8]])),
    )
    return numbered(("g", "x", "h"), {"g": ("a", "b"), "h": ("no", "yes")}, ((), (0,), (0, 1)), local)


def numbered(variables, levels, parents, local, lags=0):
    """A network whose parents are numbers of nodes, and whose distributions are in the order of the nodes."""
    nodes = unrolled_names(variables, lags)
    parents = {name: tuple(nodes[u] for u in own) for name, own in zip(nodes, parents, strict=True)}
    return Network(variables, levels, parents, dict(zip(nodes, local, strict=True)), lags)
