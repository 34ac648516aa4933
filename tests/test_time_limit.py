"""The limit on the time of a test: above it a test fails, and one marked slow has more."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import time

import os

import pytest
import time_limit

os.getloadavg = lambda: (LOAD * os.cpu_count(), 0.0, 0.0)
time_limit.SECONDS.update({False: 0.2, True: 0.6})

@pytest.fixture
def long_fixture():
    time.sleep(0.3)

def test_quick(long_fixture):
    pass

def test_long():
    time.sleep(0.3)

@pytest.mark.slow
def test_long_and_marked():
    time.sleep(0.3)

@pytest.mark.slow
def test_too_long_though_marked():
    time.sleep(0.7)

def test_wrong():
    assert False
"""


@pytest.mark.parametrize("load", [1.0, 4.0])
def test_what_takes_too_long_fails_and_says_how_long_it_took(tmp_path, load):
    (tmp_path / "test_times.py").write_text(f"LOAD = {load}\n{TESTS}")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "time_limit", "-p", "no:cacheprovider"]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "PYTEST_ADDOPTS": "--strict-markers"}
    done = subprocess.run(
        [*command, "test_times.py"], check=False, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    outcomes = dict(reversed(line.split(" - ")[0].split(" ", 1)) for line in done.stdout.splitlines() if "::" in line)
    found = {name.split("::")[1].strip(): word for name, word in outcomes.items() if word in ("PASSED", "FAILED")}
    assert found == {
        "test_quick": "PASSED",
        "test_long": "FAILED" if load == 1.0 else "PASSED",
        "test_long_and_marked": "PASSED",
        "test_too_long_though_marked": "FAILED" if load == 1.0 else "PASSED",
        "test_wrong": "FAILED",
    }
    assert bool(re.search(r"test_times\.py::test_long took 0\.3 s: at most 0 s", done.stdout)) == (load == 1.0)
