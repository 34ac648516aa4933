"""The facts of a silo's owner, and the law that a request is an image of them.

A silo derives what it knows about its rows from the rows and from its owner's `about.json`. A coordinator's schema
says what it wants of these facts: some of the columns, with kinds and levels. `require_image` refuses a schema that
says anything else about this silo: a column that the owner ignores or the table lacks, a kind or levels that the
owner did not declare and the cells do not have, other rows, stretches or units.
"""

import math
from collections.abc import Iterator

from fedbnsl.algorithms.core.schema import Kind, Schema
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.data.folder.about import Declared
from fedbnsl.data.folder.cells import fold_spelling
from fedbnsl.data.folder.events import DescribedEvents
from fedbnsl.data.folder.profile import ColumnProfile
from fedbnsl.data.folder.series import DescribedSeries

from .policy import NotAllowed
from .rows import AnyDescribed, Described, DescribedPooled


def require_image(silo: str, schema: Schema, own: Declared, described: AnyDescribed, *, hides_counts: bool) -> None:
    """Raise `NotAllowed` unless `schema` is an image of the owner's declaration, and `BadInput` unless of the rows.

    `own` is the owner's declaration with the options of reading of the request, and `described` the description of the
    rows under it. If the owner's policy `hides_counts` that are small, columns of labels may not be read as numbers.
    The text of `BadInput` is for the owner alone.
    """
    fault = next(_declaration_faults(silo, schema, own), None)
    if fault is not None:
        raise NotAllowed(f"silo {silo}: the request does not fit its owner's about.json: {fault}")
    fault = next(_row_faults(silo, schema, own, described, hides_counts=hides_counts), None)
    if fault is not None:
        raise BadInput(f"silo {silo}: the request does not fit the rows: {fault}")


def kind_of_levels(schema: Schema) -> Kind:
    """The kind of independent rows: it follows from which of the columns have levels."""
    if not schema.levels:
        return "continuous"
    return "discrete" if set(schema.levels) == set(schema.variables) else "mixed"


def _declaration_faults(silo: str, schema: Schema, own: Declared) -> Iterator[str]:
    """What `schema` says against the owner's declaration, or against itself."""
    if silo not in schema.rows:
        yield "it does not name this silo"
    if any(rows < 1 for rows in schema.rows.values()):
        yield "it names a silo without rows"
    yield from _scale_faults(schema)
    if any(len(counts) != len(schema.variables) for counts in schema.empty.values()):
        yield "its empty cells are not one number for each column"
    if len(set(schema.variables)) < len(schema.variables) or not set(schema.levels) <= set(schema.variables):
        yield "its columns are not distinct, or it has levels of other columns"
    if schema.kind == "events":
        return
    if schema.kind != "time-series" and schema.kind != kind_of_levels(schema):
        yield f"its columns are not {schema.kind}"
    for name in schema.variables:
        reason, kind, labels = own.reading.leaves_out(name), own.kind_of(name), name in schema.levels
        if reason is not None:
            yield f"column {quoted(name)} is {reason}"
        if kind is None and (own.reading.private or schema.kind == "time-series"):
            kind = "continuous"  # without a look at cells, a column has labels only if they are declared
        if kind is not None and (kind == "discrete") != labels:
            yield f"{quoted(name)} has {'numbers' if labels else 'labels'}"
        if labels and own.reading.private and name not in own.levels:
            yield f"the levels of {quoted(name)} are not declared"
        if name in own.levels and labels and schema.levels[name] != tuple(own.levels[name]):
            yield f"the levels of {quoted(name)} are others"
        if labels and name in schema.transforms:
            yield f"{quoted(name)} has labels, which have no transform"
        transform = own.transforms.get(name)
        if transform is not None and schema.transforms.get(name, "none") != transform:
            yield f"the transform of {quoted(name)} is {transform}"


def _scale_faults(schema: Schema) -> Iterator[str]:
    """What `schema` says wrongly about the units of columns, and about how many rows count."""
    if len(schema.units) not in (0, len(schema.variables)):
        yield "its units are not one for each column"
    if any(not (math.isfinite(unit) and unit > 0 and math.frexp(unit)[0] == 0.5) for unit in schema.units):
        yield "its units are not powers of two"
    if not 0 < schema.independent_share <= 1:
        yield "its share of independent rows is not between 0 and 1"


def _row_faults(
    silo: str, schema: Schema, own: Declared, described: AnyDescribed, *, hides_counts: bool
) -> Iterator[str]:
    """What `schema` says against the rows, as their owner reads them."""
    missing = [name for name in schema.variables if name not in described.variables]
    if isinstance(described, DescribedEvents):
        if schema.kind != "events" or not set(described.types) <= set(schema.variables):
            yield "they are events, of other types"
        return
    if isinstance(described, DescribedPooled):  # the reader compares their columns and levels
        if own.reading.private:
            yield "they are the rows of several silos, whose kinds, levels and lengths would be read from the cells"
        stretches = schema.stretches.get(silo)
        if schema.rows[silo] != described.rows or stretches not in (None, *described.schema.stretches.values()):
            yield f"they are {described.rows} pooled rows, in other stretches"
        return
    if missing and own.reading.columns != "union":
        yield f"there is no column {quoted(missing[0])}"
    if isinstance(described, DescribedSeries):
        if schema.kind != "time-series" or schema.recorded_stretches(silo) != described.stretches:
            yield f"they are time series of {described.rows} rows, with other stretches"
        return
    assert isinstance(described, Described)
    if (silo in schema.streamed) != described.streamed:
        yield "they are read in another way"
    if own.reading.private and schema.kind == own.kind == "time-series":
        expected = own.stretches.get(silo, (described.rows,))
        if (schema.recorded_stretches(silo), schema.complete_rows) != (expected, False):
            yield f"they are time series of {described.rows} rows, with the stretches that about.json declares"
        return
    if schema.kind in ("time-series", "events"):
        yield f"they are not {schema.kind}"
    if (own.reading.private or not schema.complete_rows) and schema.rows[silo] != described.rows:
        yield f"there are {described.rows} of them"
    named = tuple(zip(schema.condition_names.get(silo, ()), schema.stretches.get(silo, ()), strict=False))
    unnamed = silo in schema.stretches and len(named) < len(schema.stretches[silo])
    if unnamed or (named and not schema.complete_rows and named != described.profile.conditions):
        yield "they have other conditions"
    if own.reading.private:
        return
    for name in schema.variables:
        column = described.profile.columns.get(name)
        if column is not None and column.filled and own.kind_of(name) is None:
            yield from _column_faults(name, schema, column, hides_counts=hides_counts)


def _column_faults(name: str, schema: Schema, column: ColumnProfile, *, hides_counts: bool) -> Iterator[str]:
    """What `schema` says against the cells of a column whose kind the owner does not declare."""
    labels = name in schema.levels
    if labels and column.labels is None:
        yield f"{quoted(name)} has numbers, or too many labels"
    elif labels:
        known = set(map(fold_spelling, schema.levels[name]))
        further = next((label for label in column.labels or () if fold_spelling(label) not in known), None)
        if further is not None:
            yield f"{quoted(name)} has the further label {quoted(further)}"
    elif hides_counts and column.labels is not None:
        yield f"{quoted(name)} has few values, whose sums are counts"
