"""Planted defects: each can still be planted, and the quick ones are noticed."""

import os
import subprocess
import sys

import pytest

from .mutants import ROOT, misfit, planted

MUTANTS = planted()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_can_be_planted(mutant):
    assert misfit(mutant) == ""


def test_the_quick_ones_are_noticed():
    """All others are planted by `python tests/mutants.py`, which also prints what survives here."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "mutants.py"), "--quick"],
        env=os.environ | {"PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_defect_that_no_test_notices_is_reported(tmp_path):
    """The runner itself: a change that makes no difference to the test named survives, and the exit code is 1."""
