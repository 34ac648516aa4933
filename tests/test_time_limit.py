"""The limits on the time of a test: a test above its limit fails; tests marked slow have a separate limit."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import os
import subprocess
import sys
import time

import pytest
import time_limit

os.getloadavg = lambda: (LOAD * os.cpu_count(), 0.0, 0.0)
time_limit.CPU_SECONDS, time_limit.SECONDS, time_limit.LOOK_SECONDS = 0.5, 0.3, 0.1
time_limit.COUNT_SECONDS = COUNT_SECONDS
PROGRAM = [sys.executable, "-uc", "import time\\nwhile time.process_time() < 0.8: pass\\nprint()\\ntime.sleep(60)"]
running = []

def work():
    end = time.process_time() + 0.7
    while time.process_time() < end:
        pass

@pytest.fixture
def long_fixture():
    work()

def test_quick(long_fixture):
    pass

def test_waiting():
    time.sleep(0.7)

def test_working():
    work()

def test_of_a_process_that_works():
    running.append(subprocess.Popen(PROGRAM, stdout=subprocess.PIPE))
    running[0].stdout.readline()

def test_of_one_that_ends():
    time.sleep(0.2)
    running[0].kill()
    running[0].wait()

@pytest.mark.slow
def test_marked():
    time.sleep(0.1)

@pytest.mark.slow(9)
def test_marked_with_a_limit_of_its_own():
    time.sleep(0.4)

@pytest.mark.slow
def test_too_long_though_marked():
    time.sleep(0.4)

def test_wrong():
    assert False
"""


@pytest.mark.parametrize(
    ("load", "count_seconds"), [(1.0, 60.0), (4.0, 60.0), (1.0, 1e-6)], ids=["idle", "loaded", "slow"]
)
def test_what_takes_too_long_fails_and_says_how_long_it_took(tmp_path, load, count_seconds):
    """`load` is the number of tasks per core; a machine that counts in more than `count_seconds` is slow."""
    slow = count_seconds < 1
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_times.py").write_text(f"LOAD, COUNT_SECONDS = {load}, {count_seconds}\n{TESTS}")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "time_limit", "-p", "no:cacheprovider", "--cpu"]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "PYTEST_ADDOPTS": "--strict-markers"}
    done = subprocess.run(
        [*command, "tests"], check=False, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    outcomes = dict(reversed(line.split(" - ")[0].split(" ", 1)) for line in done.stdout.splitlines() if "::" in line)
    found = {name.split("::")[1].strip(): word for name, word in outcomes.items() if word in ("PASSED", "FAILED")}
    assert found == {
        "test_quick": "PASSED",
        "test_waiting": "PASSED",
        "test_working": "PASSED" if slow else "FAILED",
        "test_of_a_process_that_works": "PASSED" if slow else "FAILED",
        "test_of_one_that_ends": "PASSED",
        "test_marked": "PASSED",
        "test_marked_with_a_limit_of_its_own": "PASSED",
        "test_too_long_though_marked": "PASSED" if slow or load > 1 else "FAILED",
        "test_wrong": "FAILED",
    }
    working = re.search(
        r"test_times\.py::test_working took 0\.[78] s of processor time: at most 0 s \(make it", done.stdout
    )
    marked = "test_too_long_though_marked took 0.4 s: at most 0 s (more as `slow(SECONDS)`)" in done.stdout
    assert (bool(working), marked) == (not slow, not slow and load == 1.0)
    printed = {name: float(seconds) for seconds, name in re.findall(r"^ +([\d.]+) s  (\S+)$", done.stdout, re.M)}
    assert 2.2 <= printed["tests/test_times.py"] == pytest.approx(printed["all"], abs=0.11)  # both are rounded
    assert printed["tests/test_times.py::test_working"] == pytest.approx(0.7, abs=0.2)
