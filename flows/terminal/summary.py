"""The progress of a run on stderr, and the summary that `learn` prints: structure, scores, outcome and paths.

While a run is in progress, a terminal shows a bar with the round, the measures of the algorithm and the bytes. If
stderr is not a terminal, lines are printed instead. The measures of a search by independence tests are the size of the
conditioning sets, the tests so far and the edges left; a line is printed for each size.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from fedbnsl.algorithms.core.schema import pluralize
from fedbnsl.algorithms.graphs.edges import SYMBOLS, Edge, LaggedEdge, classify, classify_lagged, weighted
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.mlflow.store import comparison_of, opened_by
from fedbnsl.tracking.outputs import MODELS, flat_metrics, json_text
from fedbnsl.tracking.report.report import knowledge_line, small_cell_warnings
from fedbnsl.tracking.result import (
    CANDIDATE_COLUMNS,
    CompletedRun,
    PrivacySpent,
    RunResult,
    Tuning,
    series_warnings,
    silo_edges,
    strengths_in,
)

from ..job.job import Job
from ..job.run import OPEN_ENDED, SEARCH_LEVEL, Listener, format_bytes, outcome_text, progress_text
from ..job.run import Progress as Round
from .console import PlainConsole, console, show_scores


def show_structure(structure: Structure, most: int = 40, strengths: Strengths | None = None) -> None:
    """Print at most `most` edges, in descending order of their absolute weights.

    For a dynamic structure, edges within one time step and edges across time are printed separately. With `strengths`,
    the share of resamples that contain an edge is printed beside it; for a directed edge, also the share of these
    resamples in which the edge has the same direction.
    """
    within = " within one time step" * bool(structure.lags)
    _show_edges(classify(structure, None), within, most, strengths, weighted=weighted(structure))
    if structure.lags:
        lagged = classify_lagged(structure, None)
        _show_edges(lagged, " across time", most, strengths, weighted=weighted(structure))


def _show_edges(edges: Sequence[Edge], where: str, most: int, strengths: Strengths | None, *, weighted: bool) -> None:
    edges = sorted(edges, key=lambda edge: -abs(edge.weight or 0.0))
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for edge in edges[:most]:
        weight = [f"{edge.weight:+.3f}"] if weighted and edge.weight is not None else []
        table.add_row(
            edge.cause,
            SYMBOLS[edge.at_source, edge.at_target],
            edge.target,
            *weight,
            *_strengths(edge, strengths),
        )
    which = "strongest" if weighted else "first"
    console().print(
        f"{pluralize(len(edges), 'edge')}{where}" + (f", the {most} {which}:" if len(edges) > most else ":")
    )
    console().print(table)


def _strengths(edge: Edge, strengths: Strengths | None) -> list[str]:
    """The share of resamples with `edge`; for a directed edge, also the share of these resamples with its direction."""
    if strengths is None:
        return []
    strength, direction = strengths.strength_and_direction(edge)
    no_direction = isinstance(edge, LaggedEdge) or not edge.one_way or direction is None
    return [f"strength {strength:.2f}", "" if no_direction else f"direction {direction:.2f}"]


SHOWN_SCORES = (
    *("shd", "shd_lenient", "shd_skeleton", "shd_cpdag", "tpr", "fdr", "f1", "edges", "true_edges", "acyclic"),
    *("lags", "lagged_shd", "lagged_tpr", "lagged_fdr", "lagged_f1", "lagged_edges", "lagged_true_edges"),
)


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


def show_result(finished: CompletedRun) -> None:
    """Print the result of a run."""
    result, metrics = finished.result, finished.result.metrics
    show_structure(result.structure, strengths=strengths_in(result))
    out = console()
    out.print()
    if result.averaged:
        out.print("scores, means over the silos:")
    show_scores({key: metrics.get(key) for key in SHOWN_SCORES})
    out.print()
    sent = format_bytes(float(metrics["bytes_up"] or 0) + float(metrics["bytes_down"] or 0))
    formula = float(metrics["formula_megabytes"] or 0)
    out.print(f"{outcome_text(result)}, {metrics['seconds']} s, {sent} sent ({formula:.3g} MB by the papers' formula)")
    if result.asked not in ("", result.algorithm):
        out.print(f"{result.asked}: chose {result.algorithm} for {result.schema.kind} data")
    if metrics.get("tests") is not None:
        out.print(f"{metrics['tests']:,} independence tests, {metrics['tests_left_out']:,} left out")
    if metrics.get("not_compared"):
        out.print(f"not compared with the truth: {metrics['not_compared']}", soft_wrap=True)
    if result.parameters.network is None:
        out.print(f"no parameters: {result.parameters.how}", soft_wrap=True)
    else:
        out.print(f"parameters: {result.parameters.how}", soft_wrap=True)
    lines = (*knowledge_line(result), *confidence_lines(result), *agreement_lines(result), *forecast_lines(result))
    if result.tuning is not None:
        show_candidates(result.tuning)
    checks = (*result.fit.lines, *result.held_out.lines(result.schema.rows))
    for line in (*small_cell_warnings(result), *lines, *result.basis, *checks, *finding_lines(result)):
        out.print(line, soft_wrap=True)
    if result.privacy is not None:
        out.print(privacy_line(result.privacy), soft_wrap=True)
    if result.secure:
        no_epsilon = "" if result.privacy is not None else "; no ε is guaranteed for these sums"
        out.print(f"replies were masked: the coordinator saw only their sums{no_epsilon}")
    if result.truth is None:
        out.print("no truth.csv, so the structure is not compared with a true graph")
    if "report.html" in finished.files:
        out.print(f"report: {finished.files['report.html']}", soft_wrap=True)
    for name in MODELS:
        if name in finished.files:
            out.print(f"model: {finished.files[name]}", soft_wrap=True)
    out.print(f"folder: {finished.folder}", soft_wrap=True)
    if finished.tracking_url:
        out.print(f"MLflow: {finished.tracking_url}{opened_by(finished.tracking_url)}", soft_wrap=True)
        out.print(f"all runs compared: {comparison_of(finished.tracking_url)}", soft_wrap=True)


def show_candidates(found: Tuning) -> None:
    """Print the candidate settings with their scores."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in CANDIDATE_COLUMNS:
        table.add_column(name)
    for row in found.rows:
        table.add_row(*("" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row))
    console().print(f"candidates, by {found.by} in {pluralize(found.exchanges, 'exchange')}:")
    console().print(table)


