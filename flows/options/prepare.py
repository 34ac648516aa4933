"""The recipes of `prepare`, one per kind of data, from which command, Python API and Prefect's form are generated."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from annotated_types import Ge
from pydantic import ConfigDict, Field

from fedbnsl.algorithms.core.settings import Count, CountOrNone, Factor, NonNegative, Positive, Share
from fedbnsl.algorithms.errors import BadInput, choices_text, quoted
from fedbnsl.data.defaults import (
    DECAY,
    DEGREE,
    DISCRETE,
    EFFECTS,
    EVENT_DEGREE,
    GAUSSIAN,
    GRAPH,
    INTRA_DEGREE,
    LAGGED_DEGREE,
    LEVELS,
    MIXED_LEVELS,
    NOISE,
    SITE_MEANS,
    TRANSFORM,
    TRUTH,
    Effects,
    Experiment,
    Graph,
    Mechanism,
    SmallSilos,
    Transform,
    Truth,
    Version,
)

from .model import (
    Concentration,
    DataRecipe,
    Degree,
    Edges,
    Form,
    Latent,
    Levels,
    Noisy,
    OnCommandLine,
    Rows,
    Seed,
    Silos,
    Variables,
    validate,
)

if TYPE_CHECKING:
    from fedbnsl.data.federated import FederatedData


class Interventions(DataRecipe):
    """Draw rows from one linear model; in some silos, an experiment changes the mechanisms of one or two variables."""

    model_config = ConfigDict(title="interventions: silos in which experiments change variables")
    kind: Literal["interventions"] = "interventions"
    variables: Variables = 10
    silos: Silos = 6
    rows: Annotated[int, Ge(2)] = Field(default=1000, title="Rows per silo")
    """Mean number of rows of a silo; silos have from half to one and a half times as many."""
    seed: Seed = 0
    edges: Edges = None
    graph: Graph = GRAPH
    """Kind of random graph: Erdős–Rényi or scale-free."""
    experiment: Experiment = "randomised"
    """Change of a variable's mechanism: independent of its causes (randomised), other weights and more noise (soft), or
    weaker effects of its causes (inhibiting)."""
    targeted_silos: CountOrNone = 4
    """Number of silos with an experiment."""
    strength: Annotated[float, OnCommandLine(value="FACTOR")] = 0.2
    """Inhibiting experiments: factor of the effects on a changed variable."""
    site_means: Annotated[NonNegative, OnCommandLine(value="SIGMA")] = Field(default=2.0, title="Means of the silos")
    """Standard deviation of the silos' offsets."""

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.generators.interventions import interventions

        return interventions(**self.arguments())


class Dynamic(DataRecipe):
    """Draw time series from a stable random model with contemporaneous and lagged edges (Chen et al. 2025)."""

    model_config = ConfigDict(title="dynamic: time series of a random model")
    kind: Literal["dynamic"] = "dynamic"
    variables: Variables = 10
    silos: Silos = 6
    rows: Annotated[int, Ge(2)] = Field(default=256, title="Rows per silo")
    """Number of rows of each silo, not counting the first rows of each series, one per lag, which are added to them."""
    seed: Seed = 0
    lags: Count = 1
    """Largest lag, in time steps, of a variable's causes."""
    degree: Annotated[NonNegative, OnCommandLine(value="MEAN")] = INTRA_DEGREE
    """Mean number of neighbours in the graph within one time step."""
    lagged_degree: Annotated[Positive, OnCommandLine(value="MEAN")] = LAGGED_DEGREE
    """Mean number of variables that one variable affects at each lag."""
    decay: Annotated[Factor, OnCommandLine(value="ETA")] = DECAY
    """Factor by which the weights shrink from one lag to the next."""
    heterogeneity: Annotated[NonNegative, OnCommandLine(value="SIGMA")] = 0.0
    """Standard deviation of each silo's weights around the shared weights, on the shared graph."""
    own_structures: bool = False
    """Draw a separate graph and weights for every silo."""
    noise: Noisy = NOISE
    series: Count = Field(default=1, title="Series per silo")
    """Number of separate series of each silo."""
    labels: CountOrNone = 0
    """Number of variables that are discrete, with two or three levels."""

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.generators.dynamic import dynamic

        return dynamic(**self.arguments())


