"""The recipes of `prepare`, one per kind of data, from which command, Python API and Prefect's form are generated."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field

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
    rows: Annotated[
        int,
        Field(
            ge=2,
            title="Rows per silo",
            description="Mean number of rows of a silo; silos have from half to one and a half times as many.",
        ),
        OnCommandLine(value="N"),
    ] = 1000
    seed: Seed = 0
    edges: Edges = None
    graph: Annotated[
        Graph,
        Field(title="Graph", description="Kind of random graph: Erdős–Rényi or scale-free."),
        OnCommandLine(value="NAME"),
    ] = GRAPH
    experiment: Annotated[
        Experiment,
        Field(
            title="Experiment",
            description="Change of a variable's mechanism: independent of its causes (randomised), other weights and "
            "more noise (soft), or weaker effects of its causes (inhibiting).",
        ),
        OnCommandLine(value="NAME"),
    ] = "randomised"
    targeted_silos: Annotated[
        int,
        Field(ge=0, title="Targeted silos", description="Number of silos with an experiment."),
        OnCommandLine(value="N"),
    ] = 4
    strength: Annotated[
        float,
        Field(title="Strength", description="Inhibiting experiments: factor of the effects on a changed variable."),
        OnCommandLine(value="FACTOR"),
    ] = 0.2
    site_means: Annotated[
        float,
        Field(ge=0, title="Means of the silos", description="Standard deviation of the silos' offsets."),
        OnCommandLine(value="SIGMA"),
    ] = 2.0

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
    rows: Annotated[
        int,
        Field(
            ge=2,
            title="Rows per silo",
            description="Number of rows of each silo, not counting the first rows of each series, one per lag, which "
            "are added to them.",
        ),
        OnCommandLine(value="N"),
    ] = 256
    seed: Seed = 0
    lags: Annotated[
        int,
        Field(ge=1, title="Lags", description="Largest lag, in time steps, of a variable's causes."),
        OnCommandLine(value="N"),
    ] = 1
    degree: Annotated[
        float,
        Field(ge=0, title="Degree", description="Mean number of neighbours in the graph within one time step."),
        OnCommandLine(value="MEAN"),
    ] = INTRA_DEGREE
    lagged_degree: Annotated[
        float,
        Field(
            gt=0, title="Lagged degree", description="Mean number of variables that one variable affects at each lag."
        ),
        OnCommandLine(value="MEAN"),
    ] = LAGGED_DEGREE
    decay: Annotated[
        float,
        Field(ge=1, title="Decay", description="Factor by which the weights shrink from one lag to the next."),
        OnCommandLine(value="ETA"),
    ] = DECAY
    heterogeneity: Annotated[
        float,
        Field(
            ge=0,
            title="Heterogeneity",
            description="Standard deviation of each silo's weights around the shared weights, on the shared graph.",
        ),
        OnCommandLine(value="SIGMA"),
    ] = 0.0
    own_structures: Annotated[
        bool, Field(title="Own structures", description="Draw a separate graph and weights for every silo.")
    ] = False
    noise: Noisy = NOISE
    series: Annotated[
        int,
        Field(ge=1, title="Series per silo", description="Number of separate series of each silo."),
        OnCommandLine(value="N"),
    ] = 1
    labels: Annotated[
        int,
        Field(ge=0, title="Labels", description="Number of variables that are discrete, with two or three levels."),
        OnCommandLine(value="N"),
    ] = 0

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.generators.dynamic import dynamic

        return dynamic(**self.arguments())


class Events(DataRecipe):
    """Draw event sequences of devices from a random Hawkes process, in which events excite events of other types."""

    model_config = ConfigDict(title="events: event sequences of a random Hawkes process")
    kind: Literal["events"] = "events"
    variables: Annotated[
        int, Field(ge=2, title="Variables", description="Number of types of events."), OnCommandLine(value="N")
    ] = 10
    silos: Silos = 6
    events: Annotated[
        int,
        Field(ge=2, title="Events", description="Expected number of events of all silos."),
        OnCommandLine(value="N"),
    ] = 20_000
    devices: Annotated[
        int,
        Field(
            ge=1,
            title="Devices",
            description="Number of devices. Silos have unequal numbers of them; with links they have equal numbers, "
            "and the remainder is dropped.",
        ),
        OnCommandLine(value="N"),
    ] = 50
    seed: Seed = 0
    degree: Annotated[
        float,
        Field(ge=0, title="Degree", description="Mean number of other types that excite a type."),
        OnCommandLine(value="MEAN"),
    ] = EVENT_DEGREE
    links: Annotated[
        float,
        Field(
            ge=0,
            title="Links",
            description="0: no links. Otherwise the devices of each silo form a ring, all rings have equal size, and "
            "the effect of an event on its two neighbours together is this multiple of its effect on its own device.",
        ),
        OnCommandLine(value="WEIGHT"),
    ] = 0.0

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
    table: Annotated[
        str,
        Field(
            title="Table",
            description="A .csv or .parquet file with one row per time and series, a .mat file of NetSim, or a "
            ".tsv file of the DREAM4 challenge.",
        ),
        OnCommandLine(value="FILE"),
    ]
    series: Annotated[
        str | None,
        Field(
            title="Series column",
            description="Column that identifies the series. Default: the column called series, if any.",
        ),
        OnCommandLine(value="COLUMN"),
    ] = None
    time: Annotated[
        str | None,
        Field(
            title="Time column",
            description="Column of times, which may be numbers, dates, quarters or months. Default: the column called "
            "time; without one, the rows are consecutive.",
        ),
        OnCommandLine(value="COLUMN"),
    ] = None
    silos: Annotated[
        int | None,
        Field(
            ge=1,
            title="Silos",
            description="Number of silos. Whole series are assigned in order; a single series is cut into consecutive "
            "pieces. Default: one silo per series.",
        ),
        OnCommandLine(value="N"),
    ] = None
    by: Annotated[
        str | None,
        Field(title="By column", description="Create one silo per value of this column."),
        OnCommandLine(value="COLUMN"),
    ] = None
    truth: Annotated[
        str | None,
        Field(
            title="Truth",
            description="File of the true graph: .csv with the header source,target[,weight][,type][,lag] and a line "
            "per edge, or .json with edges.",
        ),
        OnCommandLine(value="FILE"),
    ] = None
    standardise: Annotated[
        bool,
        Field(
            title="Standardise",
            description="Standardise every column of every series to mean 0 and standard deviation 1, for recordings "
            "whose levels and units are arbitrary, such as functional MRI.",
        ),
    ] = False

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
    graph: Annotated[
        Graph,
        Field(title="Graph", description="Kind of random graph: Erdős–Rényi or scale-free."),
        OnCommandLine(value="NAME"),
    ] = GRAPH


class _Linear(_OnRandomGraph):
    noise: Noisy = NOISE
    standardise: Annotated[
        bool,
        Field(title="Standardise", description="Divide each column by its standard deviation over all silos."),
    ] = False


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
    weight_variance: Annotated[
        float,
        Field(ge=0, title="Variance of the weights", description="Variance of each weight across the silos."),
        OnCommandLine(value="VAR"),
    ] = 0.1

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
    variables: Annotated[
        int,
        Field(ge=2, title="Variables", description="Number of variables; half of them are discrete."),
        OnCommandLine(value="N"),
    ] = 20
    silos: Silos = 5
    rows: Annotated[
        int,
        Field(ge=2, title="Rows per silo", description="Mean number of rows of a silo."),
        OnCommandLine(value="N"),
    ] = 1000
    seed: Seed = 0
    edges: Edges = None
    effects: Annotated[
        Effects,
        Field(title="Effects", description="How the effects on a numeric variable depend on its discrete parents."),
        OnCommandLine(value="NAME"),
    ] = EFFECTS
    levels: Levels = f"{MIXED_LEVELS[0]}-{MIXED_LEVELS[1]}"
    site_means: Annotated[
        float,
        Field(
            ge=0,
            title="Means of the silos",
            description="Standard deviation of the silos' means, in standard deviations of a column.",
        ),
        OnCommandLine(value="SIGMA"),
    ] = SITE_MEANS
    unequal: Annotated[
        bool,
        Field(
            title="Unequal",
            description="Give the silos unequal numbers of rows, in the proportions 1 : 2 : 3 and so on.",
        ),
    ] = True
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
    rows: Annotated[
        int,
        Field(ge=2, title="Rows per silo", description="Mean number of rows of a silo."),
        OnCommandLine(value="N"),
    ] = 2500
    seed: Seed = 0
    parents: Annotated[
        int,
        Field(
            ge=0,
            title="Parents",
            description="Number of variables on which the hidden variable depends. With 0, all silos have the same "
            "distribution.",
        ),
        OnCommandLine(value="N"),
    ] = 5
    network: Annotated[
        str | None,
        Field(
            title="Network",
            description="A published discrete network, as in `prepare network`, instead of a random one.",
            examples=["alarm"],
        ),
        OnCommandLine(value="NAME"),
    ] = None
    variables: Annotated[
        int,
        Field(ge=2, title="Variables", description="Number of variables of a random network."),
        OnCommandLine(value="N"),
    ] = 20
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
    by_condition: Annotated[
        bool, Field(title="By condition", description="Make each of the nine experimental conditions a silo.")
    ] = False
    truth: Annotated[
        Truth,
        Field(
            title="Truth",
            description="The graph taken as true, named by its number of edges. The graph 18 has a cycle.",
        ),
        OnCommandLine(value="NAME"),
    ] = TRUTH
    transform: Annotated[
        Transform,
        Field(title="Transform", description="Transformation of every value."),
        OnCommandLine(value="NAME"),
    ] = TRANSFORM
    center: Annotated[bool, Field(title="Centre", description="Subtract the mean over all cells from each column.")] = (
        False
    )
    discrete: Annotated[
        bool,
        Field(
            title="Discrete",
            description="Instead of dividing the cells, draw rows of three levels from the published network; its 17 "
            "edges are the truth.",
        ),
    ] = False
    rows: Annotated[
        int | None,
        Field(
            ge=2,
            title="Rows",
            description="Number of rows, all silos together: cells drawn from the 853 of the first condition instead "
            "of all 7466 cells, or rows of the discrete data (default: 853).",
        ),
        OnCommandLine(value="N"),
    ] = None
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
    network: Annotated[
        str,
        Field(
            title="Network",
            description="A .bif or .bif.gz file, or a name. "
            f"Discrete networks: {', '.join(sorted(DISCRETE))}. Gaussian networks: {', '.join(sorted(GAUSSIAN))}.",
            json_schema_extra={"enum": [*sorted(DISCRETE), *sorted(GAUSSIAN)]},
        ),
        OnCommandLine(value="NAME"),
    ]
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
    version: Annotated[
        Version,
        Field(
            title="Version",
            description="0: observed data; 1: an agent sets four variables; 2: an agent sets six variables.",
        ),
        OnCommandLine(value="NAME"),
    ] = "0"
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
    table: Annotated[
        str,
        Field(title="Table", description="A table with a header: CSV, Parquet, Excel, SPSS, Stata or JSON Lines."),
        OnCommandLine(value="FILE"),
    ]
    silos: Annotated[int | None, Field(title="Silos", description="Number of silos."), OnCommandLine(value="N")] = None
    sizes: Annotated[
        list[int] | None,
        Field(title="Sizes", description="Number of rows of each silo, such as 100,200,50."),
        OnCommandLine(value="N,N,..."),
    ] = None
    concentration: Annotated[
        float | None,
        Field(
            title="Concentration",
            description="With --silos: draw unequal sizes from a Dirichlet distribution; the smaller its "
            "concentration, the more uneven the sizes.",
        ),
        OnCommandLine(value="ALPHA"),
    ] = None
    by: Annotated[
        str | None,
        Field(title="By column", description="Create one silo per value of this column."),
        OnCommandLine(value="COLUMN"),
    ] = None
    small_silos: Annotated[
        Literal["leave-out", "merge"],
        Field(
            title="Small silos",
            description="With --by: what to do with rows whose silo has fewer than two rows or no name: leave them out "
            "(leave-out), or join them to one silo, 'others' (merge).",
        ),
    ] = "leave-out"
    skew: Annotated[
        str | None,
        Field(
            title="Skewed column",
            description="With --silos: distribute each level of this discrete column unevenly over the silos.",
        ),
        OnCommandLine(value="COLUMN"),
    ] = None
    surrogate: Annotated[
        int | None,
        Field(
            title="Surrogate",
            description="With --silos: assign the rows by a hidden variable that depends on this many columns, so that "
            "each silo is biased.",
        ),
        OnCommandLine(value="N"),
    ] = None
    data_kind: Annotated[
        Literal["continuous", "discrete"] | None,
        Field(
            title="Kind of data",
            description="Kind of all columns. Default: inferred; columns of text are discrete.",
        ),
        OnCommandLine(("--kind",), "NAME"),
    ] = None
    truth: Annotated[
        str | None,
        Field(title="Truth", description="CSV file of the true graph, with a line source,target per edge."),
        OnCommandLine(value="FILE"),
    ] = None
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
    source: Annotated[
        str,
        Field(title="Data", description="Folder of the federated data set."),
        OnCommandLine(("--from",), "FOLDER"),
    ]
    mechanism: Annotated[
        Mechanism,
        Field(
            title="Mechanism",
            description="Missingness mechanism: completely at random (mcar), dependent on a column that stays "
            "complete, as up to half of the columns do (mar), or dependent on the missing value itself (mnar).",
        ),
        OnCommandLine(value="NAME"),
    ] = "mcar"
    share: Annotated[
        float,
        Field(gt=0, lt=1, title="Share", description="Share of empty cells in each affected column."),
        OnCommandLine(value="SHARE"),
    ] = 0.1
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
