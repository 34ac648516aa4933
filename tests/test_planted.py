"""Planted defects: each can still be planted, and what the tests do not notice is reported."""

import os
import subprocess
import sys

import pytest

from .defects import OutdatedError, defective
from .mutants import ROOT, misfit, planted

SOURCE = '''
class Door:
    def open(self, key, guests):
        """Let guests in."""
        if key < 3 and guests:
            raise ValueError("no")
        for guest in [one for one in guests if one.known]:
            self.write(guest)
            self.count += key * 2 - 1
        return checked(guests, loud=True)
'''


@pytest.mark.parametrize(
    ("operator", "of", "line"),
    [
        ("never", "key", "if False:"),
        ("always", "guests", "if True:"),
        ("negate", "known", "if not one.known"),
        ("without", "write", "for guest in [one for one in guests if one.known]:\n            self.count"),
        ("without", "checked", "return guests"),
        ("without", "ValueError", "if key < 3 and guests:\n            pass"),
        ("drop", "guests", "if key < 3:"),
        ("drop", "loud", "return checked(guests)"),
        ("swap", "3", "if key <= 3 and guests:"),
        ("swap", "1", "key * 2 + 1"),
        ("instead", "guests -> []", "return checked([], loud=True)"),
        ("instead", "loud -> False", "return checked(guests, loud=False)"),
        ("instead", "3 -> 4", "if key < 4 and guests:"),
        ("returns", "None", "def open(self, key, guests):\n        return None"),
    ],
)
def test_an_operator_changes_the_meaning_of_a_function(operator, of, line):
    assert line in defective(SOURCE, "Door.open", operator, of)


@pytest.mark.parametrize(
    ("function", "operator", "of"),
    [("Door.open", "never", "nobody"), ("Door.shut", "returns", "1"), ("Door.open", "instead", "key -> key")],
)
def test_what_is_not_there_is_out_of_date(function, operator, of):
    with pytest.raises(OutdatedError):
        defective(SOURCE, function, operator, of)


def test_each_can_be_planted():
    assert {one.name: reason for one in planted() if (reason := misfit(one))} == {}


def test_each_is_something_else():
    """All changes are different, and all names are unique."""
    defects = planted()
    assert len({one.name for one in defects}) == len(defects) > 100
    assert len({(one.function, one.operator, one.of) for one in defects}) == len(defects)


REPORTED = """
[[mine]]
what = "harmless"
function = "implied_covariance"
returns = "W"
tests = ["tests/algorithms/admm/test_order.py::test_without_an_order_all_but_the_diagonal_is_allowed"]

[[mine]]
what = "nowhere"
function = "no_such_function"
returns = "1"
tests = ["tests/algorithms/admm/test_order.py::test_without_an_order_all_but_the_diagonal_is_allowed"]
"""


@pytest.mark.slow
def test_what_survives_or_breaks_is_reported(tmp_path):
    (tmp_path / "mine.toml").write_text(REPORTED)
    command = [sys.executable, str(ROOT / "tests" / "mutants.py"), "--planted", str(tmp_path / "mine.toml")]
    env = os.environ | {"PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stderr
    assert "survived" in next(line for line in done.stdout.splitlines() if "mine: harmless" in line)
    assert "mine: nowhere: no_such_function is in no file" in done.stdout
