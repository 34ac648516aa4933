"""Expected texts of the golden runs: for each kind of output one file beside this one, by part and by run.

A file has every text once, below a line with the name of the part and the runs that have it. A lost part, a part of
another run, and a changed number or sentence are noticed. A further metric changes no file, because the golden runs
have fixed metrics, which tests compare by name.

`FEDBNSL_RENEW=1 pytest tests/tracking tests/flows/outputs` rewrites the files. Read the difference before you commit
it. A figure that has moved to another row, column, sign or unit is a fault; an improved sentence is not.
"""

import os
import re
from pathlib import Path

FOLDER = Path(__file__).with_name("expected")


def check(output, found):
    """Compare the texts `found`, by run and by the name of a part, with the expected ones of `output`."""
    file = FOLDER / f"{output}.txt"
    found = {run: {part: text.strip("\n") for part, text in parts.items()} for run, parts in found.items()}
    if os.environ.get("FEDBNSL_RENEW"):
        file.write_text(as_text(found), "utf-8")
    expected = {}
    for part, runs, text in re.findall(r"^=== (.*) \((.*)\)\n((?:(?!=== ).*\n)*)", file.read_text("utf-8"), re.M):
        for run in runs.split():
            expected.setdefault(run, {})[part] = text.strip("\n")
    assert set(found) == set(expected)
    for run, parts in found.items():
        assert set(parts) == set(expected[run]), run
        for part, text in parts.items():
            assert text.splitlines() == expected[run][part].splitlines(), f"{run}: {part}"


def as_text(found):
    """The content of a file: each text of a part with the runs that have it."""
    runs = {}
    for run, parts in found.items():
        for part, text in parts.items():
            runs.setdefault((part, text), []).append(run)
    order = list(dict.fromkeys(part for part, _ in runs))
    blocks = sorted(runs.items(), key=lambda one: order.index(one[0][0]))
    return "\n".join(f"=== {part} ({' '.join(names)})\n{text}\n" for (part, text), names in blocks)
