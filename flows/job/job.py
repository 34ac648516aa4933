"""The description of one execution of `learn`: everything is parsed and typed, and nothing has begun."""

from dataclasses import dataclass, field, replace
from typing import Any

from fedbnsl.algorithms.core.filling import NOTHING_FILLED, Filling
from fedbnsl.algorithms.core.knowledge import NOTHING_KNOWN, Knowledge
from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.privacy.ledger import Budget


@dataclass(frozen=True)
class Filled:
    """How silos came to know of their empty cells: in words, in how many exchanges, and the bytes these sent."""

    said: str = ""
    exchanges: int = 0
    bytes_sent: int = 0

    @property
    def metrics(self) -> dict[str, int]:
        """As figures of a run."""
        return {"filling_exchanges": self.exchanges, "filling_bytes": self.bytes_sent}


NOT_FILLED = Filled()


@dataclass(frozen=True)
class Job:
    """What is to be learned, on which data, under which name."""

    name: str
    run_id: str
    spec: AlgorithmSpec
    asked: str
    """the algorithm by the name that it was asked for: that of `spec`, or `auto`"""
    seed: int
    engine: str
    dataset: str
    allow_cyclic_truth: bool
    secure: bool
    budget: Budget
    """the most that all runs on a silo's rows may spend together"""
    parameters: bool
    """whether to learn the parameters of the structure, too"""
    diagnose: bool
    """whether to ask what the data can support, and which silo disagrees"""
    smoothing: float
    """equivalent sample size of the prior of probability tables"""
    bootstrap: int = 0
    """from how many resamples to learn again, for how sure the edges are; 0 for none"""
    about: dict[str, Any] = field(default_factory=dict)
    truth: Structure | None = None
    knowledge: Knowledge = NOTHING_KNOWN
    """of the graph, beforehand"""
    units: tuple[float, ...] = ()
    """of each column, for masked sums; empty where none were asked for"""
    filling: Filling = NOTHING_FILLED
    """what silos are to know of their empty cells"""
    filled: Filled = NOT_FILLED
    """how that was found out"""
    silo_weights: dict[str, FloatArray] = field(default_factory=dict)
    """each silo's own true weights, for data made with such"""

    def known(self, schema: Schema) -> Schema:
        """Return the public `schema` with what this run knows of the graph, the units and the empty cells."""
        return replace(schema, units=self.units, filling=self.filling, knowledge=self.knowledge)

    @property
    def center(self) -> bool:
        """Whether the algorithm subtracts each silo's own column means: what follows the rounds then does so, too.

        Those without a setting of that name always do.
        """
        return bool(getattr(self.spec.settings, "center", True))

    @property
    def center_series(self) -> bool:
        """The same where the rows are time series, for which a setting of that name may ask instead."""
        settings = self.spec.settings
        return bool(getattr(settings, "center_series", getattr(settings, "center", False)))
