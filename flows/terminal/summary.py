"""The progress of a run on stderr, and the summary that `learn` prints: structure, scores, outcome and paths.

While a run is in progress, a terminal shows a bar with the round, the measures of the algorithm and the bytes. If
stderr is not a terminal, lines are printed instead. The measures of a search by independence tests are the size of the
conditioning sets, the tests so far and the edges left; a line is printed for each size.
"""

import shlex
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from fedbnsl.algorithms.core.knowledge import Arc
from fedbnsl.algorithms.errors import pluralize
from fedbnsl.algorithms.graphs.edges import SYMBOLS, ClassifiedEdges, Edge, weighted
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.tracking.mlflow.store import comparison_of, opened_by
from fedbnsl.tracking.model import MODELS
from fedbnsl.tracking.outputs import REPORT
from fedbnsl.tracking.report.drawings import marks_of
from fedbnsl.tracking.report.files import flat_metrics, json_text
from fedbnsl.tracking.report.sections import SECTIONS, finding_lines
from fedbnsl.tracking.report.tables import ReportTable, format_bytes
from fedbnsl.tracking.result import CompletedRun, strengths_in

from ..job.job import Job
from ..job.run import OPEN_ENDED, SEARCH_LEVEL, Listener, outcome_text, progress_text
from ..job.run import Progress as Round
from .console import PlainConsole, console, show_scores, show_table


def show_edges(
    learned: ClassifiedEdges, most: int = 40, strengths: Strengths | None = None, doubted: Collection[Arc] = ()
) -> None:
    """Print at most `most` edges, in descending order of their absolute weights.

    For a dynamic structure, edges within one time step and edges across time are printed separately. With `strengths`,
    the share of resamples that contain an edge is printed beside it; for a directed edge, also the share of these
    resamples in which the edge has the same direction. The `doubted` directions are marked as doubtful.
    """
    has_weights, over_time = weighted(learned.structure), bool(learned.structure.lags)
    parts = {" within one time step" * over_time: learned.within}
    for where, edges in (parts | {" across time": learned.lagged} if over_time else parts).items():
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for edge in sorted(edges, key=lambda edge: -abs(edge.weight or 0.0))[:most]:
            weight = [f"{edge.weight:+.3f}"] if has_weights and edge.weight is not None else []
            doubt = "doubtful direction" * ((edge.source, edge.target) in doubted)
            symbol = SYMBOLS[edge.at_source, edge.at_target]
            table.add_row(edge.cause, symbol, edge.target, *weight, *_strengths(edge, strengths), doubt)
        listed = f", the {most} {'strongest' if has_weights else 'first'}:" if len(edges) > most else ":"
        console().print(f"{pluralize(len(edges), 'edge')}{where}{listed}")
        console().print(table)


def _strengths(edge: Edge, strengths: Strengths | None) -> list[str]:
    """The share of resamples with `edge`; for a directed edge, also the share of these resamples with its direction."""
    if strengths is None:
        return []
    strength, direction = strengths.strength_and_direction(edge)
    no_direction = bool(edge.lag) or not edge.one_way or direction is None
    if strength is None:
        return ["", ""]
    return [f"strength {strength:.2f}", "" if no_direction else f"direction {direction:.2f}"]


def as_document(finished: CompletedRun) -> str:
    """The result of a run as one JSON document for programs: metrics, folder, files, and the ε spent.

    `privacy` is null for a run without an ε; its `epsilon` is null if the guarantee was broken.
    """
    result = finished.result
    spent = result.privacy
    promised = None if spent is None else {"epsilon": spent.spent, "delta": spent.delta, "all_runs": spent.spent_ever}
    return json_text(
        {
            "name": result.name,
            "algorithm": result.algorithm,
            "dataset": result.dataset,
            "outcome": result.outcome,
            "folder": finished.folder.absolute(),
            "files": {name: path.absolute() for name, path in finished.files.items()},
            "mlflow": finished.tracking_url,
            "privacy": promised,
            "metrics": flat_metrics(result),
        }
    )


SUMMARY_LINES = 12
"""number of lines after the edges and the scores that findings may fill"""


def show_result(finished: CompletedRun, *, details: bool = False) -> None:
    """Print the result of a run: its graph, its scores, what it rests on, what to do next, and where its files are.

    With `details`, everything is printed; otherwise, only as many findings as `SUMMARY_LINES` leave room for.
    """
    result, out = finished.result, console()
    show_edges(result.edges, strengths=strengths_in(result), doubted=result.doubted)
    out.print()
    if result.averaged:
        out.print("scores, means over the silos:")
    show_scores(flat_metrics(result))
    out.print()
    for line in summary_lines(finished, details=details):
        if isinstance(line, ReportTable):
            show_table(line)
        else:
            out.print(line, soft_wrap=True)


FILES = (("report", REPORT), *(("model", name) for name in MODELS))
"""the files that the summary names"""


