"""One run of `learn` with either engine: run the rounds, call the listeners, score the result.

Nothing here depends on Prefect: an engine is a `Session`. The terminal, notebooks and Prefect's log share the texts of
progress and outcome.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Algorithm, Federation, Limits, Round, Traffic, rounds
from fedbnsl.algorithms.core.release import Disclosed
from fedbnsl.algorithms.core.schema import AUTO, Schema
from fedbnsl.algorithms.errors import BadInput, RunCancelled, pluralize
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.statistics.transforms import transform_lines
from fedbnsl.tasks.compile_notice import compile_notice
from fedbnsl.tasks.silo.policy import NotAllowed
from fedbnsl.tracking.metrics import Kind, MetricValue
from fedbnsl.tracking.publication import PublicationGate, rounded
from fedbnsl.tracking.report.tables import format_bytes
from fedbnsl.tracking.result import (
    Confidence,
    FoundTargets,
    GraphPosterior,
    Parameters,
    RunResult,
    SurvivalOutcome,
    Tuning,
)

from .check import check
from .continuation import Continued, adjusted_session, continued
from .follow_up import (
    LearnedGraph,
    confidence,
    confidence_metrics,
    diagnose,
    not_diagnosed,
    parameters,
    redescribed,
    refit,
    refit_errors,
    series_metrics,
    with_resamples,
)
from .goodness_of_fit import held_out, published_fit
from .graph_posterior import graph_posterior, posterior_metrics
from .job import Job, Session, unless_refused
from .preparation import (
    comparable_truth,
    with_clusters,
    with_imputation_model,
    with_knowledge,
    with_lags,
    with_units,
)
from .privacy_spent import privacy_metrics, privacy_spent
from .stopping import raise_if_stopped
from .survival import survival_outcomes, with_survival
from .truth_scores import Scored, score_run
from .tuning import with_tuning
from .unknown_targets import with_found_targets


@dataclass(frozen=True)
class Progress:
    """The progress that listeners receive after every round; `row` is the row of `rounds.csv`."""

    job: Job
    max_rounds: int
    round: Round[Any]
    row: dict[str, float]
    rows: tuple[dict[str, float], ...]
    structure: Structure
    round_seconds: float = 0.0
    """mean duration of the rounds that this process has run"""


Listener = Callable[[Progress], None]


@runtime_checkable
class StepListener(Protocol):
    """A listener that also receives what the run does before and after its rounds, and how far the resamples are."""

    def step(self, job: Job, words: str) -> None:
        """Receive what the run of the job does next, such as "estimating parameters"."""
        ...

    def resampled(self, job: Job, running: int, exchanges: int) -> None:
        """Receive the number of the job's resamples that are still `running`, and the number of `exchanges` so far."""
        ...


@dataclass(frozen=True)
class Resumed:
    """The state of an interrupted run: its last finished round, the server's state, and the rows so far."""

    number: int
    server: Any
    rows: tuple[dict[str, float], ...]
    seconds: float = 0.0


