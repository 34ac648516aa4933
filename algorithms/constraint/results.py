"""The results of independence tests."""

from collections.abc import Callable
from dataclasses import dataclass

from ..core.schema import FloatArray
from .subsets import Tests


@dataclass(frozen=True)
class Results:
    """Per test, `[n_tests]`: the p-value of independence, and the strength of the dependence on a common scale.

    A vote or an oracle has no p-value: it gives 1 for independent and 0 for dependent.
    """

    p: FloatArray
    strength: FloatArray


IndependenceTests = Callable[[Tests], Results]
