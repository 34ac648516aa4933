"""Where the code of a run comes from, as MLflow's column "Source" shows it."""

import subprocess
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
PLACE = "tracking/mlflow/"
"""this folder in a checkout of the project"""


def source_tags() -> dict[str, str]:
    """Return the tags by which MLflow names the source of a run: the program and, in a checkout, its commit."""
    commit = checked_out(HERE)
    named = {"mlflow.source.name": "fedbnsl", "mlflow.source.type": "LOCAL"}
    return named | ({"mlflow.source.git.commit": commit} if commit else {})


@cache
def checked_out(folder: Path) -> str | None:
    """Return the commit of the checkout of this project that `folder` is in, None outside of one or without git.

    A package installed below somebody else's checkout has another place in it, and no commit.
    """
    words = ["git", "-C", str(folder), "rev-parse", "--show-prefix", "HEAD"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.split()
    return lines[1] if len(lines) == 2 and lines[0] == PLACE else None
