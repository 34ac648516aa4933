"""The policy of a silo's owner: its worker refuses every run and request that the policy does not allow.

All silos check a run before its first round, so that a run which one silo refuses spends no budget at the others. Each
silo repeats the check with every request, because a coordinator could send a request that it did not announce.
"""

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Algorithm
from fedbnsl.algorithms.core.release import LEVELS, Level
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.settings import Count, CountOrNone, Positive, Settings, ShareOrNone
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import Budget
from fedbnsl.algorithms.privacy.zcdp import epsilon
from fedbnsl.algorithms.statistics.coding import coding_of
from fedbnsl.algorithms.statistics.count_tables import NO_LIMITS, CountLimits


class NotAllowed(BadInput):
    """A silo refuses a request on behalf of its owner; the request has spent no budget."""


@dataclass(frozen=True)
class Policy(Settings):
    """The limits set by the owner of a silo; the defaults allow everything.

    Raises `BadInput` for an unknown algorithm or step, and for values out of range.
    """

    called: ClassVar[str] = "policy: "
    algorithms: tuple[str, ...] = ()
    """algorithms that may run; if empty, all algorithms may run"""
    steps: tuple[str, ...] | None = None
    """further exchanges that a run may request (parameters, diagnoses, resamples …); if None, all are allowed; those
    that prepare round 1 (`Entry.prepares`) are always allowed"""
    epsilon: Positive = math.inf
    """the largest ε of a run at the owner's δ; if it is finite, runs that promise no ε are refused"""
    total_epsilon: Positive = math.inf
    """the largest total ε of all runs, at the owner's δ"""
    delta: ShareOrNone = 0.0
    """the owner's δ; 0 means 1/n², where n is the number of rows of this silo"""
    masked: bool = False
    """whether replies may leave only as summands of a secure sum"""
    silos: Count = 1
    """the minimum number of silos in a secure sum, also after dropouts"""
    rows: Count = 1
    """the minimum number of rows of this silo in a run"""
    cells: Count = 1
    """the minimum count of a cell in a count table: smaller counts become 0 before they enter a sum"""
    variables: CountOrNone = 0
    """the maximum number of variables of a count table; 0 means no maximum"""
    parameters: Positive = math.inf
    """the maximum number of free parameters of a count table or regression, as a share of this silo's rows"""
    experiments: bool = False
    """with `masked`, whether masked sums may leave out a single silo because only this silo targets a variable"""
    changed_rows: CountOrNone = 10
    """minimum number of changed rows between two publications without an ε, if any row changes; 0 means no minimum"""
    level: Level = "trusted"
    """what may leave at all (`algorithms/core/release.py`); the other limits apply besides"""

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_unknown("algorithms", self.algorithms, (*registry.ALGORITHMS,))
        _refuse_unknown("steps", self.steps or (), STEPS)
        _refuse_unknown("level", (self.level,), (*LEVELS,))
        if self.level == "epsilon" and not self.demands_epsilon:
            raise BadInput(
                "policy: level 'epsilon' needs epsilon, the maximum ε of a run, and better also total_epsilon"
            )
        if self.level == "sums" and not (self.masked and self.silos >= MIN_GROUP):
            raise BadInput(f"policy: level 'sums' needs masked = true, and silos of {MIN_GROUP} or more")

    @property
    def describes_names_only(self) -> bool:
        """Whether the silo describes only the names of its columns and the number of its rows.

        Kinds and levels are then those of the owner's `about.json`, and no cell decides whether a run succeeds.
        """
        return self.demands_epsilon or self.level == "sums"

    @property
    def demands_epsilon(self) -> bool:
        """Whether runs without an ε are refused."""
        return not math.isinf(self.epsilon)

    @property
    def count_limits(self) -> CountLimits:
        """The limits on count tables in runs without an ε; in other runs, noise hides small cells."""
        return CountLimits(self.cells, self.variables or math.inf, self.parameters)

    @property
    def budget(self) -> Budget:
        """The budget of all runs together."""
        return Budget(self.total_epsilon, self.delta)

    def check(self, silo: str, spec: AlgorithmSpec, schema: Schema, *, behind_masks: bool) -> None:
        """Raise `NotAllowed` for a run of `spec` on `silo` that its owner does not allow.

        `behind_masks`: whether the silo's replies leave as summands of a secure sum.
        """
        reason = self._refusal_reason(silo, spec, schema, behind_masks)
        if reason:
            raise NotAllowed(f"silo {silo}: its owner's policy refuses {spec.name}: {reason}")

    def check_sum(self, silo: str, survivors: int) -> None:
        """Raise `NotAllowed` for a secure sum over fewer silos than the owner allows."""
        if survivors < self.silos:
            raise NotAllowed(
                f"silo {silo}: its owner's policy refuses a sum over {survivors} silos: the minimum is {self.silos}"
            )

    @property
    def least_group(self) -> int:
        """The minimum number of silos over which any combination of masked sums may be."""
        return max(self.silos, MIN_GROUP)

    def _refusal_reason(self, silo: str, spec: AlgorithmSpec, schema: Schema, behind_masks: bool) -> str:
        """The reason to refuse a run, "" if the policy allows it."""
        limited = spec.name in registry.STEPS and not registry.STEPS[spec.name].prepares
        steps = [*((spec.name,) if limited else ()), *(one.name for one in spec.wrappers)]
        odd = [name for name in steps if self.steps is not None and name not in self.steps]
        if odd:
            return f"step {odd[0]} is not allowed; allowed steps: {', '.join(self.steps or ()) or 'none'}"
        if self.algorithms and spec.name not in (*self.algorithms, *registry.STEPS):
            return f"allowed algorithms: {', '.join(self.algorithms)}"
        if schema.rows.get(silo, 0) < self.rows:
            return f"the minimum is {self.rows} rows, and this silo has {schema.rows.get(silo, 0)}"
        if self.masked and not behind_masks:
            return "replies must be masked (--secure)"
        if behind_masks and len(schema.rows) < self.silos:
            return f"a secure sum would be over {len(schema.rows)} silos: the minimum is {self.silos}"
        if self.cells > 1 and registry.entry(spec.name).scores_tables:
            return (
                f"counts below {self.cells} become 0, and its search need not end if tables disagree on their margins; "
                "use fed-pc or fed-fci"
            )
        algorithm = registry.build(spec)
        if algorithm.private is not None and self.count_limits != NO_LIMITS and not self.demands_epsilon:
            return "it has limits for count tables, which noise replaces only if it also limits epsilon"
        if algorithm.private is None and schema.kind != "discrete":
            reason = self._moments_refusal_reason(schema, schema.rows[silo])
            if reason:
                return reason
        return self._epsilon_excess(algorithm, schema, silo)

    def _moments_refusal_reason(self, schema: Schema, rows: int) -> str:
        """The reason to refuse second moments, "" if the policy allows them.

        The coordinator can compute counts of labels and any regression from second moments.
        """
        if self.cells > 1 and schema.levels:
            return f"sums of products of labels are counts, which may not be below {self.cells}"
        parameters = 1 + coding_of(schema).size
        if parameters > self.parameters * rows:
            return f"a regression may have {parameters} parameters: the maximum is {self.parameters:g} of {rows:,} rows"
        return ""

    def _epsilon_excess(self, algorithm: Algorithm, schema: Schema, silo: str) -> str:
        """The reason why the ε of the run exceeds the owner's limit, "" if it does not."""
        if not self.demands_epsilon:
            return ""
        promise = algorithm.private.promise(schema) if algorithm.private else None
        if promise is None or promise.broken:
            return f"it promises no ε: the maximum ε is {self.epsilon:g} (--epsilon)"
        delta = self.budget.delta_of(schema.rows[silo])
        spent = epsilon(promise.cost, delta)
        if spent > self.epsilon * (1 + 1e-9):
            return f"its ε is {spent:.4g} at the owner's δ = {delta:.3g}: the maximum is {self.epsilon:g}"
        return ""


