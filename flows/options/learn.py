"""The options of `learn`, from which the command line, the Python signature and Prefect's form are generated."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator, ConfigDict, Field, field_validator

from fedbnsl.algorithms.core.settings import CountOrNone, Positive
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.defaults import Dates, DifferentColumns, Missing, Outliers, SmallSilos

from .as_text import Arcs, CommaSeparated, KnowledgeFile, Names, TargetsFile, Tiers
from .model import LARGEST_SEED, OnCommandLine, Options, in_utf8, validate
from .parameters import list_settings

if TYPE_CHECKING:
    from fedbnsl.algorithms.core.spec import AlgorithmSpec


Value = bool | int | float | str
SmallCells = Literal["blank", "keep"]
TuneBy = Literal["auto", "held-out", "stars"]


def _list_algorithms(schema: dict[str, Any]) -> None:
    # Imported here because the registry imports numpy, which the command line's help does not need.
    from fedbnsl.algorithms.choose import AUTO
    from fedbnsl.algorithms.registry import ALGORITHMS

    schema["enum"] = [AUTO, *sorted(ALGORITHMS)]


Algorithm = Annotated[
    str,
    Field(
        description="Algorithm, one of `fedbnsl algorithms`; auto chooses one that suits the data.",
        json_schema_extra=_list_algorithms,
    ),
    OnCommandLine(("--algorithm", "-a"), "NAME"),
]

Columns = tuple[str, ...]
Platform = Literal["flower", "nvflare", "vantage6"]
NO_DEFAULTS: Mapping[str, Any] = MappingProxyType({})
MIN_GRAPHS = 100
"""minimum number of graphs from the posterior, for probabilities with a standard error of at most 5 %"""
SPEC_FIELDS = {"algorithm", "params", "epsilon", "delta", "seed"}
"""the fields on which `LearnOptions.spec` depends"""


class LearnOptions(Options):
    """The options of learning for any data."""

    headings: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "algorithm": "Learner",
            "epsilon": "Privacy",
            "ignore": "Tables",
            "detrend": "Series and transforms",
            "targets": "Experiments",
            "knowledge": "Background knowledge",
            "parameters": "Results",
            "tune": "Tuning and limits",
            "seed": "Run",
            "federation": "Federation",
        }
    )

    algorithm: Algorithm = "auto"
    params: Annotated[dict[str, Value], OnCommandLine(("--param", "-p"), "KEY=VALUE")] = Field(
        title="Settings of the algorithm",
        examples=[{"rho1": 1000, "l1": 0.1}],
        json_schema_extra=list_settings,
        default_factory=dict,
    )
    """A setting of the algorithm; `fedbnsl algorithms NAME` lists them. Repeatable."""
    epsilon: Annotated[float | None, Gt(0), OnCommandLine(value="E")] = Field(default=None, title="ε")
    """Privacy budget ε of this run; see `fedbnsl privacy plan`."""
    delta: Annotated[float | None, Gt(0), Lt(1), OnCommandLine(value="D")] = Field(default=None, title="δ")
    """Privacy parameter δ; default: 1/n² with n rows in the smallest silo."""
    budget: Annotated[float | None, Gt(0), OnCommandLine(value="E")] = None
    """Maximum ε of all runs on the same rows together."""
    budget_delta: Annotated[float | None, Gt(0), Lt(1), OnCommandLine(value="D")] = Field(
        default=None, title="δ of the budget"
    )
    """δ of the budget, and the maximum δ of a run; default: 1/n² with each silo's own n rows."""
    secure: bool = Field(default=False, title="Secure aggregation")
    """Mask the silos' replies, so that the coordinator sees only their sum."""
    ignore: Annotated[Columns, CommaSeparated, OnCommandLine(value="COLUMNS")] = ()
    """Columns to exclude, separated by commas."""
    only: Annotated[Columns, CommaSeparated, OnCommandLine(value="COLUMNS")] = ()
    """Columns to learn from, separated by commas; all others are excluded."""
    by: Annotated[str | None, OnCommandLine(value="COLUMN")] = None
    """Column that names the silo of each row, if one file has the rows of all silos."""
    small_silos: SmallSilos = "leave-out"
    """With --by: what to do with rows whose silo has fewer than two rows or no name: leave them out (leave-out), or
    join them to one silo, 'others' (merge)."""
    missing: Missing = Field(default="model", title="Empty cells")
    """How to treat empty cells: estimate them by a model (model), drop rows with an empty cell (complete-rows), or
    refuse the data (refuse)."""
    columns: DifferentColumns = Field(default="same", title="Different columns")
    """How to join silos with different columns: refuse the data (same), keep every column, with empty cells at silos
    without it (union), or keep only the columns that every silo has (common)."""
    time: Annotated[Columns, CommaSeparated, OnCommandLine(value="COLUMNS")] = ()
    """Treat the rows as time series, ordered by this column of numbers, dates, quarters or months, or by the columns of
    their parts, such as year,quarter or year,month,day,hour."""
    dates: Dates = "set-aside"
    """How to treat columns of dates: exclude them (set-aside), or read them as days since the first date of all
    silos."""
    outliers: Outliers = "keep"
    """How to treat numbers that are far from the rest of their column, or unlikely given their row: keep them, or treat
    them as empty cells (set-aside)."""
    detrend: bool = False
    """Time series: each silo subtracts the linear trend of each of its series."""
    deseasonalise: Annotated[int | None, Ge(0), OnCommandLine(value="PERIOD")] = None
    """Time series: each silo subtracts the season of this period, in rows; 0: off; default: the one that auto finds."""
    difference: bool = False
    """Time series: learn from the differences of consecutive rows, for series with a unit root."""
    transform: Annotated[str, OnCommandLine(value="NAME|COLUMN=NAME")] = "none"
    """Transform of numbers inside each silo: normal-scores, log-ratio (shares of a whole), log, sqrt, bounded (the
    default where some numbers are far from all others) or none, also by column: 'size=log'."""
    targets: Annotated[TargetsFile, OnCommandLine(value="FILE|none|unknown")] = None
    """CSV file with columns silo, variable: the variables that an experiment has set in each silo; none: treat all data
    as observational; unknown: find the variables whose mechanisms have changed; default: the targets in about.json."""
    condition: Annotated[str | None, OnCommandLine(value="COLUMN")] = None
    """Column that names the condition of each row, for experiments within silos; targets are then given for each
    condition."""
    cluster: Annotated[str | None, OnCommandLine(value="COLUMN")] = None
    """Column of the cluster of each row, such as a patient: scores, tests and intervals then count effective rows."""
    knowledge: Annotated[KnowledgeFile, OnCommandLine(value="FILE")] = Field(default=None, title="Background knowledge")
    """CSV file of background knowledge with columns rule, source, target; rules: required, forbidden, no-parents,
    tier."""
    required_arcs: Annotated[Arcs, OnCommandLine(("--required",), "ARCS")] = None
    """Arcs that must be in the graph, such as 'A->B,B->C'."""
    forbidden_arcs: Annotated[Arcs, OnCommandLine(("--forbidden",), "ARCS")] = None
    """Arcs that must not be in the graph, such as 'B->A'."""
    tiers: Annotated[Tiers, OnCommandLine(value="TIERS")] = None
    """Causal order, such as 'age,sex<dose': no arc points to an earlier tier."""
    no_parents: Annotated[Names, OnCommandLine(value="NAMES")] = None
    """Variables that must have no parents, such as 'age,sex'."""
    parameters: bool = Field(default=True, title="Parameters of the structure")
    """Also estimate the parameters of the structure."""
    diagnose: bool = Field(default=True, title="Diagnoses")
    """Also look for violated assumptions and deviating silos."""
    smoothing: Annotated[Positive, OnCommandLine(value="ROWS")] = 1.0
    """Equivalent sample size of the Dirichlet prior of probability tables, in rows."""
    small_cells: SmallCells = "blank"
    """How published models treat counts of rows and events: hide 0, 1 and 2 and round larger counts (blank), or publish
    exact counts (keep), for models that stay inside the organisation."""
    bootstrap: Annotated[int | None, Ge(0), Le(10_000)] = Field(default=None, title="Resamples")
    """Number of resamples (random halves of each silo's rows), 2 or more, to estimate the confidence in each edge. 0:
    no resamples. Default: 30 if auto chose the learner, the run has at most two rounds, and resampling takes about 2
    seconds or less; 0 otherwise, and with an ε, with targets and in passes."""
    posterior: Annotated[int, Ge(0), Le(10_000)] = Field(default=0, title="Graphs from the posterior")
    """Number of graphs, 100 or more, to sample from their posterior given the data, for the probability of each edge,
    path and effect; for tables of numbers (BGe) or of labels (BDeu). 0: no graphs."""
    held_out: bool = Field(default=False, title="Held-out likelihood")
    """Also score each silo's rows by the model of the other silos, in two more exchanges; requires numbers without
    empty cells, and three silos or more."""
    allow_cyclic_truth: bool = Field(default=False, title="Allow a cyclic truth")
    """Compare with the true graph even if it has a directed cycle."""
    tune: Annotated[str, OnCommandLine(value="NAME=V,V")] = Field(default="", title="Candidates")
    """Candidate values of a setting, such as 'alpha=.01,.1'; semicolons separate several settings. The run uses the
    best candidate. (`fedbnsl tune` takes lists with -p instead.)"""
    tune_by: TuneBy = Field(default="auto", title="Tuned by")
    """Criterion for candidates: held-out (likelihood of the rows left out of a resample), stars (stability of the
    edges), or auto (held-out for numbers without empty cells, otherwise stars)."""
    time_limit: Annotated[float | None, Gt(0), OnCommandLine(value="SECONDS")] = None
    """Seconds after which the rounds end with the best graph so far; later steps take further time."""
    megabytes: Annotated[float | None, Gt(0), OnCommandLine(value="N")] = None
    """Maximum number of megabytes that the rounds send, in both directions together: after these, they end
    with the best graph so far. The first exchange always takes place."""
    seed: Annotated[CountOrNone, Le(LARGEST_SEED)] = 0
    """Random seed. Equal seeds give equal results, except with a time limit or private noise."""
    out: Annotated[str | None, AfterValidator(lambda given: given and in_utf8(given)), OnCommandLine(value="DIR")] = (
        Field(default=None, title="Output folder")
    )
    """New folder for the results; default: runs/<name>."""
    name: Annotated[str | None, OnCommandLine(value="NAME")] = Field(
        default=None, pattern=r"^[^/\\\s.\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]*$"
    )
    """Name of the run; default: algorithm, data set, seed and time."""
    register_as: Annotated[str | None, OnCommandLine(("--register",), "NAME")] = Field(
        default=None, title="Registered model", pattern=r"^[^/:\x00-\x1f\x7f]+$"
    )
    """Also register the model in MLflow under this name, as a new version with the alias 'current'."""
    federation: Annotated[str | None, OnCommandLine(value="FILE")] = None
    """The coordinator's federation.toml, for silos on their owners' machines; default: workers on this machine."""
    platform: Annotated[Platform | None, OnCommandLine(value="NAME")] = None
    """Reach the silos of the federation over a platform, in place of the relay of the coordinator."""
    silos: Annotated[Columns, CommaSeparated, OnCommandLine(value="NAMES")] = ()
    """Silos to include, separated by commas; all others are excluded."""
    quorum: Annotated[int | None, Ge(1)] = None
    """Minimum number of silos: the run continues without unresponsive silos as long as N remain. Default: all silos
    must be present at the start, and later as many as the algorithm needs."""
    silo_patience: Annotated[Positive, OnCommandLine(value="SECONDS")] = Field(default=60.0, title="Patience (s)")
    """Seconds without a sign of life, or without progress, after which a silo is lost."""

    @field_validator("bootstrap")
    @classmethod
    def _none_or_several(cls, resamples: int | None) -> int | None:
        if resamples == 1:
            raise BadInput(
                "bootstrap is 1: a single resample cannot estimate confidence; give 2 or more, or 0 for none"
            )
        return resamples

    @field_validator("posterior")
    @classmethod
    def _none_or_enough(cls, graphs: int) -> int:
        if 0 < graphs < MIN_GRAPHS:
            raise BadInput(
                f"posterior is {graphs}: probabilities need {MIN_GRAPHS} graphs or more; give 0 for no posterior"
            )
        return graphs

    @field_validator("algorithm")
    @classmethod
    def _known(cls, name: str) -> str:
        from fedbnsl.algorithms import registry
        from fedbnsl.algorithms.choose import AUTO

        if name == AUTO:
            return name
        if name in registry.STEPS:
            available = ", ".join(registry.ALGORITHMS)
            raise BadInput(f"algorithm '{name}' is an internal step of runs, not a learner; available: {available}")
        registry.entry(name)
        return name

    @cached_property
    def spec(self) -> "AlgorithmSpec | None":
        """The algorithm with its typed settings, parsed once; None for `auto`, which depends on the data.

        Raises `BadInput` for a setting that the algorithm does not have, or a value that it does not accept.
        """
        from fedbnsl.algorithms.choose import AUTO

        return None if self.algorithm == AUTO else self.specify(self.algorithm)

    def specify(self, name: str, defaults: Mapping[str, Any] = NO_DEFAULTS) -> "AlgorithmSpec":
        """The algorithm `name` with the settings, seed, ε and δ of these options, and `defaults` for other settings."""
        from fedbnsl.algorithms import registry

        seed = {"seed": self.seed} if "seed" in registry.parameter_names(name) else {}
        return registry.specify(name, {**defaults, **seed, **self.params}, self.epsilon, self.delta)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with the fields in `update`; its `spec` is parsed again if `update` has one of `SPEC_FIELDS`."""
        copied = super().model_copy(update=update, deep=deep)
        if update and SPEC_FIELDS & update.keys():
            copied.__dict__.pop("spec", None)
        return copied

    def with_data(self, folder: Path | None) -> "LearnSettings":
        """The settings of a run with these options on the federated data set in `folder`.

        Without `folder`, the data set is the folder of the federation's file. Raises `BadInput` without either.
        """
        if folder is None and self.federation is None:
            raise BadInput(
                "no data: give a FOLDER with one file per silo, one file with --by COLUMN, or --federation FILE"
            )
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return validate(LearnSettings, {**given, "data": str(folder or Path(str(self.federation)).absolute().parent)})


class DataSet(Options):
    """The data to learn from."""

    data: Annotated[str, AfterValidator(in_utf8)] = Field(title="Data set", examples=["example"])
    """Folder with one table per silo (CSV, Parquet, Excel, SPSS, Stata or JSON Lines), all with the same columns;
    optional truth.csv. With `by`, also a single file."""


FIRST_FIELDS = ("data", "algorithm", "epsilon", "secure", "seed", "name", "out")
LAST_FIELDS = ("params",)


def _order_fields(schema: dict[str, Any]) -> None:
    """Number the fields for Prefect's form: common options first, settings of algorithms last."""
    between = [name for name in schema["properties"] if name not in (*FIRST_FIELDS, *LAST_FIELDS)]
    for position, name in enumerate((*FIRST_FIELDS, *between, *LAST_FIELDS)):
        schema["properties"][name]["position"] = position


