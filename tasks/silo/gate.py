"""The gate of a silo: the one place that decides what may leave it, and the permanent record of what has left.

Everything that leaves a silo about its rows is a `SiloRelease`: a kind of statistic, the silos mixed in it, the rows
that enter it, whether the coordinator chose its arguments, and its ε. `Gate.check` decides on each release, before it
is computed, from the owner's policy and from the record; `Gate.record` then records it. Both use the owner's facts and
the request itself. A coordinator's names of runs decide nothing: they only group the lines of its disclosure statement.

Laws, for a silo whose policy has `masked`:

- Nothing about a single silo leaves: no unmasked reply, and no entry of a sum that only this silo fills.
- All sums of a silo, in whichever run, are over the same silos. Each of these silos follows this law, so none of them
  is in a sum that the others do not know, and each has the complete record of the sums that it is in.
- Sums group the silos: with experiments, two silos are in one group if they were in the same sums since the record
  began. Every linear combination of the sums has the same coefficient for all silos of a group, so it discloses totals
  of groups only. The gate refuses a sum with which a group would have fewer than `silos` silos (at least 2).
- Noise excuses from these laws only if the owner limits ε. Otherwise the coordinator could ask for so little noise that
  there is none.
- At level `sums`, every statistic is a fixed function of the rows (`FIXED_SUMS`). Asked again, it has the same value
  while the rows are the same, and rows that change by few are refused (`publications.py`).

The record is part of the journal. Ending a run does not shorten it; if it is full, the gate refuses.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.experiments import Unit, smallest_group
from fedbnsl.algorithms.core.protocol import Algorithm
from fedbnsl.algorithms.core.release import FIXED_SUMS, Disclosed, SiloRelease, Statistic, statistic_of
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import pluralize

from .journal import Journal
from .policy import NotAllowed, Policy
from .runs import RunTerms

WHOLE = -1
"""in a sum of the record, the number of the condition that stands for all rows of a silo"""
Sum = frozenset[Unit]
"""the conditions that are added up in a sum"""
Form = tuple[object, ...]
"""all fields of a line of a disclosure statement except its numbers"""


def release_of(terms: RunTerms, silo: str, broadcast: object, *, behind_masks: bool) -> SiloRelease:
    """The release with which `silo` would answer `broadcast` (decoded) under `terms`."""
    spec, algorithm = terms.spec_value, terms.algorithm()
    statistic = statistic_of(algorithm.releases, broadcast)
    return SiloRelease(
        algorithm=" of ".join([*(one.name for one in reversed(spec.wrappers)), spec.name]),
        statistic=statistic,
        silos=terms.schema.silos if behind_masks else (silo,),
        masked=behind_masks,
        rows=effective_rows(spec, terms.schema, silo),
        chosen=statistic not in FIXED_SUMS or has_chosen_numbers(terms.schema),
        private=algorithm.private is not None,
    )


def effective_rows(spec: AlgorithmSpec, schema: Schema, silo: str) -> int:
    """The number of rows of `silo` that enter each statistic, after all wrappers; 0 for a silo that has none.

    Of time series, they are the rows that have all lagged rows.
    """
    if silo not in schema.rows:
        return 0
    for one in spec.wrappers:
        schema = registry.wrapper_entry(one.name).schema(one.settings, schema)
    return schema.windows(longest_reach(spec))[silo] if schema.kind == "time-series" else schema.rows[silo]


def longest_reach(spec: AlgorithmSpec) -> int:
    """The number of earlier rows that a window of `spec` may have; if the lags are chosen from data, the largest."""
    lags = [getattr(spec.settings, name, 0) for name in ("lags", "max_lags")]
    known = registry.ALGORITHMS.get(spec.name) or registry.STEPS.get(spec.name)  # neither for one of this process alone
    return (known.reach if known else 1) * next((one for one in lags if isinstance(one, int) and one), 0)


def has_chosen_numbers(schema: Schema) -> bool:
    """Whether numbers that the coordinator sends in `schema` fill empty cells, set cells aside, or adjust series."""
    model = schema.imputation_model
    return bool(
        model.covariance.size or model.dag.size or model.tables.size or model.screens or schema.adjustment.period
    )


class Gate:
    """The gate of `silo`, for an owner with this `policy`."""

    def __init__(
        self, silo: str, policy: Policy, *, guarded: bool, journal: Callable[[], Journal | None] = lambda: None
    ) -> None:
        """Start with the record of `journal`, which may open later; without one, the record ends with the process.

        `guarded` silos belong to another party than the coordinator, or have a policy.
        """
        self._silo = silo
        self._policy = policy
        self._guarded = guarded
        self._lines: dict[str, dict[Form, Disclosed]] = {}
        """by run, the lines of its disclosure statement"""
        self._journal = journal

    def check_run(self, terms: RunTerms, *, behind_masks: bool) -> None:
        """Raise `NotAllowed` for a run of which the policy allows no release.

        It is asked before round 1, so that a run which one silo refuses spends nothing at the others.
        """
        spec, schema, algorithm = terms.spec_value, terms.schema, terms.algorithm()
        if self._guarded:
            self._check_policy(spec, schema, algorithm, behind_masks=behind_masks)
        if algorithm.needs_secure_sum and not behind_masks and (len(schema.rows) > 1 or self._guarded):
            raise NotAllowed(
                f"silo {self._silo}: this algorithm needs a secure sum: its unmasked replies would disclose what "
                "the sum hides"
            )

    def is_excused(self, algorithm: Algorithm) -> bool:
        """Whether the noise of `algorithm` excuses it from the laws of sums and of changed rows."""
        return algorithm.private is not None and (not self._guarded or self._policy.demands_epsilon)

    def _check_policy(self, spec: AlgorithmSpec, schema: Schema, algorithm: Algorithm, *, behind_masks: bool) -> None:
        self._policy.check(self._silo, spec, schema, behind_masks=behind_masks)
        names = [one.name for one in spec.wrappers]
        if len(names) > 1:
            self._refuse(spec, f"a run has at most one wrapper, not {' around '.join(reversed(names))}")
        rows = effective_rows(spec, schema, self._silo)
        if rows < self._policy.rows:
            self._refuse(spec, f"the minimum is {self._policy.rows} rows, and {rows} of this silo would enter a reply")
        draws = max((registry.wrapper_entry(one.name).draws(one.settings) for one in spec.wrappers), default=0)
        if draws > schema.rows[self._silo]:
            self._refuse(spec, f"a run may have as many resamples as this silo has rows, not {draws}")
        if self._policy.level == "epsilon" and algorithm.private is None:
            self._refuse(spec, "level epsilon allows only replies with noise (--epsilon)")
        if self._policy.level == "sums" and not self.is_excused(algorithm):
            reason = _sums_refusal_reason(spec, schema)
            if reason:
                self._refuse(spec, f"level sums allows only masked sums of moments and counts: {reason}")

    def check(self, terms: RunTerms, number: int, release: SiloRelease) -> None:
        """Raise `NotAllowed` for a `release` in round `number` that the owner does not allow."""
        spec, algorithm = terms.spec_value, terms.algorithm()
        if not 1 <= number <= algorithm.max_rounds:
            rounds = pluralize(algorithm.max_rounds, "round")
            raise NotAllowed(f"silo {self._silo} refuses {spec.name}: round {number} is not one of its {rounds}")
        if not self._guarded:
            return
        if release.statistic == "undeclared":
            self._refuse(spec, "it does not declare which statistic leaves the silo")
        if self._policy.masked and release.statistic == "own figures":
            self._refuse(spec, "replies would have figures of this silo alone, and replies must be masked")
        if self._policy.level == "sums" and not self.is_excused(algorithm) and release.chosen:
            what = release.statistic if release.statistic not in FIXED_SUMS else "an imputation model or a season"
            self._refuse(spec, f"level sums allows only fixed sums, and the coordinator chooses numbers of: {what}")

    def check_sums(self, terms: RunTerms, silos: tuple[str, ...], *, record: bool = False) -> None:
        """Raise `NotAllowed` if masked sums over `silos`, or a combination with earlier ones, split silos off.

        Sums whose ε the owner limits are exempt, and all sums without `masked`, because each silo's own replies may
        leave then. With `record`, the sums are recorded for good.
        """
        if self.is_excused(terms.algorithm()) or not self._policy.masked:
            return
        sums, least, journal = self.sums(terms, silos), self._policy.least_group, self._journal()
        minimum = f"the minimum is {pluralize(least, 'silo')}"
        group = smallest_group(_with_conditions(sums))
        if terms.schema.has_targets and len(group) < least:
            compares = terms.schema.compares_conditions
            why = "--targets unknown compares" if compares else "the targets of experiments require"
            what = f"{why} sums of which a combination is over {', '.join(group)} alone"
            self._refuse(terms.spec_value, f"{what}: {minimum}")
        earlier = journal.sums_over() if journal else []
        known = {silo for one in earlier for silo, _ in one}
        if known - {*silos} or (known and {*silos} - known):
            what = f"a sum over other silos than before, which were {', '.join(sorted(known))}"
            advice = "learn from the same silos, or have every owner delete the record with `fedbnsl silo forget`"
            self._refuse(terms.spec_value, f"{what}; the difference could be over few silos: {advice}")
        group = smallest_group(_with_conditions([*earlier, *sums]))
        if len(group) < least:
            what = f"other sums than before: a combination of both would be over {', '.join(group)} alone"
            self._refuse(terms.spec_value, f"{what}, and {minimum}; use the same targets")
        if record and journal:
            for one in sums:
                journal.record_sum_over(one)

    def sums(self, terms: RunTerms, silos: tuple[str, ...]) -> tuple[Sum, ...]:
        """The sums that a round of `terms` discloses if these `silos` remain, the sum over all of them first.

        If the owner allows sums of single silos for `experiments`, only the sum over all of them counts.
        """
        schema, whole = terms.schema, frozenset((silo, WHOLE) for silo in silos)
        if not schema.has_targets or self._policy.experiments:
            return (whole,)
        several = {silo for silo in silos if len(schema.conditions(silo)) > 1}
        parts = (
            frozenset((silo, condition if silo in several else WHOLE) for silo, condition in units)
            for units in schema.experiments.units(silos)
        )
        return tuple(dict.fromkeys([whole, *parts]))

    def record(
        self, terms: RunTerms, release: SiloRelease, size: int, numbers: int = 0, rho: float = 0.0, smallest: int = 0
    ) -> None:
        """Record that a reply of `size` bytes leaves, with this number of `numbers` and this `smallest` count."""
        figures: dict[str, Any] = {"numbers": numbers, "rho": rho, "smallest": smallest, "times": 1, "bytes": size}
        self._add(terms.pinned_run, Disclosed(**vars(release), part=terms.part, **figures))

    def record_message(self, run: str, statistic: Statistic, size: int, silos: tuple[str, ...] = ()) -> None:
        """Record that a message of `size` bytes leaves that is no reply of a round.

        The description is sent before a run has a name; it belongs to the next run that begins.
        """
        self._add(run, Disclosed("", statistic, silos or (self._silo,), bool(silos), times=1, bytes=size))

    def _add(self, run: str, one: Disclosed) -> None:
        if run:
            for earlier in self._lines.pop("", {}).values():
                self._add(run, earlier)
        if run not in self._lines:
            self._lines[run] = self._recorded(run)
        lines = self._lines[run]
        form = _form(one)
        line = lines.get(form)
        lines[form] = (
            one
            if line is None
            else replace(
                line,
                numbers=max(line.numbers, one.numbers),
                rho=line.rho + one.rho,
                smallest=min((count for count in (line.smallest, one.smallest) if count), default=0),
                times=line.times + one.times,
                bytes=line.bytes + one.bytes,
            )
        )
        journal = self._journal()
        if run and journal is not None:
            journal.record_disclosed(run, list(lines).index(form), lines[form])

    def _recorded(self, run: str) -> dict[Form, Disclosed]:
        journal = self._journal()
        return {} if journal is None else {_form(line): line for line in journal.disclosed(run)}

    def statement(self, run: str) -> tuple[Disclosed, ...]:
        """The lines of the disclosure statement of `run`, in the order of their first replies."""
        return tuple((self._lines.get(run) or self._recorded(run)).values())

    def forget(self, run: str) -> None:
        """Drop the lines of a finished run from memory; the record that the journal has is permanent."""
        self._lines.pop(run, None)

    def _refuse(self, spec: AlgorithmSpec, reason: str) -> None:
        raise NotAllowed(f"silo {self._silo}: its owner's policy refuses {spec.name}: {reason}")


def _sums_refusal_reason(spec: AlgorithmSpec, schema: Schema) -> str:
    """Why a run without an ε has other releases than masked fixed sums; "" if it has none."""
    entry = registry.entry(spec.name)
    if entry.at_sums is None:
        what = entry.releases if isinstance(entry.releases, str) else "other statistics"
        return f"{spec.name} sends {what}"
    if registry.at_sums(spec) != spec:
        return f"with these settings, {spec.name} sends other statistics"
    odd = [one.name for one in spec.wrappers if not registry.wrapper_entry(one.name).at_sums(one.settings)]
    if odd:
        return f"with these settings, {odd[0]} sends other statistics"
    return "the coordinator would choose a model of the empty cells, or a season" if has_chosen_numbers(schema) else ""


def _with_conditions(sums: Iterable[Sum]) -> list[Sum]:
    """The `sums` with the conditions of each silo in place of all its rows, for silos that have conditions in any."""
    every = list(sums)
    known: dict[str, set[Unit]] = {}
    for silo, condition in (unit for one in every for unit in one):
        known.setdefault(silo, set()).update({(silo, condition)} if condition != WHOLE else ())
    return [
        frozenset(
            part
            for silo, condition in one
            for part in ((known[silo] or {(silo, WHOLE)}) if condition == WHOLE else {(silo, condition)})
        )
        for one in every
    ]


def _form(line: Disclosed) -> Form:
    """What messages of the same line of a statement have in common: everything but numbers."""
    return line.part, line.algorithm, line.statistic, line.silos, line.masked, line.rows, line.chosen, line.private


def numbers_in(reply: object) -> int:
    """The number of numbers in the arrays of a reply."""
    if isinstance(reply, np.ndarray):
        return reply.size
    if isinstance(reply, tuple):
        return sum(map(numbers_in, reply))
    names = wire.field_names(cast(Hashable, type(reply))) or ()
    return sum(numbers_in(getattr(reply, name)) for name in names)


def smallest_count(algorithm: Algorithm, release: SiloRelease, reply: object) -> int:
    """The smallest count above 0 in the `reply` of an unmasked release; 0 for a release without public counts."""
    if release.statistic != "counts" or release.masked or release.private or algorithm.summand is None:
        return 0
    counts = algorithm.summand(reply)
    positive = counts[counts > 0]
    return int(positive.min()) if len(positive) else 0
