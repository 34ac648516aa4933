"""Scheduled runs: skip a run if nothing has changed, otherwise compare it with the previous run of its deployment.

A small file beside the runs records the last finished run of a deployment. Of the silos' rows, this file has only the
seals, which are fingerprints with a secret of the silo (`tasks/silo/seals.py`). Without the secret, seals only show
whether the rows are the same as before. ε does not account for this disclosure.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from fedbnsl.algorithms.core.protocol import BROKEN_OFF
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.bif import parse_bif
from fedbnsl.algorithms.parameters.network_json import network_from_json
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.data.folder.about import read_about
from fedbnsl.data.folder.folder import TRUTH, place_of
from fedbnsl.data.folder.truth import read_structure
from fedbnsl.tasks.silo.publications import FewRowsChanged
from fedbnsl.tracking.comparison import Comparison, PastRun, compare_runs
from fedbnsl.tracking.kept_files import read_json, write_json
from fedbnsl.tracking.metrics import MetricValue
from fedbnsl.tracking.result import RunResult
from fedbnsl.tracking.staging import create_private_folder, first_line, notice

from ..options.learn import LearnSettings
from ..options.repeat import RepeatSettings
from .resuming import IRRELEVANT_OPTIONS, STARTED


def read_run(folder: Path) -> PastRun:
    """The finished run with results in `folder`.

    A damaged model is ignored, so that the graphs can still be compared. Raises `BadInput` if config.json or
    structure.csv is missing or invalid.
    """
    config = folder / "config.json"
    try:
        content = read_json(config)
        outcomes = (one["name"] for one in content.get("survival", ()))
        name, variables = str(content["name"]), tuple(map(str, (*content["variables"], *outcomes)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"{folder}: no finished run: config.json cannot be read; give a folder such as runs/NAME"
        ) from None
    structure = read_structure(folder / "structure.csv", variables)
    try:
        return PastRun(name or folder.name, structure, network_in(folder))
    except BadInput:
        return PastRun(name or folder.name, structure, None)


def metrics_in(folder: Path) -> dict[str, MetricValue]:
    """The metrics of the run in `folder`; empty if they cannot be read, so that the graphs can still be compared."""
    try:
        return dict(json.loads((folder / "metrics.json").read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def network_in(folder: Path) -> Network | None:
    """The model of the run in `folder`, None if there is no model; raises `BadInput` if the model is damaged."""
    bif, other = folder / "model.bif", folder / "model.json"
    try:
        if bif.is_file():
            return parse_bif(bif.read_text("utf-8"), str(bif))
        if not other.is_file():
            return None
        return network_from_json(read_json(other), str(other))
    except (OSError, ValueError, RecursionError, AttributeError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{folder}: its model cannot be read: {first_line(error)}") from None


LAST_RUN_FILE = ".repeated"
"""the folder of the files that record last runs, beside the folders of the runs"""


@dataclass(frozen=True)
class LastRun:
    """A finished run: its folder, the digest of its settings, and the seals of the silos that took part."""

    folder: str
    question: str
    seals: Mapping[str, str]


def last_run_file(runs: Path, deployment: str) -> Path:
    """The file of the last run of `deployment`, whose runs are in the folder `runs`."""
    return runs / LAST_RUN_FILE / f"{quote(deployment, safe='')}.json"


def read_last_run(file: Path) -> LastRun | None:
    """The last run; None if there is none, or if the file is damaged; raises `BadInput` for another format."""
    try:
        content = read_json(file)
        seals = {str(silo): str(seal) for silo, seal in content["seals"].items()}
        return LastRun(str(content["folder"]), str(content["question"]), seals)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, BadInput):
            raise
        return None


def write_last_run(file: Path, last: LastRun) -> None:
    """Write `last` atomically; raises `OSError` if it cannot be written."""
    create_private_folder(file.parent)
    write_json(file, asdict(last))


def claim_file(last_run: Path) -> Path:
    """The file of the claim of a deployment whose last run is in `last_run`."""
    return last_run.with_suffix(".claim")


def claimed_run(settings: LearnSettings, deployment: str) -> Path | None:
    """The folder of the last run of `deployment` if it was interrupted and had the same `settings`; otherwise None."""
    claim = read_last_run(claim_file(last_run_file(runs_folder(settings), deployment)))
    if claim is None or claim.question != settings_digest(settings):
        return None
    folder = Path(claim.folder)
    return folder if (folder / STARTED).exists() else None


def runs_folder(settings: LearnSettings) -> Path:
    """The folder of the folders of runs with `settings`."""
    return Path(settings.out or Path("runs") / "any").absolute().parent


def settings_digest(settings: LearnSettings) -> str:
    """A digest of the settings that affect the result, the version, and the files other than the rows.

    Checksums in `about.json` are left out, because they are digests of rows.
    """
    folder = place_of(Path(settings.data))
    about = read_about(folder)
    files = [folder / TRUTH, *(Path(one) for one in (settings.knowledge, settings.federation, settings.targets) if one)]
    contents = [hashlib.sha256(one.read_bytes()).hexdigest() if one.is_file() else "" for one in files]
    options = settings.model_dump(mode="json", exclude=IRRELEVANT_OPTIONS)
    description = {name: value for name, value in about.items() if name != "checksums"}
    text = json.dumps([options, description, contents, version("fedbnsl")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


Seals = Callable[[str], Mapping[str, str]]
"""(context) -> the seals of the silos' rows, by silo"""