class LearnSettings(LearnOptions, DataSet):
    """Learn the structure of a Bayesian network from the silos of a federated data set."""

    model_config = ConfigDict(title="Learn", json_schema_extra=_order_fields)

    resume: bool = False
    """Continue the interrupted run in the output folder given above."""

    @property
    def dataset(self) -> str:
        """The name of the folder; with a federation whose folder is named "coordinator", the name of its parent."""
        folder = Path(self.data).absolute()
        return folder.parent.name if self.federation and folder.name == "coordinator" else folder.name

    def named(self, when: datetime | None = None) -> "LearnSettings":
        """The settings with name and output folder; if neither is given, no folder in runs/ has the generated name."""
        name = self.name or run_name(self.algorithm, self.dataset, self.seed, when or datetime.now())
        if self.name is None and self.out is None:
            numbered = (f"{name}-{number}" for number in count(2))
            name = next(one for one in chain((name,), numbered) if not (Path("runs") / one).exists())
        return self.model_copy(update={"name": name, "out": self.out or str(Path("runs") / name)})


def run_name(algorithm: str, data: str, seed: int, when: datetime) -> str:
    """The name of a run: algorithm, data set, seed, time."""
    dataset = re.sub(r"[\x00-\x1f\x7f\\]", "_", Path(data).absolute().name)[:100]
    return f"{algorithm}-{dataset}-seed{seed}-{when:%Y%m%d-%H%M%S}"