MIN_GROUP = 2
"""the minimum number of silos over which a combination of masked sums may be, under any policy

A combination over one silo would be the unmasked contribution of this silo.
"""
STEPS = (*registry.STEPS, *registry.WRAPPERS)
"""the exchanges besides an algorithm's own rounds, and the wrappers"""


LEVEL_LIMITS: dict[str, dict[str, Any]] = {"sums": {"masked": True, "silos": 3, "rows": 50}}
"""by level, the limits that hold unless the owner sets them"""


def policy_of(table: dict[str, Any]) -> Policy:
    """The policy from the `[policy]` table of a silo's file; raises `BadInput` naming a key or a value.

    The limits of the level apply where the table has no line of its own.
    """
    kinds = {field.name: field.type for field in fields(Policy)}
    values = dict(LEVEL_LIMITS.get(str(table.get("level")), {}))
    for name, value in table.items():
        if name not in kinds:
            raise BadInput(f"policy: unknown key '{name}'; available: {', '.join(kinds)}")
        values[name] = _value(name, value)
    return Policy(**values)


def _value(name: str, value: Any) -> Any:
    if name in ("algorithms", "steps"):
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise BadInput(f"policy: {name} is {value!r}: it must be a list of names")
        return tuple(value)
    if name == "level":
        if not isinstance(value, str):
            raise BadInput(f"policy: level is {value!r}: it must be one of {', '.join(LEVELS)}")
        return value
    if name in ("masked", "experiments"):
        if not isinstance(value, bool):
            raise BadInput(f"policy: {name} is {value!r}: it must be true or false")
        return value
    whole = name in ("silos", "rows", "cells", "variables", "changed_rows")
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise BadInput(f"policy: {name} is {value!r}: it must be a {'whole ' if whole else ''}number")
    return value if whole else float(value)


def _refuse_unknown(key: str, names: tuple[str, ...], available: tuple[str, ...]) -> None:
    for name in names:
        if name not in available:
            raise BadInput(f"policy: {key} has the unknown name '{name}'; available: {', '.join(available)}")


UNRESTRICTED = Policy()
"""the default policy, which allows everything"""
