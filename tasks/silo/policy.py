"""What the owner of a silo allows: its worker refuses everything else, whatever a coordinator asks for.

A policy is judged twice by the same function: before the first round, at all silos, so that a run that one of them
refuses spends nothing anywhere; and again with every request, since a coordinator may ask for what it did not announce.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import Algorithm, AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import Budget
from fedbnsl.algorithms.privacy.zcdp import epsilon


class NotAllowed(BadInput):
    """Refused by the policy of a silo's owner; nothing was spent."""


@dataclass(frozen=True)
class Policy:
    """What the owner of a silo allows; the defaults allow everything.

    Raises `BadInput` for values that cannot be meant.
    """

    algorithms: tuple[str, ...] = ()
    """algorithms that may run; none named: all"""
    steps: tuple[str, ...] | None = None
    """further exchanges that a run may ask for (parameters, diagnoses, resamples …); not said: all"""
    epsilon: float = math.inf
    """the largest ε of a run at the owner's δ; if it is finite, runs that promise no ε are refused"""
    total_epsilon: float = math.inf
    """the largest ε of all runs together, at the owner's δ"""
    delta: float = 0.0
    """the owner's δ; 0 stands for 1/n², n the rows of this silo"""
    masked: bool = False
    """whether replies may leave as summands of a secure sum only"""
    silos: int = 1
    """the least number of silos in a secure sum, also after silos were lost"""
    rows: int = 1
    """the least number of rows of this silo in a run"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for an unknown algorithm or step, and for numbers out of their range."""
        _refuse_unknown("algorithms", self.algorithms, (*registry.ALGORITHMS,))
        _refuse_unknown("steps", self.steps or (), STEPS)
        for name in ("epsilon", "total_epsilon"):
            if not getattr(self, name) > 0:
                raise BadInput(f"policy: {name} is {getattr(self, name)}: it must be above 0")
        if not 0 <= self.delta < 1:
            raise BadInput(f"policy: delta is {self.delta}: it must be from 0 to below 1")
        for name in ("silos", "rows"):
            if getattr(self, name) < 1:
                raise BadInput(f"policy: {name} is {getattr(self, name)}: it must be 1 or more")

    @property
    def budget(self) -> Budget:
        """What all runs together may spend."""
        return Budget(self.total_epsilon, self.delta)

    def check(self, silo: str, spec: AlgorithmSpec, schema: Schema, *, behind_masks: bool) -> None:
        """Raise `NotAllowed` for a run of `spec` on `silo` that its owner does not allow.

        `behind_masks` tells whether the silo's replies leave as summands of a secure sum.
        """
        reason = self._against(silo, spec, schema, behind_masks)
        if reason:
            raise NotAllowed(f"silo {silo}: its owner's policy refuses {spec.name}: {reason}")

    def check_sum(self, silo: str, survivors: int) -> None:
        """Raise `NotAllowed` for a secure sum over fewer silos than the owner allows."""
        if survivors < self.silos:
            raise NotAllowed(
                f"silo {silo}: its owner's policy refuses a sum over {survivors} silos, {self.silos} at least"
            )

    def _against(self, silo: str, spec: AlgorithmSpec, schema: Schema, behind_masks: bool) -> str:
        """Return what speaks against a run, "" if nothing does."""
        asked = [*((spec.name,) if spec.name in registry.STEPS else ()), *(one.name for one in spec.wrappers)]
        odd = [name for name in asked if self.steps is not None and name not in self.steps]
        if odd:
            return f"{odd[0]} is none of the steps that are allowed, {', '.join(self.steps or ()) or 'which are none'}"
        if self.algorithms and spec.name not in (*self.algorithms, *registry.STEPS):
            return f"allowed are {', '.join(self.algorithms)}"
        if schema.rows.get(silo, 0) < self.rows:
            return f"it takes runs on {self.rows} rows or more, and this silo has {schema.rows.get(silo, 0)}"
        if self.masked and not behind_masks:
            return "replies may leave behind masks only (--secure)"
        if behind_masks and len(schema.rows) < self.silos:
            return f"a secure sum is over {len(schema.rows)} silos, {self.silos} at least"
        return self._over(registry.build(spec), schema, silo)

    def _over(self, algorithm: Algorithm, schema: Schema, silo: str) -> str:
        """In which way the run would promise less than the owner demands, "" if it does not."""
        if math.isinf(self.epsilon):
            return ""
        promise = algorithm.private.promise(schema) if algorithm.private else None
        if promise is None or promise.broken:
            return f"it promises no ε, and ε is {self.epsilon:g} at most (--epsilon)"
        delta = self.budget.delta_of(schema.rows[silo])
        found = epsilon(promise.cost, delta)
        if found > self.epsilon * (1 + 1e-9):
            return f"its ε is {found:.4g} at the owner's δ = {delta:.3g}, {self.epsilon:g} at most"
        return ""


STEPS = (*registry.STEPS, *registry.WRAPPERS)
"""the exchanges besides an algorithm's own rounds, and what may be wrapped around it"""


def policy_of(said: dict[str, Any]) -> Policy:
    """The policy of the table `[policy]` of a silo's file; raises `BadInput` naming a key or a value."""
    kinds = {field.name: field.type for field in fields(Policy)}
    values: dict[str, Any] = {}
    for name, value in said.items():
        if name not in kinds:
            raise BadInput(f"policy: there is no '{name}': there are {', '.join(kinds)}")
        values[name] = _value(name, value)
    return Policy(**values)


def _value(name: str, value: Any) -> Any:
    if name in ("algorithms", "steps"):
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise BadInput(f"policy: {name} is {value!r}: give a list of names")
        return tuple(value)
    if name == "masked":
        if not isinstance(value, bool):
            raise BadInput(f"policy: masked is {value!r}: give true or false")
        return value
    whole = name in ("silos", "rows")
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise BadInput(f"policy: {name} is {value!r}: give a {'whole ' if whole else ''}number")
    return value if whole else float(value)


def _refuse_unknown(what: str, names: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise BadInput(f"policy: {what} names '{name}': there are {', '.join(known)}")


ANYTHING = Policy()
"""the policy of an owner who did not give one"""
