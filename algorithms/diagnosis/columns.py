"""Findings on columns, from the silos' descriptions before a run and from the names of columns.

- Derived columns: a column that other columns determine, such as a sum, has edges that follow from arithmetic.
- Impossible causes: nothing in a table can cause a person's age.
- Skewed columns: if a column is a distortion of another scale, linear effects become curved, and the finding suggests
  the transform that makes them linear. Each silo reports the name of a suitable transform (`statistics/transforms.py`),
  and the majority of cells decides. Linear effects with skewed errors also give skewed columns, whose effects a
  transform would make curved. So columns are reported only if the transforms strengthen the relations within the silos
  (`transforms.transform_gain`).
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ..core.schema import Schema
from ..graphs.structure import Structure
from .findings import Finding

NO_LEVELS: Mapping[str, Sequence[str]] = MappingProxyType({})
SKEWED = "skewed columns"
"""the name of the finding on columns that a transform would make nearly symmetric"""
MAX_NAMED, MAX_PAIRS = 12, 5
"""maximum number of columns that a command names one by one, and of edges in a sentence"""


DERIVED = "derived columns"
"""the name of the finding on columns that other columns determine"""
NO_CAUSES = re.compile(
    r"(.*[ _.-])?(age([ _.-]?(in[ _.-]?)?years?)?|(year|date|day|month)[ _.-]?of[ _.-]?birth|"
    r"birth([ _.-]?(day|date|year|place))?|yob|dob|born|year|yr|sex|gender|race|ethnic(ity|[ _.-]group)|"
    r"alter|geschlecht|geburtsjahr|geburtsdatum|sexe|sexo|edad|naissance|"
    r"hour([ _.-]?of[ _.-]?(the[ _.-]?)?day)?|minute|month|quarter|week|week[ _.-]?day|day[ _.-]?of[ _.-]?(the[ _.-]?)?"
    r"(week|month|year)|season|region|county|province|country([ _.-]?of[ _.-]?birth)?|stunde|monat|wochentag|"
    r"bundesland)",
    re.IGNORECASE,
)
"""pattern of the names of variables that nothing in a table can cause"""
SEXES = (
    frozenset({"male", "female", "m", "f", "man", "woman", "men", "women", "boy", "girl"}),
    frozenset({"männlich", "weiblich", "m", "w", "mann", "frau", "divers", "d"}),
    frozenset({"homme", "femme", "h", "f", "masculin", "féminin"}),
    frozenset({"hombre", "mujer", "h", "m", "masculino", "femenino", "feminino"}),
)
"""by language, labels of a sex"""


def without_causes(variables: Sequence[str], levels: Mapping[str, Sequence[str]] = NO_LEVELS) -> list[str]:
    """The `variables` that nothing in a table can cause, judging by their names, or by `levels` that are sexes."""
    return [name for name in variables if NO_CAUSES.fullmatch(name) or _are_sexes(levels.get(name, ()))]


def _are_sexes(levels: Sequence[str]) -> bool:
    found = {level.casefold() for level in levels}
    return len(found) > 1 and any(found <= words for words in SEXES)


def derived_findings(schema: Schema) -> list[Finding]:
    """The finding on columns that one or two other columns determine at every silo, if there are any."""
    if not schema.derived:
        return []
    formulas = [f"{name} is {formula}" for name, formula in list(schema.derived.items())[:MAX_NAMED]]
    more = f"; and {len(schema.derived) - MAX_NAMED} more columns" if len(schema.derived) > MAX_NAMED else ""
    sentence = f"{'; '.join(formulas)}{more}: its edges follow from the formula, not from causes."
    return [Finding(DERIVED, sentence, f"Learn again with --ignore {','.join(schema.derived)}.")]


def _arrows(structure: Structure) -> list[tuple[str, str]]:
    """The directed edges of `structure` from one variable to another, within a time step and across time."""
    names, adjacency = structure.variables, structure.adjacency
    within = [(names[i], names[j]) for i, j in np.argwhere(adjacency & ~adjacency.T)]
    lagged = np.argwhere(structure.lagged) if structure.lagged is not None else np.empty((0, 3), np.int64)
    return within + [(f"{names[i]}[t-{lag + 1}]", names[j]) for lag, i, j in lagged if i != j]


def impossible_cause_findings(structure: Structure, levels: Mapping[str, Sequence[str]] = NO_LEVELS) -> list[Finding]:
    """The finding on arrows into variables that nothing in a table can cause (`without_causes`), if there are any.

    If there are no such arrows, undirected edges at these variables are reported, because the same option directs them.
    """
    names, adjacency = structure.variables, structure.adjacency
    roots = without_causes(names, levels)
    if not roots or structure.kind == "pag":
        return []
    # Across time, --no-parents forbids nothing.
    advice = f"Learn again with --{'no-parents' if structure.lagged is None else 'ignore'} {','.join(roots)}."
    arrows = [(cause, effect) for cause, effect in _arrows(structure) if effect in roots]
    if arrows:
        shown = ", ".join(f"{one} → {other}" for one, other in arrows[:MAX_PAIRS])
        effects = list(dict.fromkeys(other for _, other in arrows))
        others = ", ".join(name for name in roots if name not in effects)
        more = f" The same is true of {others}." if others else ""
        sentence = f"{shown}: nothing in a table can cause {', '.join(effects)}.{more}"
        return [Finding("impossible cause", sentence, advice)]
    edges = [(names[i], names[j]) for i, j in np.argwhere(adjacency & adjacency.T)]
    open_ends = [(one, other) for one, other in edges if one in roots and other not in roots]
    if not open_ends:
        return []
    shown = ", ".join(f"{one} — {other}" for one, other in open_ends[:MAX_PAIRS])
    causes = list(dict.fromkeys(one for one, _ in open_ends))
    sentence = f"{shown}: nothing in a table can cause {', '.join(causes)}, which gives the edges a direction."
    return [Finding("known direction", sentence, advice)]


MIN_TRANSFORM_GAIN, MIN_TRANSFORM_LIKELIHOOD = 0.02, 6.0
"""minimum gains of transforms that are reported: in nats per row, and in nats over all rows"""


def transform_excess(schema: Schema, gain: float) -> float:
    """The `gain` of the transforms of skewed columns, in nats a row, divided by the minimum gain that is reported."""
    return gain / max(MIN_TRANSFORM_GAIN, MIN_TRANSFORM_LIKELIHOOD / max(sum(schema.rows.values()), 1))


def skewed_findings(schema: Schema, gain: float) -> list[Finding]:
    """The finding on skewed columns, if their transforms `gain` enough nats a row.

    Time series have no such finding, because silos do not describe the shape of their columns.
    """
    if not schema.skewed or transform_excess(schema, gain) <= 1:
        return []
    names = list(schema.skewed)
    more = f" and {len(names) - MAX_NAMED} more columns" if len(names) > MAX_NAMED else ""
    are = "are" if len(names) > 1 else "is"
    sentence = (
        f"{', '.join(names[:MAX_NAMED])}{more} {are} far from symmetric, and linear effects fit better "
        f"after a transform (by {gain:.2g} nats a row)."
    )
    return [Finding(SKEWED, sentence, f"Learn again with --transform {suggested_option(schema)}.")]


def suggested_option(schema: Schema) -> str:
    """The value of --transform for the skewed columns of `schema`.

    It is a single transform if all columns of numbers have the same suggestion, and normal-scores if there are too many
    columns to name or their names have special characters. In all other cases it names each column.
    """
    numbers = [name for name in schema.variables if name not in schema.levels]
    if len(set(schema.skewed.values())) == 1 and set(schema.skewed) == set(numbers):
        return next(iter(schema.skewed.values()))
    plain = all(not set(name) & set(",='\\") for name in schema.skewed)
    if len(schema.skewed) > MAX_NAMED or not plain:
        return "normal-scores"
    return quoted_transforms(schema.skewed)


def quoted_transforms(transforms: Mapping[str, str]) -> str:
    """The value of --transform that names the transform of each column, in quotes."""
    return "'" + ",".join(f"{name}={one}" for name, one in transforms.items()) + "'"
