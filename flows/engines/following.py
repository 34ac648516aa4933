"""A run that follows others of its deployment: skipped if nothing has changed, else compared with the one before."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.job.past_run import read_run
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.options.repeat import RepeatSettings
from fedbnsl.tracking.comparison import Comparison, PastRun, compared
from fedbnsl.tracking.notice import first_line, notice
from fedbnsl.tracking.result import RunResult

from .last_run import LastRun, last_run_file, question_of, read_last_run, write_last_run

Seals = Callable[[str], Mapping[str, str]]
"""(context) -> the seals of the silos' rows, by silo"""


class Unchanged(Exception):  # noqa: N818 - no error: the run has nothing to learn
    """No silo's rows have changed since the run before, and the same was asked: there is nothing to learn."""


@dataclass(frozen=True)
class Following:
    """A run that is about to begin: where its deployment's last run is kept, and how things stand now."""

    file: Path
    now: LastRun
    before: PastRun | None
    """None for the first run, and where the results of the one before are gone"""

    def compared(self, result: RunResult) -> RunResult:
        """Return `result` with what has changed since the run before, among its figures, too."""
        if self.before is None:
            return result
        changes = compared(self.before, PastRun(result.name, result.structure, result.parameters.network))
        return replace(result, changes=changes, metrics=result.metrics | changes.metrics)

    def keep(self, result: RunResult) -> None:
        """Keep the finished run as the last one, without the silos that it lost; say so where that cannot be done."""
        if result.outcome == "silo lost":
            return
        seals = {silo: seal for silo, seal in self.now.seals.items() if silo not in result.lost}
        try:
            write_last_run(self.file, replace(self.now, seals=seals))
        except OSError as error:
            notice(f"{self.file}: the next run will not know of this one ({first_line(error)})")


def following(settings: LearnSettings, repeat: RepeatSettings, seals: Seals) -> Following:
    """Return how the run that `settings` ask for follows the one before; `settings` are named.

    Raises `Unchanged` if there is nothing to learn and that is to be skipped: before anything is asked or spent.
    """
    folder = Path(str(settings.out)).absolute()
    file = last_run_file(folder.parent, repeat.deployment)
    now = LastRun(str(folder), question_of(settings), dict(seals(f"deployment {repeat.deployment}")))
    last = read_last_run(file)
    before = None if last is None else _results(Path(last.folder))
    same = last is not None and (last.question, dict(last.seals)) == (now.question, now.seals)
    if before is not None and same and repeat.unchanged == "skip":
        raise Unchanged(f"no silo's rows have changed since {before.name}, and the same was asked: nothing to learn")
    return Following(file, now, before)


def drifted(changes: Comparison, repeat: RepeatSettings) -> bool:
    """Say whether `changes` are drift: enough edges, enough parameter drift, or other variables than before."""
    moved = changes.drift is not None and changes.drift.total >= repeat.drift_parameters
    others = bool(changes.structure.joined or changes.structure.left)
    return moved or others or changes.edges_changed >= repeat.drift_edges


def _results(folder: Path) -> PastRun | None:
    """Return the run in `folder`, None where its results are gone."""
    try:
        return read_run(folder)
    except BadInput:
        return None
