"""A job, which is one run of `learn` with parsed and typed settings, and the additional exchanges of a run.

A `Session` connects a job to its silos and performs the steps of the coordinator; each engine provides a session.
`extra_exchange` runs a further exchange over the same silos, before or after the rounds. If an owner's policy refuses
an exchange after the rounds, the run loses only the result of that exchange (`unless_refused`).
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.adjustment import Adjustment
from fedbnsl.algorithms.core.experiments import Targets
from fedbnsl.algorithms.core.knowledge import NO_KNOWLEDGE, Arc, Knowledge
from fedbnsl.algorithms.core.protocol import Algorithm, Federation, Round, Traffic, rounds
from fedbnsl.algorithms.core.schema import NO_IMPUTATION, FloatArray, ImputationModel, Schema
from fedbnsl.algorithms.core.spec import SERIES, AlgorithmSpec
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.privacy.ledger import Budget
from fedbnsl.data.folder.about import Declared
from fedbnsl.tasks.silo.policy import NotAllowed
from fedbnsl.tracking.publication import PublicationGate
from fedbnsl.tracking.result import RunDescription

from ..options.learn import LearnSettings


@dataclass(frozen=True)
class ImputationCost:
    """The cost of the imputation model of a run: exchanges and bytes, with a sentence that describes the model."""

    summary: str = ""
    exchanges: int = 0
    bytes_sent: int = 0

    @property
    def metrics(self) -> dict[str, int]:
        """The cost as metrics of the run."""
        return {"filling_exchanges": self.exchanges, "filling_bytes": self.bytes_sent}


NO_IMPUTATION_COST = ImputationCost()


@dataclass(frozen=True)
class Clusters:
    """What the clusters of rows mean for a run: the design effect, and the cost of the exchange that found it."""

    column: str
    design_effect: float
    rows: int
    bytes_sent: int

    @property
    def independent_share(self) -> float:
        """The share of the rows that count as independent."""
        return 1 / self.design_effect

    @property
    def summary(self) -> str:
        """A sentence on the effective number of rows."""
        effective = float(f"{self.rows / self.design_effect:.2g}")
        return (
            f"Rows of one cluster ({self.column}) depend on each other: with a design effect of "
            f"{self.design_effect:.2f}, {self.rows:,} rows have as much evidence as about {effective:,.0f} independent "
            "ones, which scores, tests and intervals count."
        )

    @property
    def metrics(self) -> dict[str, float]:
        """The design effect and the bytes, as metrics of the run."""
        return {"design_effect": self.design_effect, "cluster_bytes": self.bytes_sent}


@dataclass(frozen=True)
class Job:
    """One execution of `learn`: its options, data, algorithm and name."""

    settings: LearnSettings
    """the options of the run and its data set, with a name for the run"""
    run_id: str
    engine: str
    spec: AlgorithmSpec
    """the algorithm with its settings: the requested one, or the choice of `auto`"""
    about: dict[str, Any] = field(default_factory=dict)
    truth: Structure | None = None
    knowledge: Knowledge = NO_KNOWLEDGE
    """background knowledge on the graph"""
    units: tuple[float, ...] = ()
    """the unit of each column in masked sums; empty without such sums"""
    imputation_model: ImputationModel = NO_IMPUTATION
    """the model of the empty cells"""
    imputation_cost: ImputationCost = NO_IMPUTATION_COST
    """the cost of the imputation model"""
    probed_column: str = ""
    """the column whose rows with the same id an exchange compares, although it names no clusters in the run"""
    clusters: Clusters | None = None
    """the design effect of the clusters of rows; None if no column names clusters"""
    silo_weights: dict[str, FloatArray] = field(default_factory=dict)
    """each silo's own true weights, for synthetic data that have them"""
    targets: dict[str, Targets] = field(default_factory=dict)
    """the targets of experiments that an exchange found; empty if the targets were given"""
    compares_conditions: bool = False
    """whether this is the exchange that finds the targets"""
    season: int = 0
    """the period of the season that `auto` found in time series, in rows; 0 if it found none"""
    resamples: int = 0
    """number of resamples to learn from after the run"""
    reads_survival: bool = False
    """whether this is an exchange on survival outcomes, for which silos also read the columns of these outcomes"""
    at_sums: tuple[str, ...] = ()
    """silos whose owners allow only masked sums of moments and counts"""

    @property
    def dataset(self) -> str:
        """The name of the data set."""
        return self.settings.dataset

    @property
    def budget(self) -> Budget:
        """The privacy budget that all runs on a silo's rows share."""
        return Budget(self.settings.budget or math.inf, self.settings.budget_delta or 0.0)

    @property
    def independent_share(self) -> float:
        """The share of rows that count as independent: given their clusters, and the rows before them."""
        given_order = float(getattr(self.spec.settings, "independent_share", 1.0))
        return given_order * (1.0 if self.clusters is None else self.clusters.independent_share)

    @property
    def description(self) -> RunDescription:
        """The part of the job that is copied into its result.

        In a private run, this part omits the checksums of the silos' files. With the checksums, a reader who knows all
        rows but one could confirm guesses of the last row.
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
            bootstrap=self.resamples,
            register=self.settings.register_as or "",
            small_cells=None if private else self.settings.small_cells,
        )

    def gate(self, schema: Schema) -> PublicationGate:
        """The publication gate of the run on data with this `schema`."""
        lags = getattr(self.spec.settings, "lags", 0)
        windows = schema.windows(lags) if schema.kind in SERIES and isinstance(lags, int) else schema.rows
        return PublicationGate(self.description.small_cells, sum(windows.values()))

    def run_schema(self, schema: Schema) -> Schema:
        """The public `schema` with the run's units, imputation model and background knowledge.

        Arcs between variables that no row observes together are forbidden, because they are not identified.
        """
        if self.reads_survival:
            schema = schema.with_survival_columns()
        own_arcs = self.knowledge.among(schema.variables) if schema.survival or self.reads_survival else self.knowledge
        apart = [arc for one in self.pairs_apart(schema) for arc in (one, one[::-1])]
        forbidden = (*own_arcs.forbidden, *(arc for arc in apart if arc not in own_arcs.forbidden))
        known = replace(own_arcs, forbidden=forbidden) if apart else own_arcs
        adjusted = schema.adjusted(self.adjustment)
        own = replace(adjusted, units=self.units, imputation_model=self.imputation_model, knowledge=known)
        own = own if self.clusters is None else replace(own, independent_share=self.clusters.independent_share)
        if not self.targets and not self.compares_conditions:
            return own
        return replace(own, targets=self.targets, compares_conditions=self.compares_conditions)

    def declaration(self, declared: Declared) -> Declared:
        """The declaration `declared` of the data, with the probed column, if there is one, as the names of clusters."""
        if not self.probed_column:
            return declared
        return replace(declared, reading=replace(declared.reading, cluster=self.probed_column))

    @property
    def adjustment(self) -> Adjustment:
        """The components that silos subtract from their time series."""
        settings = self.settings
        period = self.season if settings.deseasonalise is None else settings.deseasonalise
        return Adjustment(settings.detrend, period, settings.difference)

    def pairs_apart(self, schema: Schema) -> tuple[Arc, ...]:
        """The pairs of variables that no row observes together, except those with an arc that knowledge requires."""
        if not schema.empty and not len(self.imputation_model.apart):
            return ()
        apart = self.imputation_model.apart if len(self.imputation_model.apart) else schema.columns_apart
        pairs = [(schema.variables[i], schema.variables[j]) for i, j in np.argwhere(np.triu(apart, 1))]
        required = {frozenset(arc) for arc in self.knowledge.required}
        return tuple(pair for pair in pairs if frozenset(pair) not in required)

    @property
    def center(self) -> bool:
        """Whether the algorithm, and therefore also later exchanges, subtract each silo's own column means.

        Algorithms without a setting `center` always subtract them.
        """
        return bool(getattr(self.spec.settings, "center", True))

    @property
    def center_series(self) -> bool:
        """Whether the algorithm subtracts means from time series: its setting `center_series` or, without it, `center`.

        Algorithms without both settings do not subtract means from time series.
        """
        settings = self.spec.settings
        return bool(getattr(settings, "center_series", getattr(settings, "center", False)))


T = TypeVar("T")


def unless_refused(request: Callable[[], T], otherwise: Callable[[str], T]) -> T:
    """The result of `request`; if an owner's policy refuses it, the result of `otherwise` for the refusal's text."""
    try:
        return request()
    except NotAllowed as refusal:
        return otherwise(str(refusal))


Work = Callable[[], Any]


@dataclass(frozen=True)
class Session:
    """An engine that is ready to run, with connected silos."""

    schema: Schema
    connect: Callable[[Job, AlgorithmSpec, str], Federation]
    """(job, algorithm, run id) -> a federation whose silos run that algorithm, masked if the job requires it"""
    wrap: Callable[[Algorithm, Federation], Algorithm] = lambda algorithm, federation: algorithm
    """(algorithm, federation) -> the algorithm with the coordinator's steps wrapped, such as in tasks of Prefect"""
    evaluate: Callable[[Work], Any] = lambda work: work()
    """a function that calls the scoring of the result, for instance as a task of Prefect"""
    notes: tuple[str, ...] = ()
    """notes on how the silos' tables were read"""
    announce: Callable[[str], None] = lambda step: None
    """a function that is called with what a run does next, in words, if it is none of its rounds"""


