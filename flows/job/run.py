"""One execution of `learn` with either engine: run the rounds, follow them, score the result. Knows nothing of Prefect.

An engine is a `Session`: the public schema, a way to get a federation for an algorithm, and how the coordinator's steps
are carried out (plainly, or as Prefect tasks).
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, Federation, FloatArray, Round, Schema, Traffic, rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.secure import masked
from fedbnsl.tracking.result import RunResult

from .parameters import parameters
from .privacy import figures, privacy_spent
from .refit import errors, may_refit, refit
from .score import Scored, check_truth, score

Algorithm = FederatedAlgorithm[Any, Any, Any, Any]
Work = Callable[[], Any]


@dataclass(frozen=True)
class Job:
    """What is to be learned, on which data, under which name; `params` are those the user gave."""

    name: str
    run_id: str
    algorithm: str
    params: dict[str, Any]
    seed: int
    engine: str
    dataset: str
    about: dict[str, Any] = field(default_factory=dict)
    truth: Structure | None = None
    silo_weights: dict[str, FloatArray] = field(default_factory=dict)
    """each silo's own true weights, for data made with such"""
    allow_cyclic_truth: bool = False
    secure: bool = False
    budget: float = math.inf
    """the most ε that all runs on a silo's rows may spend together"""
    parameters: bool = True
    """whether to learn the parameters of the structure, too"""
    smoothing: float = 1.0
    """equivalent sample size of the prior of probability tables"""


@dataclass(frozen=True)
class Session:
    """An engine ready to run: its silos answer, and nothing has been asked of them yet."""

    schema: Schema
    connect: Callable[[Job, str, dict[str, Any], str], Federation]
    """(job, algorithm, params, run id) -> a federation whose silos run that algorithm, as secure as the job asks"""
    wrap: Callable[[Algorithm, Federation], Algorithm] = lambda algorithm, federation: algorithm
    """how the coordinator carries out its steps"""
    evaluate: Callable[[Work], Any] = lambda work: work()
    """how it carries out the evaluation"""


@dataclass(frozen=True)
class Progress:
    """What a listener hears after every round; `row` is the row of `rounds.csv`."""

    job: Job
    max_rounds: int
    round: Round[Any]
    row: dict[str, float]
    rows: tuple[dict[str, float], ...]
    structure: Structure


Listener = Callable[[Progress], None]


@dataclass(frozen=True)
class Resumed:
    """Where an interrupted run stood: its last finished round, the server's state, the rows until then."""

    number: int
    server: Any
    rows: tuple[dict[str, float], ...]
    seconds: float = 0.0


def run(job: Job, session: Session, listeners: Iterable[Listener] = (), resumed: Resumed | None = None) -> RunResult:
    """Run `job` to its end and return the result; a silo that is lost is a value in it.

    Raises `BadInput` before the first round for parameters, data or a truth the algorithm cannot use.
    """
    config = check(job, session.schema)
    algorithm = registry.build(job.algorithm, config)
    federation = session.connect(job, job.algorithm, job.params, job.run_id)
    start = time.perf_counter() - (resumed.seconds if resumed else 0.0)
    rows = list(resumed.rows if resumed else ())
    last: Round[Any] | None = None
    for last in _rounds(session.wrap(algorithm, federation), federation, resumed):
        if last.number > len(rows):
            rows.append(row_of(algorithm, last))
            structure = algorithm.structure(last.server)
            progress = Progress(job, algorithm.max_rounds, last, rows[-1], tuple(rows), structure)
            for listener in listeners:
                listener(progress)
    assert last is not None
    seconds = time.perf_counter() - start
    scored: Scored = session.evaluate(lambda: score(algorithm, last.server, registry.entry(job.algorithm), job))
    fitted = None
    if may_refit(algorithm, job, scored.structure) and not last.lost:
        fitted = refit(job, session, scored.structure, getattr(config, "center", False))
    model = parameters(job, session, algorithm, last, scored.structure)
    privacy = privacy_spent(job, algorithm, federation)
    return RunResult(
        name=job.name,
        algorithm=job.algorithm,
        params=asdict(config),
        seed=job.seed,
        engine=job.engine,
        dataset=job.dataset,
        about=job.about,
        schema=session.schema,
        structure=scored.structure,
        truth=job.truth,
        outcome=last.outcome or "out of rounds",
        lost=last.lost,
        rounds=tuple(rows),
        metrics=scored.metrics
        | errors(fitted)
        | _totals(last, rows, seconds)
        | {"parameter_bytes": model.bytes_sent}
        | figures(privacy, job),
        local_structures=scored.local_structures,
        refit=fitted.refit if fitted else {},
        parameters=model,
        privacy=privacy,
        secure=masked.applies(algorithm, session.schema, asked=job.secure),
    )


def _rounds(algorithm: Algorithm, federation: Federation, resumed: Resumed | None) -> Iterator[Round[Any]]:
    """Run the rounds from the start or from where they stood; a run that had ended only gives its last state again."""
    if resumed is None:
        yield from rounds(algorithm, federation)
    elif algorithm.converged(resumed.server):
        yield Round(resumed.number, resumed.server, Traffic(), "converged")
    elif resumed.number >= algorithm.max_rounds:
        yield Round(resumed.number, resumed.server, Traffic(), "out of rounds")
    else:
        yield from rounds(algorithm, federation, (resumed.number, resumed.server))


def check(job: Job, schema: Schema) -> Any:
    """Return the settings of the algorithm; raises `BadInput` for what it cannot use."""
    entry = registry.entry(job.algorithm)
    config = registry.configure(job.algorithm, job.params)
    if schema.kind not in entry.kinds:
        raise BadInput(f"{job.algorithm} learns from {' or '.join(entry.kinds)} data: {job.dataset} is {schema.kind}")
    if entry.needs_truth and job.truth is None:
        raise BadInput(f"{job.algorithm} picks by the truth, and {job.dataset} has no truth.csv")
    algorithm = registry.build(job.algorithm, config)
    if entry.pooled and job.secure:
        raise BadInput(f"--secure: {job.algorithm} needs all rows in one place, so there is nothing to mask")
    masked.applies(algorithm, schema, asked=job.secure)
    if algorithm.private is not None:
        algorithm.private.promise(schema)
        _check_levels_public(job, schema)
    elif job.budget < math.inf:
        raise BadInput(f"--budget bounds the ε of private algorithms: {job.algorithm} as asked for is not private")
    if job.truth is not None:
        check_truth(job.truth, job.allow_cyclic_truth)
    return config


def _check_levels_public(job: Job, schema: Schema) -> None:
    """Raise `BadInput` for levels read off the rows: a label that one record alone has would tell of it, ε or not."""
    for name in sorted(set(schema.levels) - set(job.about.get("levels") or {})):
        raise BadInput(
            f"{job.dataset}: column '{name}': its levels are those that occur in the rows, which no ε covers: "
            "declare them in about.json for a private run"
        )


def row_of(algorithm: Algorithm, finished: Round[Any]) -> dict[str, float]:
    """Return the row of `rounds.csv` for a finished round: measures and bytes of that round alone."""
    traffic = finished.traffic
    return {
        "round": finished.number,
        **algorithm.measures(finished.server),
        "bytes_up": traffic.up,
        "bytes_down": traffic.down,
        "formula_bytes": traffic.formula,
    }


COUNTED = ("tests", "tests_left_out", "families")
"""measures of a round that count from the first one on: the last are those of the run"""


def _totals(last: Round[Any], rows: list[dict[str, float]], seconds: float) -> dict[str, Any]:
    """Return the figures of the whole run that do not depend on the truth."""
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