def summary_lines(finished: CompletedRun, *, details: bool) -> list[str | ReportTable]:
    """The lines after the edges and the scores (see `show_result`)."""
    result, metrics = finished.result, flat_metrics(finished.result)
    sent = format_bytes(float(metrics["bytes_up"] or 0) + float(metrics["bytes_down"] or 0))
    formula = f" ({float(metrics['formula_megabytes'] or 0):.3g} MB by the papers' formula)" * details
    who = result.algorithm if result.asked in ("", result.algorithm) else f"{result.asked} chose {result.algorithm}"
    lines: list[str | ReportTable] = [f"{who}: {outcome_text(result)}, {metrics['seconds']} s, {sent} sent{formula}"]
    for section in SECTIONS:
        lines += section.lines(result)
        lines += section.details(result) if details else ()
    places = [f"{what}: {finished.files[name]}" for what, name in FILES if name in finished.files]
    places += [f"folder: {finished.folder}"] * (details or not places)
    if finished.tracking_url:
        places.append(f"MLflow: {finished.tracking_url}{opened_by(finished.tracking_url)}")
        places += [f"all runs compared: {comparison_of(finished.tracking_url)}"] * details
    findings = finding_lines(result) or _next_step(finished)
    room = len(findings) if details else max(SUMMARY_LINES - len(lines) - len(places), 2)
    if len(findings) > room:
        more = pluralize(len(findings) - room + 1, "more finding")
        findings = [*findings[: room - 1], f"! {more}: see the report, or --verbose"]
    return [*lines, *findings, *places]


def _next_step(finished: CompletedRun) -> list[str]:
    """What to do with a graph whose data have no findings: estimate an effect, if the model answers such questions."""
    result = finished.result
    marks = marks_of(result)
    believed = [edge for edge in result.edges.within if edge.directed and not marks.doubtful(edge)]
    if not believed or not result.parameters.network or result.structure.lags:
        return []
    words = (str(finished.folder), "--treatment", believed[0].source, "--outcome", believed[0].target)
    return [f"next: fedbnsl effect {shlex.join(words)}"]


LINE_INTERVAL_SECONDS = 5.0
"""minimum time between two lines of progress if stderr is not a terminal"""


@contextmanager
def progress_bar(name: str) -> Iterator[Listener]:
    """Yield a listener that shows the progress after every round."""
    if sys.stderr.isatty():
        with _bar(name) as listener:
            yield listener
    else:
        print(f"{name}: starting", file=sys.stderr, flush=True)
        yield _Lines()


@contextmanager
def _bar(name: str) -> Iterator[Listener]:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}", markup=False),
    )
    with Progress(*columns, console=PlainConsole(stderr=True), transient=True, refresh_per_second=5) as progress:
        task = progress.add_task(f"{name}: starting", total=None, figures="")

        yield _Bar(progress, task, name)


class _Bar:
    """The bar of a terminal: the rounds, then the resamples that have converged."""

    def __init__(self, progress: Progress, task: TaskID, name: str) -> None:
        self._progress, self._task, self._name = progress, task, name

    def __call__(self, update: Round) -> None:
        number, most = update.round.number, None if update.max_rounds >= OPEN_ENDED else update.max_rounds
        self._progress.update(
            self._task, description=self._name, completed=number, total=most, figures=progress_text(update)
        )

    def step(self, job: Job, words: str) -> None:
        """Show what the run does next."""
        self._progress.update(self._task, description=f"{self._name}: {words}", completed=0, total=None, figures="")

    def resampled(self, job: Job, running: int, exchanges: int) -> None:
        """Show the number of converged resamples."""
        done, shown = job.resamples - running, f"{self._name}: resamples"
        self._progress.update(
            self._task,
            description=shown,
            completed=done,
            total=job.resamples,
            figures=pluralize(exchanges, "exchange"),
        )


class _Lines:
    """Lines for the first and the last round, and a line every few seconds; in a search, also a line for each level."""

    def __init__(self) -> None:
        self._next, self._level, self._step = 0.0, -1.0, ""

    def __call__(self, update: Round) -> None:
        level = update.row.get(SEARCH_LEVEL, self._level)
        if time.monotonic() >= self._next or update.round.outcome or level != self._level:
            self._next, self._level = time.monotonic() + LINE_INTERVAL_SECONDS, level
            most = "" if update.max_rounds >= OPEN_ENDED else f" of {update.max_rounds}"
            print(f"round {update.round.number}{most}: {progress_text(update)}", file=sys.stderr, flush=True)

    def step(self, job: Job, words: str) -> None:
        """Print what the run does next, once for several exchanges."""
        if words != self._step:
            print(words, file=sys.stderr, flush=True)
        self._step = words

    def resampled(self, job: Job, running: int, exchanges: int) -> None:
        """Print the number of converged resamples, if a line is due."""
        if time.monotonic() >= self._next or not running:
            self._next = time.monotonic() + LINE_INTERVAL_SECONDS
            done = f"{job.resamples - running} of {job.resamples} resamples done"
            print(f"exchange {exchanges}: {done}", file=sys.stderr, flush=True)
