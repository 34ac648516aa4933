import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.core.schema import escape_formula, unescape_formula

FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@pytest.mark.parametrize("mark", FORMULAS)
def test_what_a_spreadsheet_takes_for_a_formula_is_marked_as_text(mark):
    assert escape_formula(f"{mark}cmd|' /C calc'!A0") == f"'{mark}cmd|' /C calc'!A0"


def test_other_names_stay():
    for name in ("age", "", "'quoted'", "a=b", "x-1", "éa"):
        assert escape_formula(name) == unescape_formula(name) == name


@settings(deadline=None)
@given(st.text(alphabet="'=+-@\t\rab", max_size=6))
def test_every_name_is_read_back(name):
    assert unescape_formula(escape_formula(name)) == name
    assert not escape_formula(name).startswith(FORMULAS)
