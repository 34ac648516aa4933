"""What a coordinator tells a silo about a run: everything but the broadcasts of its rounds."""

from dataclasses import dataclass
from functools import lru_cache

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import Algorithm
from fedbnsl.algorithms.privacy.ledger import NO_LIMIT, Budget
from fedbnsl.data.folder.declared import NOTHING_DECLARED, Declared


@dataclass(frozen=True)
class RunTerms:
    """The terms of a run, the same in every round."""

    run_id: str
    spec: bytes
    """the packed specification of the algorithm (`registry.pack`)"""
    schema: Schema
    seed: int
    budget: Budget = NO_LIMIT
    """the most that all runs on a silo's rows may spend together"""
    declared: Declared = NOTHING_DECLARED
    """what is said of the data, and how they are to be read"""
    step_of: str = ""
    """the run that this one is a step of, before or after its rounds: both learn from the same rows"""

    @property
    def pinned_run(self) -> str:
        """The run that a silo's rows must not change under."""
        return self.step_of or self.run_id

    def algorithm(self) -> Algorithm:
        """Return the algorithm; raises `BadInput` for a name that this registry does not have."""
        return built(self.spec)


@lru_cache(maxsize=32)
def built(spec: bytes) -> Algorithm:
    """Return the algorithm of a packed specification, built once in a process."""
    return registry.build(registry.unpack(spec))