class Events(DataRecipe):
    """Draw event sequences of devices from a random Hawkes process, in which events excite events of other types."""

    model_config = ConfigDict(title="events: event sequences of a random Hawkes process")
    kind: Literal["events"] = "events"
    variables: Annotated[int, Ge(2)] = 10
    """Number of types of events."""
    silos: Silos = 6
    events: Annotated[int, Ge(2)] = 20_000
    """Expected number of events of all silos."""
    devices: Count = 50
    """Number of devices. Silos have unequal numbers of them; with links they have equal numbers, and the remainder is
    dropped."""
    seed: Seed = 0
    degree: Annotated[NonNegative, OnCommandLine(value="MEAN")] = EVENT_DEGREE
    """Mean number of other types that excite a type."""
    links: Annotated[NonNegative, OnCommandLine(value="WEIGHT")] = 0.0
    """0: no links. Otherwise the devices of each silo form a ring, all rings have equal size, and the effect of an
    event on its two neighbours together is this multiple of its effect on its own device."""

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.generators.events import events, linked_events

        options = self.arguments()
        links = options.pop("links")
        if not links:
            return events(**options)
        return linked_events(**(options | {"devices": self.devices // self.silos}), weight=links)


class Series(DataRecipe):
    """Divide your own recorded time series among silos: whole series, or consecutive pieces of one."""

    model_config = ConfigDict(title="series: recorded time series of yours")
    kind: Literal["series"] = "series"
    table: Annotated[str, OnCommandLine(value="FILE")]
    """A .csv or .parquet file with one row per time and series, a .mat file of NetSim, or a .tsv file of the DREAM4
    challenge."""
    series: Annotated[str | None, OnCommandLine(value="COLUMN")] = Field(default=None, title="Series column")
    """Column that identifies the series. Default: the column called series, if any."""
    time: Annotated[str | None, OnCommandLine(value="COLUMN")] = Field(default=None, title="Time column")
    """Column of times, which may be numbers, dates, quarters or months. Default: the column called time; without one,
    the rows are consecutive."""
    silos: Annotated[int | None, Ge(1)] = None
    """Number of silos. Whole series are assigned in order; a single series is cut into consecutive pieces. Default: one
    silo per series."""
    by: Annotated[str | None, OnCommandLine(value="COLUMN")] = Field(default=None, title="By column")
    """Create one silo per value of this column."""
    truth: Annotated[str | None, OnCommandLine(value="FILE")] = None
    """File of the true graph: .csv with the header source,target[,weight][,type][,lag] and a line per edge, or .json
    with edges."""
    standardise: bool = False
    """Standardise every column of every series to mean 0 and standard deviation 1, for recordings whose levels and
    units are arbitrary, such as functional MRI."""

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.recordings.series import series

        truth = Path(self.truth) if self.truth else None
        return series(Path(self.table), **self.arguments("table", "truth"), truth=truth)


DISCRETE_SACHS_ROWS = 853
"""number of rows of the table's first condition, which Wang, Ma & Wang 2023, §5.4 use"""


def _range(levels: str) -> tuple[int, int]:
    fewest, _, most = levels.partition("-")
    return int(fewest), int(most or fewest)


class _OnRandomGraph(DataRecipe):
    variables: Variables = 20
    silos: Silos = 8
    rows: Rows = 5000
    seed: Seed = 0
    edges: Edges = None
    graph: Graph = GRAPH
    """Kind of random graph: Erdős–Rényi or scale-free."""


class _Linear(_OnRandomGraph):
    noise: Noisy = NOISE
    standardise: bool = False
    """Divide each column by its standard deviation over all silos."""


class Homogeneous(_Linear):
    """Draw every silo's rows from the same linear model on a random graph."""

    model_config = ConfigDict(title="homogeneous: one model for all silos")
    kind: Literal["homogeneous"] = "homogeneous"

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.generators.linear import homogeneous

        return homogeneous(**self.arguments())


class Heterogeneous(_Linear):
    """Draw each silo's rows from its own linear model: one random graph, weights that differ by silo."""

    model_config = ConfigDict(title="heterogeneous: one graph, weights of each silo")
    kind: Literal["heterogeneous"] = "heterogeneous"
    silos: Silos = 20
    rows: Rows = 50
    weight_variance: Annotated[NonNegative, OnCommandLine(value="VAR")] = Field(
        default=0.1, title="Variance of the weights"
    )
    """Variance of each weight across the silos."""

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.generators.linear import heterogeneous

        return heterogeneous(**self.arguments())


class Nonlinear(_OnRandomGraph):
    """Draw every silo's rows from the same nonlinear model: each variable is a random neural network of its parents."""

    model_config = ConfigDict(title="nonlinear: one neural network a variable")
    kind: Literal["nonlinear"] = "nonlinear"
    silos: Silos = 10
    rows: Rows = 50

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.generators.nonlinear import nonlinear

        return nonlinear(**self.arguments())


class Discrete(DataRecipe):
    """Draw every silo's rows from the same random network over discrete variables."""

    model_config = ConfigDict(title="discrete: one random network for all silos")
    kind: Literal["discrete"] = "discrete"
    variables: Variables = 20
    silos: Silos = 10
    rows: Rows = 1000
    seed: Seed = 0
    degree: Degree = DEGREE
    levels: Levels = f"{LEVELS[0]}-{LEVELS[1]}"
    concentration: Concentration = None
    latent: Latent = 0

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.generators.discrete import discrete

        return discrete(**self.arguments("levels"), levels=_range(self.levels))


class Mixed(DataRecipe):
    """Draw every silo's rows from one random model of numbers and labels; silos differ in rows and means."""

    model_config = ConfigDict(title="mixed: numbers and labels in one random model")
    kind: Literal["mixed"] = "mixed"
    variables: Annotated[int, Ge(2)] = 20
    """Number of variables; half of them are discrete."""
    silos: Silos = 5
    rows: Annotated[int, Ge(2)] = Field(default=1000, title="Rows per silo")
    """Mean number of rows of a silo."""
    seed: Seed = 0
    edges: Edges = None
    effects: Effects = EFFECTS
    """How the effects on a numeric variable depend on its discrete parents."""
    levels: Levels = f"{MIXED_LEVELS[0]}-{MIXED_LEVELS[1]}"
    site_means: Annotated[NonNegative, OnCommandLine(value="SIGMA")] = Field(
        default=SITE_MEANS, title="Means of the silos"
    )
    """Standard deviation of the silos' means, in standard deviations of a column."""
    unequal: bool = True
    """Give the silos unequal numbers of rows, in the proportions 1 : 2 : 3 and so on."""
    form: Form = "csv"

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.generators.mixed import mixed

        return mixed(**self.arguments("levels"), levels=_range(self.levels))


class Surrogate(DataRecipe):
    """Draw rows from one discrete network; a hidden variable assigns the rows to silos, so that each silo is biased."""

    model_config = ConfigDict(title="surrogate: silos that differ in a hidden variable")
    kind: Literal["surrogate"] = "surrogate"
    silos: Silos = 4
    rows: Annotated[int, Ge(2)] = Field(default=2500, title="Rows per silo")
    """Mean number of rows of a silo."""
    seed: Seed = 0
    parents: CountOrNone = 5
    """Number of variables on which the hidden variable depends. With 0, all silos have the same distribution."""
    network: Annotated[str | None, OnCommandLine(value="NAME")] = Field(default=None, examples=["alarm"])
    """A published discrete network, as in `prepare network`, instead of a random one."""
    variables: Annotated[int, Ge(2)] = 20
    """Number of variables of a random network."""
    degree: Degree = DEGREE
    levels: Levels = f"{LEVELS[0]}-{LEVELS[1]}"
    concentration: Concentration = None
    latent: Latent = 0

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.networks.surrogate import surrogate

        return surrogate(**self.arguments("levels"), levels=_range(self.levels))


class Sachs(DataRecipe):
    """Divide the Sachs data among silos: flow cytometry of 11 proteins in 7466 cells (Sachs et al. 2005)."""

    model_config = ConfigDict(title="sachs: 11 proteins, 7466 cells")
    kind: Literal["sachs"] = "sachs"
    silos: Silos = 3
    by_condition: bool = False
    """Make each of the nine experimental conditions a silo."""
    truth: Truth = TRUTH
    """The graph taken as true, named by its number of edges. The graph 18 has a cycle."""
    transform: Transform = TRANSFORM
    """Transformation of every value."""
    center: bool = Field(default=False, title="Centre")
    """Subtract the mean over all cells from each column."""
    discrete: bool = False
    """Instead of dividing the cells, draw rows of three levels from the published network; its 17 edges are the
    truth."""
    rows: Annotated[int | None, Ge(2)] = None
    """Number of rows, all silos together: cells drawn from the 853 of the first condition instead of all 7466 cells, or
    rows of the discrete data (default: 853)."""
    seed: Seed = 0

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.networks.sachs import discrete_sachs, sachs

        if not self.discrete:
            return sachs(**self.arguments("discrete"))
        for name in ("by_condition", "truth", "transform", "center"):
            if getattr(self, name) != Sachs.model_fields[name].default:
                raise BadInput(
                    f"{name} is '{getattr(self, name)}': discrete data are drawn from one network of 17 edges"
                )
        return discrete_sachs(self.silos, self.rows or DISCRETE_SACHS_ROWS, self.seed)


class PublishedNetwork(DataRecipe):
    """Draw rows from a published network, or from your own BIF file."""

    model_config = ConfigDict(title="network: a published network")
    kind: Literal["network"] = "network"
    network: Annotated[str, OnCommandLine(value="NAME")] = Field(
        description="A .bif or .bif.gz file, or a name. "
        f"Discrete networks: {', '.join(sorted(DISCRETE))}. Gaussian networks: {', '.join(sorted(GAUSSIAN))}.",
        json_schema_extra={"enum": [*sorted(DISCRETE), *sorted(GAUSSIAN)]},
    )
    silos: Silos = 5
    rows: Rows = 1000
    seed: Seed = 0
    latent: Latent = 0

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.networks.published import network

        return network(self.network, self.silos, self.rows, self.seed, self.latent)


class Lucas(DataRecipe):
    """Draw rows of LUCAS, a made-up study of lung cancer in 12 variables, for feature selection (Guyon et al. 2008)."""

    model_config = ConfigDict(title="lucas: 12 variables, for causal feature selection")
    kind: Literal["lucas"] = "lucas"
    version: Version = "0"
    """0: observed data; 1: an agent sets four variables; 2: an agent sets six variables."""
    silos: Silos = 4
    rows: Rows = 500
    seed: Seed = 0

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.networks.lucas import lucas

        return lucas(**self.arguments())


class Split(DataRecipe):
    """Divide your own table among silos: in equal or skewed parts, in given sizes, or by a column."""

    model_config = ConfigDict(title="split: a table of yours")
    kind: Literal["split"] = "split"
    table: Annotated[str, OnCommandLine(value="FILE")]
    """A table with a header: CSV, Parquet, Excel, SPSS, Stata or JSON Lines."""
    silos: int | None = None
    """Number of silos."""
    sizes: Annotated[list[int] | None, OnCommandLine(value="N,N,...")] = None
    """Number of rows of each silo, such as 100,200,50."""
    concentration: Annotated[float | None, OnCommandLine(value="ALPHA")] = None
    """With --silos: draw unequal sizes from a Dirichlet distribution; the smaller its concentration, the more uneven
    the sizes."""
    by: Annotated[str | None, OnCommandLine(value="COLUMN")] = Field(default=None, title="By column")
    """Create one silo per value of this column."""
    small_silos: SmallSilos = "leave-out"
    """With --by: what to do with rows whose silo has fewer than two rows or no name: leave them out (leave-out), or
    join them to one silo, 'others' (merge)."""
    skew: Annotated[str | None, OnCommandLine(value="COLUMN")] = Field(default=None, title="Skewed column")
    """With --silos: distribute each level of this discrete column unevenly over the silos."""
    surrogate: int | None = None
    """With --silos: assign the rows by a hidden variable that depends on this many columns, so that each silo is
    biased."""
    data_kind: Annotated[Literal["continuous", "discrete"] | None, OnCommandLine(("--kind",), "NAME")] = Field(
        default=None, title="Kind of data"
    )
    """Kind of all columns. Default: inferred; columns of text are discrete."""
    truth: Annotated[str | None, OnCommandLine(value="FILE")] = None
    """CSV file of the true graph, with a line source,target per edge."""
    seed: Seed = 0
    form: Form = "csv"

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.splitting.partition import split_table

        truth = Path(self.truth) if self.truth else None
        options = self.arguments("table", "data_kind", "truth")
        return split_table(Path(self.table), **options, kind=self.data_kind, truth=truth)


class Amputate(DataRecipe):
    """Empty some cells of a federated data set, to test a learner with missing values."""

    model_config = ConfigDict(title="amputate: gaps in a data set")
    kind: Literal["amputate"] = "amputate"
    source: Annotated[str, OnCommandLine(("--from",), "FOLDER")] = Field(title="Data")
    """Folder of the federated data set."""
    mechanism: Mechanism = "mcar"
    """Missingness mechanism: completely at random (mcar), dependent on a column that stays complete, as up to half of
    the columns do (mar), or dependent on the missing value itself (mnar)."""
    share: Annotated[Share, OnCommandLine(value="SHARE")] = 0.1
    """Share of empty cells in each affected column."""
    seed: Seed = 0
    form: Form = "csv"

    def build(self) -> "FederatedData":
        """The data set."""
        import numpy as np

        from fedbnsl.data.folder.folder import read_folder
        from fedbnsl.data.generators.amputate import amputate

        rng = np.random.default_rng(self.seed)
        made = amputate(read_folder(Path(self.source)), self.mechanism, self.share, rng)
        return replace(made, about=made.about | {"amputated": {**made.about["amputated"], "seed": self.seed}})


Recipe = (
    Homogeneous
    | Heterogeneous
    | Nonlinear
    | Interventions
    | Discrete
    | Mixed
    | Surrogate
    | Sachs
    | PublishedNetwork
    | Lucas
    | Split
    | Amputate
    | Dynamic
    | Events
    | Series
)
AnyRecipe = Annotated[Recipe, Field(discriminator="kind")]
KINDS: dict[str, type[Recipe]] = {model.model_fields["kind"].default: model for model in get_args(Recipe)}
"""the recipe of each kind of data"""


def recipe(kind: str, **options: Any) -> Recipe:
    """The recipe of `kind` with `options`; raises `BadInput` for an unknown kind, option or value."""
    if kind not in KINDS:
        raise BadInput(f"unknown kind of data {quoted(kind)}: {choices_text(kind, KINDS)}")
    return validate(KINDS[kind], options)
