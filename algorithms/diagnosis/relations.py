"""Dependences that are arithmetic: columns that follow exactly from others, found from the summed moments.

Examples are indicators of one variable, parts of a total, exper = age − educ − 6, and a label beside its number. The
coded columns are added one by one to a basis. A column whose residual variance given the basis vanishes is a linear
combination of the columns of the basis, with unique coefficients. Its constant follows from the means. The learner
would see such columns as strong causes of each other.

Shares of a whole, which add up to a constant, are a relation of their own kind: to ignore one share leaves the others
dependent, and their log-ratios do not depend on the whole.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ..core.schema import FloatArray, Schema
from ..errors import listed
from ..statistics.coding import coding_of
from ..statistics.transforms import LOG_RATIO, MIN_PARTS
from .columns import quoted_transforms
from .findings import Finding

RELATIONS = "arithmetic"
"""the name of the finding on columns that follow from others"""
NO_VARIANCE = 1e-6
"""share of the variance of a column, given others, that is only rounding of cells"""
NO_WEIGHT = 1e-3
"""weight, between standardised columns, that is only rounding"""
MAX_TERMS = 12
"""maximum number of columns of a relation that is reported"""


@dataclass(frozen=True)
class Relation:
    """A variable that follows from others: its name, the formula, and the other variables."""

    name: str
    formula: str
    others: tuple[str, ...]
    indicators: bool = False
    """whether these are indicators of one variable"""
    shares: bool = False
    """whether these are shares of a whole"""


def relations(schema: Schema, means: FloatArray, within: FloatArray) -> list[Relation]:
    """The variables that follow from others, from the means `[D]` and second moments `[D, D]` of the coded columns."""
    scale = np.sqrt(np.diag(within))
    usable = scale > 0
    R = np.divide(within, np.outer(scale, scale), out=np.zeros_like(within), where=np.outer(usable, usable))
    basis: list[int] = []
    found: list[Relation] = []
    for j in np.flatnonzero(usable).tolist():
        weights = np.linalg.solve(R[np.ix_(basis, basis)], R[basis, j]) if basis else np.empty(0)
        if 1 - float(weights @ R[basis, j]) > NO_VARIANCE:
            basis.append(j)
            continue
        terms = {i: float(w) * scale[j] / scale[i] for i, w in zip(basis, weights, strict=True) if abs(w) > NO_WEIGHT}
        relation = _relation(schema, means, scale**2, j, terms)
        if relation is not None and relation not in found:
            found.append(relation)
    known = {frozenset({one.name, *one.others}) for one in found}
    return [one for one in found if not any(other < {one.name, *one.others} for other in known)]


def _relation(
    schema: Schema, means: FloatArray, variances: FloatArray, j: int, terms: Mapping[int, float]
) -> Relation | None:
    """The relation of coded column `j` with the weights `terms` of others; None within a variable or pair of labels."""
    owner, names = coding_of(schema).owners, schema.variables
    name, others = names[owner[j]], tuple(dict.fromkeys(names[owner[i]] for i in terms))
    involved, constant = (name, *others), float(means[j] - sum(weight * means[i] for i, weight in terms.items()))
    labels = [one for one in involved if one in schema.levels]
    if name in others or not others or [name, *others] == labels[:2]:
        return None
    if _are_indicators(schema, involved, [*terms.values(), -constant]):
        return Relation(name, f"{', '.join([*others, name])} are indicators of one variable", others, indicators=True)
    if len(others) == 1 and labels:
        number = next(one for one in involved if one not in labels)
        return Relation(number, f"{number} is the same for all rows of a level of {labels[0]}", (labels[0],))
    if set(involved) & set(schema.transforms):
        return None
    if _are_shares(means[[j, *terms]], variances[[j, *terms]], [*terms.values()], constant):
        return Relation(name, f"{listed(involved)} add up to {constant:.4g}", others, shares=True)
    terms_by_name = [(weight, names[owner[i]]) for i, weight in terms.items()]
    formula = _formula(terms_by_name, constant, binary=all(len(schema.levels[one]) == 2 for one in labels))
    return Relation(name, f"{name} {formula}", others) if len(terms) <= MAX_TERMS else None


def _are_indicators(schema: Schema, names: tuple[str, ...], weights: list[float]) -> bool:
    """Whether three or more columns with two values each, such as 0 and 1, add up to 1: all `weights` are −1."""
    two_values = all(len(schema.levels.get(name, ())) == 2 for name in names)
    return len(names) > 2 and two_values and all(abs(weight + 1) < NO_WEIGHT for weight in weights)


def _are_shares(means: FloatArray, variances: FloatArray, weights: list[float], whole: float) -> bool:
    """Whether columns with these means and variances add up to a `whole` and may lie between 0 and it.

    All `weights` are −1 then, and the variance of a share with mean m is at most m·(whole − m) (Bhatia, Davis 2000).
    """
    add_up = len(means) >= MIN_PARTS and all(abs(weight + 1) < NO_WEIGHT for weight in weights)
    return add_up and bool((variances <= means * (whole - means)).all())


def _formula(terms: list[tuple[float, str]], constant: float, *, binary: bool) -> str:
    """The sum of the terms and the `constant`, such as = age − educ − 6; only the names if labels are not `binary`."""
    if not binary:
        return f"follows from {', '.join(dict.fromkeys(name for _, name in terms))}"
    parts = [*terms, *[(constant, "")] * (abs(constant) > NO_WEIGHT)]
    words = ""
    for weight, name in sorted(parts, key=lambda part: part[0] < 0):
        size = f"{abs(weight):.4g}"
        term = f"{'' if size == '1' else f'{size} '}{name}" if name else size
        sign = "−" if weight < 0 else "+" * bool(words)
        words += f" {sign} {term}" if words else f"{sign}{term}"
    return f"= {words}"


def _log_ratios(schema: Schema, names: Collection[str]) -> str:
    """The value of --transform that compares the shares `names`, the only ones or some of the columns of numbers."""
    if set(names) | set(schema.levels) == set(schema.variables):
        return LOG_RATIO
    return quoted_transforms(dict.fromkeys(sorted(names), LOG_RATIO))


def relation_findings(schema: Schema, means: FloatArray, within: FloatArray) -> list[Finding]:
    """The finding on each relation that the silos have not already described (`schema.derived`); none for series."""
    found = list[Finding]()
    if schema.kind == "time-series":
        return found
    for one in relations(schema, means, within):
        if {one.name, *one.others} & set(schema.derived):
            continue
        joined = json.dumps({"join": {"NAME": [*one.others, one.name]}}, ensure_ascii=False)
        learn = f"Declare {joined} in about.json, or learn" if one.indicators else "Learn"
        advice = f"{learn} again with --ignore {one.name}."
        if one.shares:
            advice = f"Learn again with --transform {_log_ratios(schema, (one.name, *one.others))}."
        found.append(Finding(RELATIONS, f"{one.formula}: its edges follow from arithmetic, not from causes.", advice))
    return found
