"""A finished run as its folder tells of it: what a later run can be compared with."""

import json
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.bif import parse_bif
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.algorithms.parameters.read_json import network_from_json
from fedbnsl.data.folder.truth import read_structure
from fedbnsl.tracking.comparison import PastRun
from fedbnsl.tracking.notice import first_line


def read_run(folder: Path) -> PastRun:
    """Return the finished run whose results are in `folder`; raises `BadInput` naming what is missing or wrong there.

    A model that is damaged counts as none: the graphs are compared.
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
    try:
        return PastRun(name or folder.name, structure, network_in(folder))
    except BadInput:
        return PastRun(name or folder.name, structure, None)


def network_in(folder: Path) -> Network | None:
    """Return the model that a run has left in `folder`, None without one; raises `BadInput` if it is damaged."""
    bif, other = folder / "model.bif", folder / "model.json"
    try:
        if bif.is_file():
            return parse_bif(bif.read_text("utf-8"), str(bif))
        return network_from_json(json.loads(other.read_text("utf-8")), str(other)) if other.is_file() else None
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{folder}: its model cannot be read: {first_line(error)}") from None
