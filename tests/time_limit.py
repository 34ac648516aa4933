"""A test that takes too long fails, although it found nothing wrong: the whole suite is to stay short.

The limit is on the wall time of the test itself, without its fixtures. It grows with the load of the machine where that
is above one task a core, because the delay is then due to other work.
"""

import os

import pytest

SECONDS = {False: 30.0, True: 120.0}
"""by whether the test is marked `slow`"""


def pytest_configure(config):
    config.addinivalue_line("markers", f"slow: a test that may take up to {SECONDS[True]:.0f} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    crowded = max(1.0, *(load / (os.cpu_count() or 1) for load in os.getloadavg()[:2]))
    limit = SECONDS[item.get_closest_marker("slow") is not None] * crowded
    if report.when == "call" and report.passed and call.duration > limit:
        report.outcome = "failed"
        more = f"`slow`: {SECONDS[True]:.0f} s"
        report.longrepr = f"{item.nodeid} took {call.duration:.1f} s: at most {limit:.0f} s ({more})"
    return report
