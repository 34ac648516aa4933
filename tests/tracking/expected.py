"""Expected texts: the whole outputs of the golden runs, in files beside this one.

`FEDBNSL_RENEW=1 pytest tests/tracking tests/flows/outputs` writes them anew. Read the difference before you commit it.
A figure that has moved to another row, column, sign or unit is a fault; an improved sentence is not.
"""

import os
from pathlib import Path

FOLDER = Path(__file__).with_name("expected")


def check(name, text):
    """Compare `text` with the expected one of this name, line by line."""
    file = FOLDER / f"{name}.txt"
    if os.environ.get("FEDBNSL_RENEW"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    assert text.splitlines() == file.read_text("utf-8").splitlines()
