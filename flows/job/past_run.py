"""A finished run as its folder tells of it: what a later run can be compared with."""

import json
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.bif import parse_bif
from fedbnsl.algorithms.parameters.network_json import gaussian_from_json
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.data.folder.truth import read_structure
from fedbnsl.tracking.comparison import PastRun


def read_run(folder: Path) -> PastRun:
    """Return the finished run whose results are in `folder`; raises `BadInput` naming what is missing or wrong there.

    Models over time and of mixed variables are not read back.
    """
    config = folder / "config.json"
    try:
        told = json.loads(config.read_text("utf-8"))
        name, variables = str(told["name"]), tuple(map(str, told["variables"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise BadInput(
            f"{folder}: no finished run: config.json cannot be read; give a folder such as runs/NAME"
        ) from None
    structure = read_structure(folder / "structure.csv", variables)
    return PastRun(name or folder.name, structure, _network(folder))


def _network(folder: Path) -> Network | None:
    """Return the model in `folder`, None where there is none or one of another kind."""
    discrete, gaussian = folder / "model.bif", folder / "model.json"
    try:
        if discrete.exists():
            return parse_bif(discrete.read_text("utf-8"), str(discrete))
        if not gaussian.exists():
            return None
        content: dict[str, Any] = json.loads(gaussian.read_text("utf-8"))
        return None if "cpds" not in content or "lags" in content else gaussian_from_json(content, str(gaussian))
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