@compile_notice()
def run(job: Job, session: Session, listeners: Iterable[Listener] = (), resumed: Resumed | None = None) -> RunResult:
    """Run `job` and return the result; raises `BadInput` as `check` does, or if silos do not respond before round 1."""
    check(job, session.schema)
    given, true_graph, true_weights = job, job.truth, job.silo_weights
    if session.schema.survival:
        job = _without_survival(job, session.schema)

    def announce(words: str) -> None:
        for listener in _step_listeners(listeners):
            listener.step(given, words)

    session = adjusted_session(job, replace(session, announce=announce))
    job, session, found_targets, tuned = _prepared(job, session)
    algorithm = with_knowledge(registry.build(job.spec), job.run_schema(session.schema))
    federation = session.connect(job, job.spec, job.run_id)
    pending = _rounds(session.wrap(algorithm, federation), federation, resumed, _limits(job, resumed))
    gate = job.gate(session.schema)
    last, rows, seconds = _run_rounds(job, algorithm, pending, gate, listeners, resumed)
    best = _diagnosed(job, session, algorithm, last)
    job, algorithm, last, diagnosed, sums = best.job, best.algorithm, best.last, best.diagnosed, best.diagnosed.sums
    session = adjusted_session(job, session)
    outcomes = survival_outcomes(job, session, last)
    whole = replace(job, truth=true_graph, silo_weights=true_weights)
    scored, truth = _scored(whole, session, algorithm, last.server, outcomes)
    learned = scored.structure.among(session.schema.variables) if outcomes else scored.structure
    after = (job, session, algorithm, last, learned)
    fitted = unless_refused(lambda: refit(*after), lambda refusal: None)
    exact = unless_refused(lambda: parameters(*after, best.fitted, sums), lambda refusal: Parameters(None, refusal))
    model, scores = gate.parameters(exact), rounded(held_out(job, session, last), Kind.LIKELIHOOD)
    checked, figures = published_fit(*after, sums)
    sampled = unless_refused(lambda: graph_posterior(*after, sums), lambda refusal: GraphPosterior(why=refusal))
    job, edge_confidence, unresampled = _resampled(*after, best.revised, listeners)
    privacy = privacy_spent(job, algorithm, federation)
    disclosed, notes = _disclosed(federation, job.run_id, session.notes)
    return RunResult(
        **vars(job.description) | {"ended": datetime.now().astimezone().date().isoformat()},
        schema=replace(session.schema, knowledge=job.knowledge),
        structure=gate.structure(scored.structure, exact.intensities),
        truth=truth,
        outcome=last.outcome or "out of rounds",
        lost=last.lost,
        rounds=tuple(rows),
        metrics=scored.metrics
        | gate.measures(
            series_metrics(model, scored.structure) if session.schema.kind == "time-series" else refit_errors(fitted)
        )
        | (_totals(last, rows, seconds) | {"parameter_bytes": model.bytes_sent} | _metrics(tuned, found_targets))
        | gate.measures(diagnosed.metrics | checked.metrics | scores.metrics(session.schema.rows))
        | gate.measures(posterior_metrics(sampled))
        | (gate.measures(job.clusters.metrics) if job.clusters else {})
        | ({"survival_bytes": sum(one.bytes_sent for one in outcomes)} if outcomes else {})
        | (job.imputation_cost.metrics | confidence_metrics(edge_confidence, job) | privacy_metrics(privacy, job)),
        local_structures=scored.local_structures,
        silo_scores=scored.silo_scores,
        averaged=scored.averaged,
        refit=fitted.refit if fitted else {},
        parameters=model,
        diagnosed=replace(diagnosed, sums=None),
        fit=checked,
        edge_figures=figures,
        held_out=scores,
        tuning=rounded(tuned, Kind.LIKELIHOOD),
        found_targets=rounded(found_targets),
        basis=(
            *_basis(job, session.schema, algorithm, last.server, scored.structure, found_targets),
            *(one.basis for one in outcomes if one.node),
        ),
        privacy=privacy,
        secure=algorithm.is_masked(session.schema, requested=job.settings.secure),
        confidence=edge_confidence,
        unresampled=unresampled,
        graph_posterior=sampled,
        survival=outcomes,
        notes=notes,
        not_identified=job.pairs_apart(session.schema),
        disclosed=disclosed,
    )


def _without_survival(job: Job, schema: Schema) -> Job:
    """The job as its learner sees it: with a truth that has no survival outcomes."""
    d = len(schema.variables)
    own = {silo: weights[:d, :d] for silo, weights in job.silo_weights.items()}
    return replace(job, truth=job.truth and job.truth.among(schema.variables), silo_weights=own)


def _disclosed(
    federation: Federation, run: str, notes: tuple[str, ...]
) -> tuple[Mapping[str, tuple[Disclosed, ...]], tuple[str, ...]]:
    """The disclosure statements of the silos, and the notes; a silo without one does not cost the result."""
    try:
        return federation.releases(run), notes
    except BadInput as error:
        return {}, (*notes, f"no disclosure statement: {error}")


def _diagnosed(job: Job, session: Session, algorithm: Algorithm, last: Round[Any]) -> Continued:
    """The run with its diagnosis.

    If `auto` chose the learner and the diagnosis suggests another model, the run is continued with this model.
    """
    first = LearnedGraph(job, last, algorithm.structure(last.server))
    diagnosed = unless_refused(lambda: diagnose(job, session, algorithm, last, first.structure), not_diagnosed)
    if job.settings.algorithm != AUTO:
        return Continued(job, algorithm, last, diagnosed)
    best = continued(job, session, algorithm, last, diagnosed)
    final = LearnedGraph(best.job, best.last, best.algorithm.structure(best.last.server))
    return replace(best, diagnosed=redescribed(best.diagnosed, session.schema, first, final))


def _resampled(
    job: Job,
    session: Session,
    algorithm: Algorithm,
    last: Round[Any],
    structure: Structure,
    revised: Callable[[Structure], Structure],
    listeners: Iterable[Listener],
) -> tuple[Job, Confidence | None, str]:
    """The job with its number of resamples, the confidence in the edges, and why it has none although it should.

    Resamples that a policy refuses are left out, and so are resamples by default that fail, because the graph is
    already learned.
    """
    job = with_resamples(job, algorithm, last, session.schema, structure)

    def report(running: int, exchanges: int) -> None:
        for listener in _step_listeners(listeners):
            listener.resampled(job, running, exchanges)

    try:
        found = confidence(job, session, last, structure, revised, report)
    except BadInput as error:
        if job.settings.bootstrap is None:
            return replace(job, resamples=0), None, str(error)
        if isinstance(error, NotAllowed):
            return job, None, str(error)
        raise
    lost = job.resamples and found is None
    return job, found, "a silo was lost before the resamples ended" if lost else ""


