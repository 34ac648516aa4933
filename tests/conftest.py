"""One BLAS thread in every test process and its children, because oversubscription is slower.

Hypothesis sets no deadline, because the time of an example depends on the load of the machine.
"""

import os

from hypothesis import Phase, settings

from .time_limit import pytest_addoption, pytest_configure, pytest_runtest_makereport, pytest_terminal_summary

__all__ = ["pytest_addoption", "pytest_configure", "pytest_runtest_makereport", "pytest_terminal_summary"]

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
# The readline of the process that started this one may have set the width of a terminal, which output would take.
os.environ.pop("COLUMNS", None)

settings.register_profile("suite", deadline=None)
# For planted defects (mutants.py) the first failure is enough, because nobody reads the failures.
settings.register_profile("planted", deadline=None, database=None, phases=(Phase.explicit, Phase.generate))
settings.load_profile("suite")
