"""Scheduled runs: skip a run if nothing has changed, else compare it with the previous run of its deployment.

The last finished run of a deployment is kept in a small file beside the runs. Of the rows it has only the seals
(`tasks/silo/journal.py`): without the silo's secret, they only show whether the rows are the same as before. ε does not
account for that.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.bif import parse_bif
from fedbnsl.algorithms.parameters.network_json import network_from_json
from fedbnsl.algorithms.parameters.networks import BayesianNetwork
from fedbnsl.data.folder.about import read_about
from fedbnsl.data.folder.folder import TRUTH
from fedbnsl.data.folder.truth import read_structure
from fedbnsl.tracking.comparison import Comparison, PastRun, compare_runs
from fedbnsl.tracking.result import RunResult
from fedbnsl.tracking.staging import first_line, notice

from ..options.learn import LearnSettings
from ..options.repeat import RepeatSettings


def read_run(folder: Path) -> PastRun:
    """The finished run whose results are in `folder`; raises `BadInput` naming what is missing or wrong there.

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


def network_in(folder: Path) -> BayesianNetwork | None:
    """The model that a run has left in `folder`, None without one; raises `BadInput` if it is damaged."""
    bif, other = folder / "model.bif", folder / "model.json"
    try:
        if bif.is_file():
            return parse_bif(bif.read_text("utf-8"), str(bif))
        return network_from_json(json.loads(other.read_text("utf-8")), str(other)) if other.is_file() else None
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{folder}: its model cannot be read: {first_line(error)}") from None


LAST_RUN_FILE = ".repeated"
"""the folder of these files, beside those of the runs"""
IRRELEVANT_OPTIONS = {"name", "out", "resume", "silo_patience"}
"""settings that make no difference to what is learned"""


@dataclass(frozen=True)
class LastRun:
    """A finished run: its folder, what was asked (see `question_of`), and the seals of the silos that took part."""

    folder: str
    question: str
    seals: Mapping[str, str]


def last_run_file(runs: Path, deployment: str) -> Path:
    """Where the last run of `deployment` is kept, whose runs are in the folder `runs`."""
    return runs / LAST_RUN_FILE / f"{quote(deployment, safe='')}.json"


def read_last_run(file: Path) -> LastRun | None:
    """The last run, None where there is none or the file is not as it was written."""
    try:
        told = json.loads(file.read_text("utf-8"))
        return LastRun(str(told["folder"]), str(told["question"]), {str(k): str(v) for k, v in told["seals"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_last_run(file: Path, last: LastRun) -> None:
    """Keep `last`, whole or not at all; raises `OSError` where it cannot be written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    begun = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        begun.write_text(json.dumps(asdict(last), indent=1), "utf-8")
        os.replace(begun, file)
    finally:
        begun.unlink(missing_ok=True)


def settings_digest(settings: LearnSettings) -> str:
    """A digest of what is asked: all settings that matter, the version, and the files that are not rows.

    `about.json` enters without its checksums, which are digests of rows.
    """
    folder = Path(settings.data)
    about = read_about(folder) if folder.is_dir() else {}
    files = [folder / TRUTH, *(Path(one) for one in (settings.knowledge, settings.federation) if one)]
    contents = [hashlib.sha256(one.read_bytes()).hexdigest() if one.is_file() else "" for one in files]
    asked = settings.model_dump(mode="json", exclude=IRRELEVANT_OPTIONS)
    said = {name: value for name, value in about.items() if name != "checksums"}
    told = json.dumps([asked, said, contents, version("fedbnsl")], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


Seals = Callable[[str], Mapping[str, str]]
"""(context) -> the seals of the silos' rows, by silo"""


class Unchanged(Exception):  # noqa: N818 - no error: the run has nothing to learn
    """No silo's rows have changed since the run before, and the same was asked: there is nothing to learn."""


@dataclass(frozen=True)
class RunComparison:
    """A run that is about to begin: where its deployment's last run is kept, and how things stand now."""

    file: Path
    now: LastRun
    before: PastRun | None
    """None for the first run, and where the results of the one before are gone"""

    def compared(self, result: RunResult) -> RunResult:
        """`result` with what has changed since the run before, among its figures, too."""
        if self.before is None:
            return result
        changes = compare_runs(self.before, PastRun(result.name, result.structure, result.parameters.network))
        return replace(result, changes=changes, metrics=result.metrics | changes.metrics)

    def keep(self, result: RunResult) -> None:
        """Keep the finished run as the last one, without the silos that it lost; say so where that cannot be done."""
        if result.outcome == "silo lost":
            return
        seals = {silo: seal for silo, seal in self.now.seals.items() if silo not in result.lost}
        try:
            write_last_run(self.file, replace(self.now, seals=seals))
        except OSError as error:
            notice(f"{self.file}: the next run cannot be compared with this one ({first_line(error)})")


def compare_with_last_run(settings: LearnSettings, repeat: RepeatSettings, seals: Seals) -> RunComparison:
    """How the run that `settings` ask for follows the one before; `settings` are named.

    Raises `Unchanged` if there is nothing to learn and that is to be skipped: before anything is asked or spent.
    """
    folder = Path(str(settings.out)).absolute()
    file = last_run_file(folder.parent, repeat.deployment)
    now = LastRun(str(folder), settings_digest(settings), dict(seals(f"deployment {repeat.deployment}")))
    last = read_last_run(file)
    before = None if last is None else _results(Path(last.folder))
    same = last is not None and (last.question, dict(last.seals)) == (now.question, now.seals)
    if before is not None and same and repeat.unchanged == "skip":
        raise Unchanged(f"no silo's rows or settings have changed since {before.name}: nothing to learn")
    return RunComparison(file, now, before)


def is_drift(changes: Comparison, repeat: RepeatSettings) -> bool:
    """Whether `changes` are drift: enough edges, enough parameter drift, or other variables than before."""
    moved = changes.drift is not None and changes.drift.total >= repeat.drift_parameters
    others = bool(changes.structure.joined or changes.structure.left)
    return moved or others or changes.edges_changed >= repeat.drift_edges


def _results(folder: Path) -> PastRun | None:
    """The run in `folder`, None where its results are gone."""
    try:
        return read_run(folder)
    except BadInput:
        return None