def _prepared(job: Job, session: Session) -> tuple[Job, Session, FoundTargets | None, Tuning | None]:
    """The job and the session with the results of exchanges before the rounds, and two of these results.

    The exchanges find units, lags, the imputation model, targets of experiments and tuned settings. The targets and the
    tuning are also returned by themselves; each is None if it was not requested.
    """
    job, session = with_clusters(with_lags(with_units(job, session), session), session)
    job = with_imputation_model(job, session)
    job, session, targets = with_found_targets(job, session)
    job, tuned = with_tuning(job, session)
    return job, session, targets, tuned


def _metrics(*found: Tuning | FoundTargets | None) -> dict[str, MetricValue]:
    """The metrics of the results of exchanges before the rounds."""
    return {name: value for one in found if one for name, value in one.metrics.items()}


def _basis(
    job: Job,
    schema: Schema,
    algorithm: Algorithm,
    server: Any,
    structure: Structure,
    targets: FoundTargets | None,
) -> tuple[str, ...]:
    """Sentences on found targets, the assumptions behind directions, and the treatment of numbers and empty cells."""
    assumptions = algorithm.basis(server) or registry.direction_assumptions(job.spec, structure)
    lines = transform_lines(schema)
    scales = f"Each silo transforms its numbers ({lines}): weights and parameters are on that scale." if lines else ""
    first = targets.lines if targets else ()
    clusters = job.clusters.summary if job.clusters else ""
    return (*first, *assumptions, *(line for line in (scales, job.imputation_cost.summary, clusters) if line))


def _step_listeners(listeners: Iterable[object]) -> list[StepListener]:
    return [one for one in listeners if isinstance(one, StepListener)]


def _scored(
    job: Job, session: Session, algorithm: Algorithm, server: Any, outcomes: tuple[SurvivalOutcome, ...]
) -> tuple[Scored, Structure | None]:
    """The scores of the structure in the final state `server`, and the true graph with which it was compared."""
    schema, learned = session.schema, algorithm.structure
    if outcomes:
        arcs = [(one.name, other) for one in outcomes for other in schema.nodes if other != one.name]
        known = replace(job.knowledge, forbidden=tuple(dict.fromkeys((*job.knowledge.forbidden, *arcs))))
        job = replace(job, knowledge=known)  # an outcome is a sink of the true graph, too
        schema = replace(schema, variables=schema.nodes, survival={})
        algorithm = replace(algorithm, structure=lambda state: with_survival(learned(state), outcomes))
    compared = comparable_truth(job, algorithm.structure(server), schema)
    scored: Scored = session.evaluate(lambda: score_run(algorithm, server, registry.entry(job.spec.name), compared))
    return scored, compared.truth


def _run_rounds(
    job: Job,
    algorithm: Algorithm,
    rounds: Iterator[Round[Any]],
    gate: PublicationGate,
    listeners: Iterable[Listener],
    resumed: Resumed | None,
) -> tuple[Round[Any], list[dict[str, float]], float]:
    """Run `rounds` and call the listeners after each new round, with what is published of it.

    Returns the last round, the rows of `rounds.csv`, and the duration in seconds.
    """
    rows = list(resumed.rows if resumed else ())
    last: Round[Any] | None = None
    before, start = len(rows), time.perf_counter()
    for last in rounds:
        if last.number > len(rows):
            rows.append(gate.measures(rounds_row(algorithm, last)))
            intensities = getattr(last.server, "intensities", None)
            structure = gate.structure(algorithm.structure(last.server), intensities)
            mean = (time.perf_counter() - start) / (len(rows) - before)
            progress = Progress(job, algorithm.max_rounds, last, rows[-1], tuple(rows), structure, mean)
            for listener in listeners:
                listener(progress)
        raise_if_stopped()
    assert last is not None
    if last.outcome == "cancelled" and not rows:
        raise RunCancelled
    return last, rows, time.perf_counter() - start + (resumed.seconds if resumed else 0.0)


