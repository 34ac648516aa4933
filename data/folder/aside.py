"""Columns that cannot be variables: constants, ids, free text, columns of almost nothing but empty cells."""

import re

from fedbnsl.algorithms.errors import shown

from .declared import ColumnKind
from .joint_column import JointColumn
from .levels import MOST_LEVELS

NEARLY = 0.9
"""part of the cells above which a column counts as empty"""
ROWS_OF_IDS = 20
"""rows from which on values that are all different say something"""
ID = re.compile(r"(.*[ _.-])?(id|ids|uuid|guid|index|idx|key|nr|no|number|rownames?|row)|unnamed: ?\d+", re.IGNORECASE)
DECLARE = "declare its levels in about.json if it is meant"


def why_aside(name: str, column: JointColumn, kind: ColumnKind, *, declared: bool, levels: bool) -> str | None:
    """Return why the column `name` of this `kind` cannot be a variable, None if it can.

    One whose kind is `declared` is taken at its word, but for a constant; its `levels`, if declared, may be any.
    """
    rows = column.filled + column.empty
    if not column.filled:
        return "empty in every row" if rows else None
    if column.labels is not None and len(column.labels) == 1 and not levels:
        return f"constant: every cell is {shown(column.labels[0])}"
    if (
        kind == "discrete"
        and not levels
        and (column.labels is None or (not declared and len(column.labels) > MOST_LEVELS))
    ):
        return f"more than {MOST_LEVELS} different labels, as of names, ids, dates or free text; {DECLARE}"
    if declared:
        return None
    if column.empty > NEARLY * rows:
        return f"empty in {column.empty / rows:.0%} of the rows"
    if rows >= ROWS_OF_IDS and column.whole and column.unique and (column.consecutive or ID.fullmatch(name)):
        return "row numbers or ids: every value is another"
    return None
