"""Names in CSV files that people open in a spreadsheet, which would take some of them for formulas.

A name that begins with =, +, -, @, a tab or a carriage return is written with an apostrophe before it. So is one that
begins with apostrophes and then one of these, so that every name is read back as it was.
"""

import re

FORMULA = re.compile(r"'*[=+\-@\t\r]")


def safe_cell(name: str) -> str:
    """Return `name` as it is written."""
    return f"'{name}" if FORMULA.match(name) else name


def plain_cell(cell: str) -> str:
    """Return the name that `safe_cell` has written as `cell`."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell
