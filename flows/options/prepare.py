"""The recipes of `prepare`, one per kind of data, from which command, Python API and Prefect's form are generated."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field

from fedbnsl.algorithms.errors import BadInput, choices_text, quoted
from fedbnsl.data.defaults import (
    DEGREE,
    DISCRETE,
    EFFECTS,
    GAUSSIAN,
    GRAPH,
    LEVELS,
    MIXED_LEVELS,
    NOISE,
    SITE_MEANS,
    TRANSFORM,
    TRUTH,
    Effects,
    Graph,
    Mechanism,
    Transform,
    Truth,
    Version,
)

from .experiments import Interventions
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
from .time_series import Dynamic, Events, Series

if TYPE_CHECKING:
    from fedbnsl.data.federated import FederatedData


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
        Field(ge=2, title="Rows", description="Rows of the discrete data, all silos together; default: 853."),
        OnCommandLine(value="N"),
    ] = None
    seed: Seed = 0

    def build(self) -> "FederatedData":
        """The data set."""
        from fedbnsl.data.networks.sachs import discrete_sachs, sachs

        if not self.discrete:
            if self.rows is not None:
                raise BadInput(f"rows is '{self.rows}': only discrete data are drawn, the table has 7466 cells")
            return sachs(**self.arguments("discrete", "rows"))
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
