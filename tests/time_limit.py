"""A test that takes too long fails even if all its assertions pass, because `make test` must stay short.

A test may take `CPU_SECONDS` of processor time, with the processes that it starts. A test marked `slow` is left out of
`make test`, and may take `SECONDS` of wall time, or the time in its mark: `slow(120)`. Neither limit includes fixtures.
Both limits are those of a machine that counts to a million in `COUNT_SECONDS`: a test above its limit counts too, and
the limit grows with what that takes, because a slow or shared machine then causes the delay. If the load, an average
over the last minutes, is above one task per core, the limit on wall time grows with it too. `--cpu` prints the
processor time of the longest tests and of all by folder, with fixtures.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

CPU_SECONDS = 20.0
"""limit for a test that is not marked `slow`"""
SECONDS = 30.0
"""limit for a test that is marked `slow`"""
COUNT_SECONDS = 0.02
"""processor time, and wall time, of counting to a million on a machine on which the limits hold"""
LONGEST = 40
"""number of tests that `--cpu` prints"""
LOOK_SECONDS = 1.0
TICKS = os.sysconf("SC_CLK_TCK")


def descendants(process: int | str = "self") -> Iterator[str]:
    """The processes that `process` has started and that run, with those that these have started (Linux)."""
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in thread.read_text().split():
                yield child
                yield from descendants(child)


class ProcessorTime:
    """Seconds of processor time of this process and its descendants since the last call.

    Reading the times of descendants takes a millisecond, so they are read only after more than `LOOK_SECONDS`.
    """

    def __init__(self):
        self.own, self.others = sum(os.times()[:4]), 0.0

    def used(self, seconds: float) -> float:
        """The time used since the last call, which was `seconds` ago."""
        before, self.own = self.own, sum(os.times()[:4])
        more = self.own - before
        if max(more, seconds) > LOOK_SECONDS:
            earlier, self.others = self.others, sum(map(time_of, descendants()))
            more += self.others - earlier
        return max(more, 0.0)


def time_of(process: str) -> float:
    """Seconds of processor time of `process`, and of those it has started and seen end; 0 if it has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / TICKS
    return 0.0


def pytest_addoption(parser):
    parser.addoption("--cpu", action="store_true", help="print the processor time of tests and folders")


def pytest_configure(config):
    config.addinivalue_line("markers", f"slow(seconds={SECONDS:.0f}): a test that `make test` leaves out")
    config.addinivalue_line("markers", "platforms: a test that only `make test-platforms` runs")
    config.addinivalue_line("markers", "compiles: a test that runs first and alone, for what numba compiles of it")


clock = ProcessorTime()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.cpu = clock.used(call.duration)
    if report.when == "call" and report.passed and (why := too_long(item, call.duration, report.cpu)):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} took {why}"
    return report


def too_long(item, seconds, cpu):
    """The message about a test above its limit; empty if it is within the limit."""
    marked = item.get_closest_marker("slow")
    if marked is None:
        more = "make it cheaper, or see `slow` in CONTRIBUTING.md"
        late = cpu > CPU_SECONDS and cpu > CPU_SECONDS * slowness(time.process_time)
        return f"{cpu:.1f} s of processor time: at most {CPU_SECONDS:.0f} s ({more})" if late else ""
    limit = marked.args[0] if marked.args else SECONDS
    more = "more as `slow(SECONDS)`"
    crowded = max(1.0, *(load / (os.cpu_count() or 1) for load in os.getloadavg()[:2]))
    late = seconds > limit and seconds > limit * max(crowded, slowness(time.perf_counter))
    return f"{seconds:.1f} s: at most {limit:.0f} s ({more})" if late else ""


def slowness(clock):
    """How many times as long as `COUNT_SECONDS` counting to a million takes by `clock`, and 1 if it takes less."""
    began = clock()
    for _ in range(1_000_000):
        pass
    return max(1.0, (clock() - began) / COUNT_SECONDS)


def pytest_terminal_summary(terminalreporter, config):
    if not config.getoption("--cpu"):
        return
    by_test, by_folder = defaultdict(float), defaultdict(float)
    for report in (one for reports in terminalreporter.stats.values() for one in reports if hasattr(one, "cpu")):
        by_test[report.nodeid] += report.cpu
        by_folder["/".join(report.nodeid.partition("::")[0].split("/")[:3])] += report.cpu
    by_folder["all"] = sum(by_test.values())
    for what, used, most in (("test", by_test, LONGEST), ("folder", by_folder, None)):
        terminalreporter.section(f"processor time by {what}, with fixtures")
        for name, seconds in sorted(used.items(), key=lambda one: one[1], reverse=True)[:most]:
            terminalreporter.line(f"{seconds:8.1f} s  {name}")
