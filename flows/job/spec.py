"""Which algorithm the options ask for, with its typed settings."""

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.spec import AlgorithmSpec

from ..options.learn import LearnOptions


def spec_of(options: LearnOptions) -> AlgorithmSpec:
    """Return the algorithm that `options` ask for, with its settings, the privacy budget among them.

    A learner that draws at random from a seed in its settings gets that of the run, unless its parameters have another.

    Raises `BadInput` for a parameter or a value that the algorithm does not have.
    """
    params = options.params
    if "seed" in registry.parameter_names(options.algorithm):
        params = {"seed": options.seed, **params}
    return registry.specify(options.algorithm, params, options.epsilon, options.delta)
