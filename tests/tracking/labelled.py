"""A discrete network with its own labels, and a finished run that learned it."""

from dataclasses import replace

import numpy as np

from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.tracking.result import Parameters


def discrete(levels, seed=0):
    """A network with these labels; the second variable lacks the last label, the third has another order."""
    rng = np.random.default_rng(seed)
    of = {"smoke": levels, "lung cancer": levels[:-1] if len(levels) > 2 else levels, "c-3": levels[::-1]}
    parents = {"smoke": (), "lung cancer": ("smoke",), "c-3": ("smoke", "lung cancer")}
    tables = {
        name: rng.dirichlet(np.ones(len(of[name])), tuple(len(of[parent]) for parent in parents[name])) for name in of
    }
    return Network(tuple(of), of, parents, tables)


def of(chain, network):
    return replace(chain, structure=network.structure, truth=None, parameters=Parameters(network, "counts"))