class Unchanged(Exception):  # noqa: N818 - no error: the run has nothing to learn
    """A run is skipped because nothing has changed since the previous run, or because too few rows have changed."""


@dataclass(frozen=True)
class RunComparison:
    """A new run of a deployment: the file that records the last run, the record of this run, and the previous run."""

    file: Path
    now: LastRun
    before: PastRun | None
    """None for the first run, and if the results of the previous run were deleted or damaged"""

    def add_changes(self, result: RunResult) -> RunResult:
        """`result` with the changes since the previous run, also in its metrics."""
        if self.before is None:
            return result
        changes = compare_runs(self.before, PastRun(result.name, result.structure, result.parameters.network))
        return replace(result, changes=changes, metrics=result.metrics | changes.metrics)

    def save(self, result: RunResult) -> None:
        """Record the run as the last run, without the silos that it lost; prints a notice if that is not possible.

        A run that was broken off is not recorded.
        """
        if result.outcome in BROKEN_OFF:
            return
        seals = {silo: seal for silo, seal in self.now.seals.items() if silo not in result.lost}
        try:
            write_last_run(self.file, replace(self.now, seals=seals))
            claim_file(self.file).unlink(missing_ok=True)
        except OSError as error:
            notice(f"{self.file}: the next run cannot be compared with this one ({first_line(error)})")


def compare_with_last_run(settings: LearnSettings, repeat: RepeatSettings, seals: Seals) -> RunComparison:
    """The comparison of the run of the named `settings` with the last run of its deployment; claims the run.

    Raises `Unchanged`, before the run spends any ε, if nothing has changed and `repeat` skips such runs, or if a silo
    refuses the run because too few of its rows have changed.
    """
    folder = Path(str(settings.out)).absolute()
    file = last_run_file(folder.parent, repeat.deployment)
    try:
        now = LastRun(str(folder), settings_digest(settings), dict(seals(f"deployment {repeat.deployment}")))
    except FewRowsChanged as refusal:
        raise Unchanged(str(refusal)) from None
    last = read_last_run(file)
    before = None if last is None else _results(Path(last.folder))
    same = last is not None and (last.question, dict(last.seals)) == (now.question, now.seals)
    if before is not None and same and repeat.unchanged == "skip":
        raise Unchanged(f"no silo's rows or settings have changed since {before.name}: nothing to learn")
    try:
        write_last_run(claim_file(file), now)
    except OSError as error:
        notice(f"{claim_file(file)}: the next run could not continue this one ({first_line(error)})")
    return RunComparison(file, now, before)


def is_drift(changes: Comparison, repeat: RepeatSettings) -> bool:
    """Whether `changes` are drift: enough changed edges, enough parameter drift, or added or removed variables."""
    moved = changes.drift is not None and changes.drift.total >= repeat.drift_parameters
    others = bool(changes.structure.added_variables or changes.structure.removed_variables)
    return moved or others or changes.edges_changed >= repeat.drift_edges


def _results(folder: Path) -> PastRun | None:
    """The run in `folder`; None if its results were deleted or damaged."""
    try:
        return read_run(folder)
    except BadInput:
        return None
