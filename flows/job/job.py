"""A job: one run of `learn`, parsed and typed, before anything has begun; and the exchanges that belong to it.

A `Session` is how a job reaches its silos and how the coordinator performs its steps: each engine provides one.
`extra_exchange` runs a further exchange over the same silos, before or after the rounds. If an owner's policy refuses
an exchange after the rounds, the run loses that part only (`unless_refused`).
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import NO_KNOWLEDGE, Knowledge
from fedbnsl.algorithms.core.protocol import Federation, Round, Traffic, rounds
from fedbnsl.algorithms.core.schema import NO_IMPUTATION, FloatArray, ImputationModel, Schema
from fedbnsl.algorithms.core.spec import Algorithm, AlgorithmSpec
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.privacy.ledger import Budget
from fedbnsl.tasks.silo.policy import NotAllowed
from fedbnsl.tracking.result import RunDescription

from ..options.learn import LearnSettings


@dataclass(frozen=True)
class ImputationCost:
    """How silos came to know of their empty cells: in words, in how many exchanges, and the bytes these sent."""

    said: str = ""
    exchanges: int = 0
    bytes_sent: int = 0

    @property
    def metrics(self) -> dict[str, int]:
        """As figures of a run."""
        return {"filling_exchanges": self.exchanges, "filling_bytes": self.bytes_sent}


NO_IMPUTATION_COST = ImputationCost()


@dataclass(frozen=True)
class Job:
    """What is to be learned, on which data, under which name."""

    settings: LearnSettings
    """the options of the run and its data set, named"""
    run_id: str
    engine: str
    spec: AlgorithmSpec
    """the algorithm with its settings: the one requested, or the one that `auto` has become"""
    about: dict[str, Any] = field(default_factory=dict)
    truth: Structure | None = None
    knowledge: Knowledge = NO_KNOWLEDGE
    """of the graph, beforehand"""
    units: tuple[float, ...] = ()
    """of each column, for masked sums; empty where none were asked for"""
    imputation_model: ImputationModel = NO_IMPUTATION
    """what silos are to know of their empty cells"""
    filled: ImputationCost = NO_IMPUTATION_COST
    """how that was found out"""
    silo_weights: dict[str, FloatArray] = field(default_factory=dict)
    """each silo's own true weights, for data made with such"""

    @property
    def dataset(self) -> str:
        """The name of the data set: that of its folder."""
        return Path(self.settings.data).absolute().name

    @property
    def budget(self) -> Budget:
        """The privacy budget that all runs on a silo's rows share."""
        return Budget(self.settings.budget or math.inf, self.settings.budget_delta or 0.0)

    @property
    def description(self) -> RunDescription:
        """The part of the job that its result repeats; of a private run without checksums of the silos' files.

        Whoever knows all rows but one could test guesses of the last one with them.
        """
        private = registry.build(self.spec).private is not None
        return RunDescription(
            name=self.settings.name or "",
            algorithm=self.spec.name,
            params=asdict(self.spec.settings),
            seed=self.settings.seed,
            engine=self.engine,
            dataset=self.dataset,
            about={key: value for key, value in self.about.items() if not (private and key == "checksums")},
            asked=self.settings.algorithm,
            bootstrap=self.settings.bootstrap,
        )

    def known(self, schema: Schema) -> Schema:
        """The public `schema` with what this run knows of the graph, the units and the empty cells."""
        return replace(schema, units=self.units, imputation_model=self.imputation_model, knowledge=self.knowledge)

    @property
    def center(self) -> bool:
        """Whether the algorithm subtracts each silo's own column means: what follows the rounds then does so, too.

        Those without a setting of that name always do.
        """
        return bool(getattr(self.spec.settings, "center", True))

    @property
    def center_series(self) -> bool:
        """The same where the rows are time series, for which a setting of that name may ask instead."""
        settings = self.spec.settings
        return bool(getattr(settings, "center_series", getattr(settings, "center", False)))


T = TypeVar("T")


def unless_refused(ask: Callable[[], T], otherwise: Callable[[str], T]) -> T:
    """Return what `ask` gives, or, if an owner's policy refuses it, what is to be said `otherwise` of the refusal."""
    try:
        return ask()
    except NotAllowed as refusal:
        return otherwise(str(refusal))


Work = Callable[[], Any]


@dataclass(frozen=True)
class Session:
    """An engine ready to run: its silos answer, and nothing has been asked of them yet."""

    schema: Schema
    connect: Callable[[Job, AlgorithmSpec, str], Federation]
    """(job, what to run, run id) -> a federation whose silos run that, as secure as the job asks"""
    wrap: Callable[[Algorithm, Federation], Algorithm] = lambda algorithm, federation: algorithm
    """how the coordinator carries out its steps"""
    evaluate: Callable[[Work], Any] = lambda work: work()
    """how it carries out the evaluation"""
    notes: tuple[str, ...] = ()
    """what is to be known about how the silos' tables were read"""


@dataclass(frozen=True)
class ExchangeResult:
    """The last round of a step, and what all its rounds sent."""

    last: Round[Any]
    traffic: Traffic

    @property
    def lost(self) -> bool:
        """Whether too few silos answered for the step to end."""
        return self.last.outcome == "silo lost"

    @property
    def bytes_sent(self) -> int:
        """Bytes in both directions."""
        return self.traffic.up + self.traffic.down


def extra_exchange(
    job: Job,
    session: Session,
    spec: AlgorithmSpec,
    name: str,
    start: Any = None,
    tell: Callable[[Round[Any]], None] = lambda finished: None,
) -> ExchangeResult:
    """Run `spec` over the silos of `job` under the run id `<run id>-<name>`, from the server's state `start` if given.

    It is masked if the run is, or if `spec` needs it. `tell` hears every round.
    """
    federation = session.connect(job, spec, f"{job.run_id}-{name}")
    algorithm, traffic = session.wrap(registry.build(spec), federation), Traffic()
    for last in rounds(algorithm, federation, None if start is None else (0, start)):
        traffic += last.traffic
        tell(last)
    return ExchangeResult(last, traffic)
