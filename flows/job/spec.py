"""Which algorithm the options ask for, with its typed settings."""

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.spec import AlgorithmSpec

from ..options.learn import LearnOptions


def spec_of(options: LearnOptions) -> AlgorithmSpec:
    """Return the algorithm that `options` ask for, with its settings, the privacy budget among them.

    Raises `BadInput` for a parameter or a value that the algorithm does not have.
    """
    return registry.specify(options.algorithm, options.params, options.epsilon, options.delta)
