"""Experiments: silos, or conditions within a silo, in which variables were set from outside.

A target is a variable whose mechanism an experiment has changed: it was randomised, knocked down or inhibited. The rows
of that condition carry no information about the usual causes of the target. So the score of a variable given its
parents excludes the conditions that target the variable (Hauser, Bühlmann 2012). The silos send one sum over all rows,
and one sum for each distinct set of excluded conditions, over the rows of all other conditions. Variables that exclude
the same conditions share a sum.

If a condition targets exactly one of two adjacent variables, the data determine the direction between them, because the
two variables are scored on different rows. So an edge between variables with different sums is directed (ibid.,
Definition 14; Yang, Katcoff, Uhler 2018 for experiments that do not cut a variable off from its causes).

If the targets are unknown, there is one sum for each condition (`experiments_of_each`), and the mechanisms of all
conditions are compared (`score/mechanisms.py`).

If two sums differ only in the rows of a single silo, their difference discloses the sum over these rows.
`smallest_group` is the smallest set of silos whose rows a coordinator could isolate by adding and subtracting sums.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput, quoted

Targets = tuple[tuple[str, ...], ...]
"""the targets of each condition of a silo; a silo without conditions has one entry for all its rows"""
Unit = tuple[str, int]
"""a silo and the number of one of its conditions"""
MIN_COMPARED = 3
"""minimum number of conditions to compare; with two, the data do not show which of them has the changed mechanism"""


@dataclass(frozen=True)
class MechanismChange:
    """A variable whose mechanism differs in a silo or condition, with the evidence (`score/unknown_targets.py`)."""

    condition: str
    """the name of the silo or condition"""
    variable: str
    parents: tuple[str, ...]
    statistic: float
    """the likelihood ratio statistic against the unchanged mechanism"""
    parameters: int
    """degrees of freedom of the statistic"""
    p_value: float
    """p-value of the χ² test, times the number of comparisons (one for each variable and each other condition), at most
    1"""
    tied: bool
    """whether a change of the mechanism in the other conditions instead would explain the data equally well"""


@dataclass(frozen=True)
class Experiments:
    """The sums from which variables are scored; the first sum is over all rows."""

    group: NDArray[np.int64]
    """the number of the sum from which each variable is scored, `[d]`"""
    used: dict[str, NDArray[np.bool_]]
    """for each silo, whether each sum includes each of its conditions, `[n_sums, n_conditions]`"""
    each: bool = False
    """whether there is one sum for each condition, because the targets are unknown"""

    @property
    def n_sums(self) -> int:
        """The number of sums: one over all rows, and one for each distinct set of excluded conditions."""
        return len(next(iter(self.used.values())))

    @property
    def separated(self) -> NDArray[np.bool_]:
        """For each pair, whether some condition targets exactly one of the two variables, `[d, d]`, symmetric.

        If the targets are unknown (`each`), this is true of every pair: the score decides all directions.
        """
        if self.each:
            return ~np.eye(len(self.group), dtype=np.bool_)
        return np.asarray(self.group[:, None] != self.group[None, :])

    def rows(self, lengths: Mapping[str, Sequence[int]], means: int = 1) -> NDArray[np.int64]:
        """The number of rows of each sum, `[n_sums]`, minus `means` for each condition in the sum.

        `lengths` are the numbers of rows of the conditions, by silo.
        """
        total = np.zeros(self.n_sums, np.int64)
        for silo, own in lengths.items():
            total += self.used[silo] @ (np.array(own, np.int64) - means)
        return total

    def units(self, silos: Iterable[str]) -> list[tuple[Unit, ...]]:
        """The conditions of `silos` that are part of each sum."""
        every = [(silo, c) for silo in sorted(silos) for c in range(self.used[silo].shape[1])]
        return [tuple(unit for unit in every if self.used[unit[0]][k, unit[1]]) for k in range(self.n_sums)]


def experiments_of(
    variables: Sequence[str], conditions: Mapping[str, int], targets: Mapping[str, Targets]
) -> Experiments:
    """The sums for the `targets` of the silos; a silo without an entry has no target.

    `conditions` is the number of conditions of each silo. Raises `BadInput` for a variable that every condition
    targets, because no row shows its mechanism.
    """
    silos = sorted(conditions)
    left_out: list[frozenset[Unit]] = []
    for name in variables:
        units = ((silo, c) for silo in silos for c, own in enumerate(targets.get(silo, ())) if name in own)
        left_out.append(frozenset(units))
    every = sum(conditions.values())
    for name, excluded in zip(variables, left_out, strict=True):
        if len(excluded) == every:
            where = f"silo {silos[0]} targets" if every == 1 else "every silo that is left targets"
            raise BadInput(f"{where} {quoted(name)}, so no row shows its causes")
    order = list(dict.fromkeys([frozenset[Unit](), *left_out]))
    used = {
        silo: np.array([[(silo, c) not in units for c in range(conditions[silo])] for units in order], np.bool_)
        for silo in silos
    }
    return Experiments(np.array([order.index(units) for units in left_out], np.int64), used)


def experiments_of_each(variables: Sequence[str], conditions: Mapping[str, Sequence[str]]) -> Experiments:
    """The sum over all rows, and one sum for each of the `conditions`, whose names are given by silo.

    Conditions with the same name share a sum. Raises `BadInput` if there are fewer than three names: with two
    conditions, the data do not show which of them has the changed mechanism.
    """
    names = condition_names(conditions)
    if len(names) < MIN_COMPARED:
        raise BadInput(
            f"--targets unknown compares {MIN_COMPARED} silos or conditions at least, and there are {len(names)}: of "
            "two mechanisms it is not known which one is changed"
        )
    used = {
        silo: np.array([[True] * len(own), *([name == one for one in own] for name in names)], np.bool_)
        for silo, own in conditions.items()
    }
    return Experiments(np.zeros(len(variables), np.int64), used, each=True)


def condition_names(conditions: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The names of all conditions, sorted."""
    return tuple(sorted({name for own in conditions.values() for name in own}))


def check_targets(place: str, targets: Mapping[str, Targets], variables: Sequence[str]) -> None:
    """Raise `BadInput` for a target that is not among the `variables`; `place` is where the targets were given."""
    for silo, conditions in targets.items():
        for name in (name for own in conditions for name in own):
            if name not in variables:
                raise BadInput(f"{place}: silo {silo} targets {quoted(name)}, which is not a column of the data")


def smallest_group(sums: Iterable[Iterable[Unit]]) -> tuple[str, ...]:
    """The silos of the smallest group of conditions that are in the same of these `sums`; empty without sums.

    All conditions of a group have the same coefficient in every linear combination of the sums. So a combination that
    depends on a condition depends on the total of its whole group, and on nothing else about it.
    """
    members: dict[Unit, list[int]] = {}
    for number, units in enumerate(sums):
        for unit in set(units):
            members.setdefault(unit, []).append(number)
    groups: dict[tuple[int, ...], set[str]] = {}
    for (silo, _), numbers in members.items():
        groups.setdefault(tuple(numbers), set()).add(silo)
    return min((tuple(sorted(silos)) for silos in groups.values()), key=lambda silos: (len(silos), silos), default=())
