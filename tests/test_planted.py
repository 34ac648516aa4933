"""Planted defects: each can still be planted, and the quick ones are noticed."""

import os
import subprocess
import sys

import pytest

from .mutants import ROOT, misfit, planted

MUTANTS = planted()
QUICK = {one.group for one in MUTANTS if one.quick}
BATCHES = [sorted(QUICK)[k::2] for k in range(2)]
"""groups with quick defects, in two batches because one test would take too long"""


def runner(*words):
    """Run the script, apart from the options and threads of this process."""
    command = [sys.executable, str(ROOT / "tests" / "mutants.py"), *map(str, words)]
    env = os.environ | {"PYTEST_ADDOPTS": ""}
    return subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_can_be_planted(mutant):
    assert misfit(mutant) == ""


def test_each_is_something_else():
    """All changes are different, and all names are unique."""
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)
    assert len({(one.file, one.old, one.new, one.tests) for one in MUTANTS}) == len(MUTANTS)


@pytest.mark.slow(120)
@pytest.mark.parametrize("groups", BATCHES, ids=", ".join)
def test_quick_ones_of_each_group_are_noticed(groups):
    """`python tests/mutants.py` plants all others."""
    done = runner("--quick", "--each", 2, *groups)
    assert done.returncode == 0, done.stdout + done.stderr


HARMLESS = """
[[mutant]]
what = "harmless"
file = "algorithms/admm/problem.py"
old = "rounds: int = 100"
new = "rounds: int = 101"
tests = ["tests/algorithms/admm/test_order.py::test_without_an_order_all_but_the_diagonal_is_allowed"]

[[mutant]]
what = "no Python"
file = "algorithms/admm/order_refinement.py"
old = "def forward("
new = "def forward(("
tests = ["tests/algorithms/admm/test_order.py::test_without_an_order_all_but_the_diagonal_is_allowed"]

[[mutant]]
what = "nowhere"
file = "algorithms/admm/order_refinement.py"
old = "this is not there"
new = ""
tests = ["tests/algorithms/admm/test_order.py::test_no_such_test"]
"""


@pytest.mark.slow
def test_what_survives_or_breaks_is_reported(tmp_path):
    (tmp_path / "mine.toml").write_text(HARMLESS)
    done = runner("--planted", tmp_path)
    assert done.returncode == 1, done.stderr
    verdicts = {line.split("mine: ")[1]: line.split()[0] for line in done.stdout.splitlines() if " s  mine: " in line}
    assert verdicts == {"harmless": "survived", "no Python": "broken"}
    assert "mine: nowhere: its old text occurs 0 times in algorithms/admm/order_refinement.py, not once" in done.stdout