def _limits(job: Job, resumed: Resumed | None) -> Limits:
    """The remaining time and bytes of the rounds."""
    seconds, megabytes = job.settings.time_limit, job.settings.megabytes
    sent = sum(row["bytes_up"] + row["bytes_down"] for row in resumed.rows) if resumed else 0
    return Limits(
        math.inf if seconds is None else time.monotonic() + seconds - (resumed.seconds if resumed else 0.0),
        math.inf if megabytes is None else 1e6 * megabytes - sent,
    )


def _rounds(
    algorithm: Algorithm, federation: Federation, resumed: Resumed | None, limits: Limits
) -> Iterator[Round[Any]]:
    """Run the rounds from the start or the last checkpoint; a run whose rounds had ended yields only its last state."""
    if resumed is None:
        yield from rounds(algorithm, federation, limits=limits)
    elif algorithm.converged(resumed.server):
        yield Round(resumed.number, resumed.server, Traffic(), "converged")
    elif resumed.number >= algorithm.max_rounds:
        yield Round(resumed.number, resumed.server, Traffic(), "out of rounds")
    else:
        yield from rounds(algorithm, federation, (resumed.number, resumed.server), limits)


def rounds_row(algorithm: Algorithm, finished: Round[Any]) -> dict[str, float]:
    """The row of `rounds.csv` for a finished round: measures and bytes of that round alone."""
    traffic = finished.traffic
    return {
        "round": finished.number,
        **algorithm.measures(finished.server),
        "bytes_up": traffic.up,
        "bytes_down": traffic.down,
        "formula_bytes": traffic.formula,
    }


COUNTED = ("tests", "tests_left_out", "families")
"""measures that are cumulative over the rounds: the last value is that of the whole run"""


def _totals(last: Round[Any], rows: list[dict[str, float]], seconds: float) -> dict[str, Any]:
    """The metrics of the whole run that do not depend on the truth."""
    up, down, formula = (int(sum(row[key] for row in rows)) for key in ("bytes_up", "bytes_down", "formula_bytes"))
    return {
        "rounds": last.number,
        "converged": last.outcome == "converged",
        "outcome": last.outcome,
        "seconds": round(seconds, 3),
        "bytes_up": up,
        "bytes_down": down,
        "formula_megabytes": formula / 1e6,
        **{name: int(rows[-1][name]) for name in COUNTED if rows and name in rows[-1]},
    }


SEARCH_LEVEL = "conditioning_set_size"
"""a measure that only searches by independence tests have"""
OPEN_ENDED = 1000
"""if an algorithm allows at least this number of rounds, the length of its runs is not predictable"""


def progress_text(progress: Progress) -> str:
    """The measures of a round, the bytes so far and, if it is long, the remaining time, as short text."""
    if SEARCH_LEVEL in progress.row:
        return search_text(progress)
    excluded = ("round", "bytes_up", "bytes_down", "formula_bytes")
    measures = [f"{key} {_short(value)}" for key, value in progress.row.items() if key not in excluded]
    left = time_left(progress)
    return "  ".join([*measures, format_bytes(bytes_so_far(progress)), *[left] * bool(left)])


MIN_SECONDS_LEFT = 10.0
"""minimum remaining time that is shown"""


def time_left(progress: Progress) -> str:
    """The time until the last allowed round at the mean duration of a round; most runs converge earlier.

    The text is empty if this time is short, or if the run has no predictable length.
    """
    left = (progress.max_rounds - progress.round.number) * progress.round_seconds
    if progress.round.outcome or progress.max_rounds >= OPEN_ENDED or left < MIN_SECONDS_LEFT:
        return ""
    seconds, unit = next(one for one in ((3600, "h"), (60, "min"), (1, "s")) if left >= 2 * one[0])
    return f"up to {left / seconds:.0f} {unit} left"


def _short(value: float) -> str:
    """`value` as text: with all digits if it is a whole number, otherwise with three significant digits."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"


def search_text(progress: Progress) -> str:
    """The progress of a search by independence tests after this exchange."""
    row = progress.row
    left_out = f" ({row['tests_left_out']:,.0f} left out)" if row["tests_left_out"] else ""
    size = "search over" if progress.round.outcome else f"next, conditioning sets of {row[SEARCH_LEVEL]:.0f}"
    transferred = format_bytes(bytes_so_far(progress))
    return f"{row['tests']:,.0f} tests{left_out}, {row['edges']:.0f} edges left, {transferred}; {size}"


def outcome_text(result: RunResult) -> str:
    """The outcome of a run, its number of rounds, and the lost silos."""
    lost = f" (lost: {', '.join(result.lost)})" if result.lost else ""
    return f"{result.outcome} after {pluralize(len(result.rounds), 'round')}{lost}"


def bytes_so_far(progress: Progress) -> float:
    """The bytes sent so far, in both directions."""
    return sum(row["bytes_up"] + row["bytes_down"] for row in progress.rows)
