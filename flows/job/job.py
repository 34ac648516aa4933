"""The description of one execution of `learn`: everything is parsed and typed, and nothing has begun."""

from dataclasses import dataclass, field
from typing import Any

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.graphs.structure import Structure


@dataclass(frozen=True)
class Job:
    """What is to be learned, on which data, under which name."""

    name: str
    run_id: str
    spec: AlgorithmSpec
    seed: int
    engine: str
    dataset: str
    allow_cyclic_truth: bool
    secure: bool
    budget: float
    """the most ε that all runs on a silo's rows may spend together"""
    parameters: bool
    """whether to learn the parameters of the structure, too"""
    smoothing: float
    """equivalent sample size of the prior of probability tables"""
    bootstrap: int = 0
    """from how many resamples to learn again, for how sure the edges are; 0 for none"""
    about: dict[str, Any] = field(default_factory=dict)
    truth: Structure | None = None
    silo_weights: dict[str, FloatArray] = field(default_factory=dict)
    """each silo's own true weights, for data made with such"""

    @property
    def center(self) -> bool:
        """Whether the algorithm subtracts each silo's own column means: what follows the rounds then does so, too."""
        return bool(getattr(self.spec.settings, "center", False))

    @property
    def center_series(self) -> bool:
        """The same where the rows are time series, for which a setting of that name may ask."""
        return self.center or bool(getattr(self.spec.settings, "center_series", False))
