"""Writing the files of a run: those of its sections, and the report."""

from pathlib import Path

from fedbnsl.algorithms.errors import BadInput

from .report.report import report_html
from .report.sections import SECTIONS
from .result import RunResult
from .staging import write_files

REPORT = "report.html"
OUTPUTS = ("structure.csv", "metrics.json", "rounds.csv", "config.json", "structure.png", REPORT)
"""the files that every run has"""
SIGNATURES = "signatures.json"
"""the hashes of the files of a run, signed by its silos (`flows/job/signing.py`)"""
FILES = (REPORT, *(name for section in SECTIONS for name in section.files), SIGNATURES)
"""all files that a run can have; the sections state which results have them, except for the signatures"""


class OutputsNotWritten(BadInput):
    """The files of a result could not be written, for instance because the disk is full."""

    may_pass = True
    result: RunResult


def write_outputs(result: RunResult, folder: Path) -> dict[str, Path]:
    """Write the files of `result` into `folder` and return their paths by name; other files in `folder` stay.

    The files appear when all of them are complete (`staging.py`). Raises `OutputsNotWritten` if they cannot be written.
    """
    contents = {name: write(result) for section in SECTIONS for name, write in section.files.items()}
    written = {**contents, REPORT: report_html(result)}
    encoded = {name: one.encode() if isinstance(one, str) else one for name, one in written.items() if one is not None}
    try:
        return write_files(folder, encoded)
    except OSError as error:
        failure = OutputsNotWritten(f"{error.filename or folder}: the results cannot be written ({error.strerror})")
        failure.result = result
        raise failure from None
