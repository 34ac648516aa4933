"""The policy of a silo's owner: its worker refuses every run and request that the policy does not allow.

All silos check a run before its first round, so that a run which one silo refuses spends no budget at the others. Each
silo repeats the check with every request, because a coordinator could send a request that it did not announce.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.experiments import discloses
from fedbnsl.algorithms.core.schema import Schema, pluralize
from fedbnsl.algorithms.core.spec import Algorithm, AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import Budget
from fedbnsl.algorithms.privacy.zcdp import epsilon
from fedbnsl.algorithms.statistics.coding import coding_of
from fedbnsl.algorithms.statistics.count_tables import CountLimits


class NotAllowed(BadInput):
    """A silo refuses a request on behalf of its owner; the request has spent no budget."""


@dataclass(frozen=True)
class Policy:
    """The limits set by the owner of a silo; the defaults allow everything.

    Raises `BadInput` for an unknown algorithm or step, and for values out of range.
    """

    algorithms: tuple[str, ...] = ()
    """algorithms that may run; if empty, all algorithms may run"""
    steps: tuple[str, ...] | None = None
    """further exchanges that a run may request (parameters, diagnoses, resamples …); if None, all are allowed"""
    epsilon: float = math.inf
    """the largest ε of a run at the owner's δ; if it is finite, runs that promise no ε are refused"""
    total_epsilon: float = math.inf
    """the largest total ε of all runs, at the owner's δ"""
    delta: float = 0.0
    """the owner's δ; 0 means 1/n², where n is the number of rows of this silo"""
    masked: bool = False
    """whether replies may leave only as summands of a secure sum"""
    silos: int = 1
    """the minimum number of silos in a secure sum, also after dropouts"""
    rows: int = 1
    """the minimum number of rows of this silo in a run"""
    cells: int = 1
    """the minimum count of a cell in a count table: smaller counts become 0 before they enter a sum"""
    variables: int = 0
    """the maximum number of variables of a count table; 0 means no maximum"""
    parameters: float = math.inf
    """the maximum number of free parameters of a count table or regression, as a share of this silo's rows"""
    experiments: bool = False
    """with `masked`, whether masked sums may leave out a single silo because only this silo targets a variable"""
    changed_rows: int = 10
    """minimum number of changed rows between two publications without an ε, if any row changes; 0 means no minimum"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for an unknown algorithm or step, and for values out of range."""
        _refuse_unknown("algorithms", self.algorithms, (*registry.ALGORITHMS,))
        _refuse_unknown("steps", self.steps or (), STEPS)
        for name in ("epsilon", "total_epsilon"):
            if not getattr(self, name) > 0:
                raise BadInput(f"policy: {name} is {getattr(self, name)}: it must be above 0")
        if not 0 <= self.delta < 1:
            raise BadInput(f"policy: delta is {self.delta}: it must be from 0 to below 1")
        for name, least in (("silos", 1), ("rows", 1), ("cells", 1), ("variables", 0), ("changed_rows", 0)):
            if getattr(self, name) < least:
                raise BadInput(f"policy: {name} is {getattr(self, name)}: it must be {least} or more")
        if not self.parameters > 0:
            raise BadInput(f"policy: parameters is {self.parameters}: it must be above 0")

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

    def check_difference(self, silo: str, summed: tuple[str, ...], earlier: Iterable[tuple[str, ...]]) -> None:
        """Raise `NotAllowed` if the silos `summed` differ by too few silos from the silos of an `earlier` sum.

        For example, if one silo has left, the difference of the two sums is the contribution of this silo.
        """
        least = max(self.silos, MIN_DIFFERENCE)
        for before in earlier:
            changed = max(len(set(before) - set(summed)), len(set(summed) - set(before)))
            if 0 < changed < least:
                raise NotAllowed(
                    f"silo {silo}: its owner's policy refuses a sum over other silos than before, with fewer than "
                    f"{least} exchanged: the difference of the two sums would disclose theirs; learn from the same "
                    "silos, or use --epsilon"
                )

    def _refusal_reason(self, silo: str, spec: AlgorithmSpec, schema: Schema, behind_masks: bool) -> str:
        """The reason to refuse a run, "" if the policy allows it."""
        steps = [*((spec.name,) if spec.name in registry.STEPS else ()), *(one.name for one in spec.wrappers)]
        odd = [name for name in steps if self.steps is not None and name not in self.steps]
        if odd:
            return f"step {odd[0]} is not allowed; allowed steps: {', '.join(self.steps or ()) or 'none'}"
        if self.algorithms and spec.name not in (*self.algorithms, *registry.STEPS):
            return f"allowed algorithms: {', '.join(self.algorithms)}"
        if schema.rows.get(silo, 0) < self.rows:
            return f"the minimum is {self.rows} rows, and this silo has {schema.rows.get(silo, 0)}"
        if self.masked and not behind_masks:
            return "replies must be masked (--secure)"
        if self.masked and schema.has_targets and not self.experiments:
            reason = self._experiments_refusal_reason(silo, schema)
            if reason:
                return reason
        if behind_masks and len(schema.rows) < self.silos:
            return f"a secure sum would be over {len(schema.rows)} silos: the minimum is {self.silos}"
        if self.cells > 1 and registry.entry(spec.name).scores_tables:
            return (
                f"counts below {self.cells} become 0, and its search need not end if tables disagree on their margins; "
                "use fed-pc or fed-fci"
            )
        algorithm = registry.build(spec)
        if algorithm.private is None and schema.kind != "discrete":
            reason = self._moments_refusal_reason(schema, schema.rows[silo])
            if reason:
                return reason
        return self._epsilon_excess(algorithm, schema, silo)

    def _experiments_refusal_reason(self, silo: str, schema: Schema) -> str:
        """The reason to refuse the sums that targets of experiments require, "" if the policy allows them.

        The coordinator can compute the differences of these sums, so the limits also apply to differences.
        """
        sums, least = schema.experiments.units(schema.rows), max(self.silos, MIN_DIFFERENCE)
        for one in sums[1:]:
            left_out, summed = {unit[0] for unit in set(sums[0]) - set(one)}, {unit[0] for unit in one}
            if schema.compares_conditions and len(summed) < least:
                return (
                    "--targets unknown compares sums of one silo or condition, and one would be of "
                    f"{pluralize(len(summed), 'silo')}: the minimum is {least}"
                )
            if 0 < len(left_out) < least or len(summed) < least:
                return (
                    f"the targets of experiments leave {', '.join(sorted(left_out))} out of a sum over "
                    f"{len(schema.rows)} silos, so differences of sums would be of fewer than {least}"
                )
        if discloses(sums, silo):
            return "the targets of experiments lead to sums of which a combination is of this silo alone"
        return ""

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


MIN_DIFFERENCE = 2
"""the minimum number of silos by which two masked sums may differ under any policy

If two sums differed by one silo, their difference would be the unmasked contribution of this silo.
"""
STEPS = (*registry.STEPS, *registry.WRAPPERS)
"""the exchanges besides an algorithm's own rounds, and the wrappers"""


def policy_of(table: dict[str, Any]) -> Policy:
    """The policy from the `[policy]` table of a silo's file; raises `BadInput` naming a key or a value."""
    kinds = {field.name: field.type for field in fields(Policy)}
    values: dict[str, Any] = {}
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