STEPS = {
    "bootstrap": "resampling",
    "clusters": "comparing rows of one cluster",
    "curved": "trying curved effects",
    "deseasonalised": "learning from the series without their season",
    "diagnosis": "diagnosing the data",
    "em": "estimating the distribution of empty cells",
    "errors": "checking errors",
    "filling": "filling empty cells",
    "fit": "counting tables for the fit",
    "forecasts": "checking forecasts",
    "halves": "comparing settings",
    "held-out": "scoring held-out rows",
    "labels": "checking edges into labels",
    "lags": "choosing the lags",
    "missingness": "examining why cells are empty",
    "own": "trying weights of the silos' own",
    "parameters": "estimating parameters",
    "posterior": "summing what graphs are scored by",
    "refit": "refitting weights",
    "rows": "directing edges again",
    "survival": "fitting survival outcomes",
    "targets": "looking for changed mechanisms",
    "units": "finding the units of columns",
    "whole": "comparing settings",
}
"""what a run does in the exchanges whose names begin with these words"""


@dataclass(frozen=True)
class ExchangeResult:
    """The last round of an exchange, and the traffic of all its rounds."""

    last: Round[Any]
    traffic: Traffic

    @property
    def lost(self) -> bool:
        """Whether too few silos replied to finish the exchange."""
        return bool(self.last.broken_off)

    def of_enough_silos(self, when: str) -> "ExchangeResult":
        """The result itself; raises `SilosUnavailable` if too few silos replied (see `Round.require_silos`)."""
        self.last.require_silos(when)
        return self

    @property
    def bytes_sent(self) -> int:
        """The number of bytes in both directions."""
        return self.traffic.total


def extra_exchange(
    job: Job,
    session: Session,
    spec: AlgorithmSpec,
    name: str,
    start: Any = None,
    on_round: Callable[[Round[Any]], None] = lambda finished: None,
) -> ExchangeResult:
    """Run `spec` over the silos of `job` under the run id `<run id>-<name>`, from the server's state `start` if given.

    The exchange is masked if the option `secure` of the job or `spec` requires it. If owners allow only masked sums of
    moments and counts, it leaves out what they do not allow. `on_round` receives every round.
    """
    session.announce(STEPS.get(name, STEPS.get(name.partition("-")[0], name)))
    spec = registry.at_sums(spec) if job.at_sums else spec
    federation = session.connect(job, spec, f"{job.run_id}-{name}")
    algorithm, traffic = session.wrap(registry.build(spec), federation), Traffic()
    for last in rounds(algorithm, federation, None if start is None else (0, start)):
        traffic += last.traffic
        on_round(last)
    return ExchangeResult(last, traffic)