def finding_lines(result: RunResult) -> list[str]:
    """A line for each finding on the data, with advice."""
    return [f"! {one.message} {one.advice}" for one in result.diagnosed.findings]


def confidence_lines(result: RunResult) -> list[str]:
    """Lines on the result of the resamples, if the run has any."""
    found = result.confidence
    if found is None:
        return [f"the confidence in the edges is unknown: {result.unresampled}"] if result.unresampled else []
    sent = format_bytes(found.bytes_sent)
    edges = [*classify(result.structure, None), *classify_lagged(result.structure, None)]
    unstable = sum(map(found.strengths.unstable, edges))
    return [
        f"bootstrap: {pluralize(found.strengths.structures, 'resample')} in "
        f"{pluralize(found.exchanges, 'more exchange')}, {sent}; "
        f"averaged network of strengths above {found.threshold:.2f}: "
        f"{pluralize(int(result.metrics['averaged_edges'] or 0), 'edge')}",
        *(
            [f"unstable: {unstable} of {len(edges)} learned edges are in at most half of the resamples"]
            if unstable
            else []
        ),
    ]


def agreement_lines(result: RunResult) -> list[str]:
    """A line on the agreement of the silos' own structures, if the algorithm learns such structures."""
    silos, edges = len(result.local_structures), silo_edges(result.local_structures)
    most = sum(2 * len(one.weights) > silos for one in edges)
    if not silos:
        return []
    others = pluralize(len(edges) - most, "other")
    return [f"the silos' own structures: {pluralize(most, 'edge')} shared by most silos, {others}"]


def forecast_lines(result: RunResult) -> list[str]:
    """Warnings on time series, and lines on the forecast errors of a model."""
    model, persistence = result.metrics.get("forecast_mse"), result.metrics.get("persistence_mse")
    lines = series_warnings(result)
    if model is not None and persistence is not None:
        lines.append(
            f"forecast of the next row: mean squared error {model:.4g}, {persistence:.4g} for a persistence forecast, "
            "on the training data"
        )
    model, persistence = result.metrics.get("forecast_wrong"), result.metrics.get("persistence_wrong")
    if model is not None and persistence is not None:
        lines.append(
            f"forecast of the next row: {model:.1%} of the labels wrong, {persistence:.1%} by a persistence forecast, "
            "on the training data"
        )
    return lines


def privacy_line(privacy: PrivacySpent) -> str:
    """The spent privacy budget in one line, which starts with NOT PRIVATE if the guarantee is broken."""
    if privacy.broken:
        return f"NOT PRIVATE: {privacy.broken}"
    tight = "" if privacy.tight is None else f", at most {privacy.tight:.4g} by tight accounting,"
    return (
        f"privacy: ε = {privacy.spent:.4g}{tight} of {privacy.epsilon:g} spent at δ = {privacy.delta:.3g} "
        f"({privacy.adjacency}, per record; {privacy.protects}); all runs on these rows: ε = {privacy.spent_ever:.4g}"
    )


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
        """Show the run called `name` as `task` of `progress`."""
        self._progress, self._task, self._name = progress, task, name

    def __call__(self, update: Round) -> None:
        """Show the round."""
        number, most = update.round.number, None if update.max_rounds >= OPEN_ENDED else update.max_rounds
        self._progress.update(
            self._task, description=self._name, completed=number, total=most, figures=progress_text(update)
        )

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
        """Start the clock."""
        self._next, self._level = 0.0, -1.0

    def __call__(self, update: Round) -> None:
        """Print a line if one is due."""
        level = update.row.get(SEARCH_LEVEL, self._level)
        if time.monotonic() >= self._next or update.round.outcome or level != self._level:
            self._next, self._level = time.monotonic() + LINE_INTERVAL_SECONDS, level
            most = "" if update.max_rounds >= OPEN_ENDED else f" of {update.max_rounds}"
            print(f"round {update.round.number}{most}: {progress_text(update)}", file=sys.stderr, flush=True)

    def resampled(self, job: Job, running: int, exchanges: int) -> None:
        """Print the number of converged resamples, if a line is due."""
        if time.monotonic() >= self._next or not running:
            self._next = time.monotonic() + LINE_INTERVAL_SECONDS
            done = f"{job.resamples - running} of {job.resamples} resamples done"
            print(f"exchange {exchanges}: {done}", file=sys.stderr, flush=True)
