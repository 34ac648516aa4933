"""What `prepare` can make: a recipe for each kind of data. Commands, Python API and Prefect's form come from these."""

from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.defaults import (
    DEGREE,
    EFFECTS,
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
from fedbnsl.data.networks.catalogue import DISCRETE, GAUSSIAN

from .fields import (
    Concentration,
    Degree,
    Edges,
    Form,
    Latent,
    Levels,
    Noisy,
    Rows,
    Seed,
    Silos,
    Variables,
)
from .model import OnCommandLine, Options, checked
from .time_series import Dynamic, Series


class _OnRandomGraph(Options):
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


class Heterogeneous(_Linear):
    """Draw every silo's rows from a linear model of its own: one random graph, but weights that differ by silo."""

    model_config = ConfigDict(title="heterogeneous: one graph, weights of each silo")
    kind: Literal["heterogeneous"] = "heterogeneous"
    silos: Silos = 20
    rows: Rows = 50
    weight_variance: Annotated[
        float,
        Field(ge=0, title="Variance of the weights", description="Variance of each weight between the silos."),
        OnCommandLine(value="VAR"),
    ] = 0.1


class Nonlinear(_OnRandomGraph):
    """Draw every silo's rows from the same nonlinear model: each variable a random neural network of its parents."""

    model_config = ConfigDict(title="nonlinear: one neural network a variable")
    kind: Literal["nonlinear"] = "nonlinear"
    silos: Silos = 10
    rows: Rows = 50


class Discrete(Options):
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


class Mixed(Options):
    """Draw every silo's rows from one random model of numbers and labels; silos differ in rows and means."""

    model_config = ConfigDict(title="mixed: numbers and labels in one random model")
    kind: Literal["mixed"] = "mixed"
    variables: Annotated[
        int,
        Field(ge=2, title="Variables", description="How many variables there are; half of them are discrete."),
        OnCommandLine(value="N"),
    ] = 20
    silos: Silos = 5
    rows: Annotated[
        int,
        Field(ge=2, title="Rows per silo", description="How many rows a silo holds on average."),
        OnCommandLine(value="N"),
    ] = 1000
    seed: Seed = 0
    edges: Edges = None
    effects: Annotated[
        Effects,
        Field(title="Effects", description="How effects on a number depend on the labels that act on it."),
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
        bool, Field(title="Unequal", description="Give the silos rows in the proportions 1 : 2 : 3 and so on.")
    ] = True
    form: Form = "csv"


class Surrogate(Options):
    """Draw the rows of one discrete network; a hidden variable deals them to the silos, so that each is biased."""

    model_config = ConfigDict(title="surrogate: silos that a hidden variable tells apart")
    kind: Literal["surrogate"] = "surrogate"
    silos: Silos = 4
    rows: Annotated[
        int,
        Field(ge=2, title="Rows per silo", description="How many rows a silo holds on average."),
        OnCommandLine(value="N"),
    ] = 2500
    seed: Seed = 0
    parents: Annotated[
        int,
        Field(
            ge=0,
            title="Parents",
            description="How many variables the hidden one depends on; with 0, the silos are alike.",
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
        Field(ge=2, title="Variables", description="How many variables a random network has."),
        OnCommandLine(value="N"),
    ] = 20
    degree: Degree = DEGREE
    levels: Levels = f"{LEVELS[0]}-{LEVELS[1]}"
    concentration: Concentration = None
    latent: Latent = 0


class Sachs(Options):
    """Deal the Sachs data to silos: flow cytometry of 11 proteins in 7466 cells (Sachs et al. 2005)."""

    model_config = ConfigDict(title="sachs: 11 proteins, 7466 cells")
    kind: Literal["sachs"] = "sachs"
    silos: Silos = 3
    by_condition: Annotated[
        bool, Field(title="By condition", description="Make the nine experimental conditions nine silos.")
    ] = False
    truth: Annotated[
        Truth,
        Field(title="Truth", description="Which graph counts as true, by its number of edges; 18 has a cycle."),
        OnCommandLine(value="NAME"),
    ] = TRUTH
    transform: Annotated[
        Transform,
        Field(title="Transform", description="What to do with every value before it is used."),
        OnCommandLine(value="NAME"),
    ] = TRANSFORM
    center: Annotated[bool, Field(title="Centre", description="Subtract the mean over all cells.")] = False
    discrete: Annotated[
        bool,
        Field(
            title="Discrete",
            description="Draw rows of three levels from the published network instead; its 17 edges are the truth.",
        ),
    ] = False
    rows: Annotated[
        int | None,
        Field(ge=2, title="Rows", description="Rows of the discrete data, all silos together; default: 853."),
        OnCommandLine(value="N"),
    ] = None
    seed: Seed = 0


class Network(Options):
    """Draw rows from a published network, or from a BIF file of yours."""

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


class Lucas(Options):
    """Draw rows of LUCAS, a made-up study of lung cancer in 12 variables, for feature selection (Guyon et al. 2008)."""

    model_config = ConfigDict(title="lucas: 12 variables, for causal feature selection")
    kind: Literal["lucas"] = "lucas"
    version: Annotated[
        Version,
        Field(title="Version", description="0 is as observed; in 1 and 2 an agent sets four or six variables."),
        OnCommandLine(value="NAME"),
    ] = "0"
    silos: Silos = 4
    rows: Rows = 500
    seed: Seed = 0


class Split(Options):
    """Deal a table of yours to silos: in equal parts, in skewed parts, in given sizes, or by a column."""

    model_config = ConfigDict(title="split: a table of yours")
    kind: Literal["split"] = "split"
    table: Annotated[
        str, Field(title="Table", description="A .csv or .parquet file with a header."), OnCommandLine(value="FILE")
    ]
    silos: Annotated[
        int | None, Field(title="Silos", description="Deal the rows to this many silos."), OnCommandLine(value="N")
    ] = None
    sizes: Annotated[
        list[int] | None,
        Field(title="Sizes", description="Rows of each silo, as 100,200,50."),
        OnCommandLine(value="N,N,..."),
    ] = None
    concentration: Annotated[
        float | None,
        Field(
            title="Concentration",
            description="With silos: sizes that differ, drawn from a Dirichlet distribution of this concentration; "
            "the smaller, the more uneven.",
        ),
        OnCommandLine(value="ALPHA"),
    ] = None
    by: Annotated[
        str | None,
        Field(title="By column", description="Make a silo of every value of this column."),
        OnCommandLine(value="COLUMN"),
    ] = None
    skew: Annotated[
        str | None,
        Field(
            title="Skewed column",
            description="With silos: spread each level of this column of labels unevenly over the silos.",
        ),
        OnCommandLine(value="COLUMN"),
    ] = None
    surrogate: Annotated[
        int | None,
        Field(
            title="Surrogate",
            description="With silos: deal the rows by a hidden variable that depends on so many columns, so that each "
            "silo is biased.",
        ),
        OnCommandLine(value="N"),
    ] = None
    data_kind: Annotated[
        Literal["continuous", "discrete"] | None,
        Field(
            title="Kind of data",
            description="What the table holds; default: what it looks like, where columns of words are discrete.",
        ),
        OnCommandLine(("--kind",), "NAME"),
    ] = None
    truth: Annotated[
        str | None,
        Field(title="Truth", description="File of the true graph, source,target in every line."),
        OnCommandLine(value="FILE"),
    ] = None
    seed: Seed = 0
    form: Form = "csv"


class Amputate(Options):
    """Empty some cells of a federated data set, to see what a learner makes of gaps."""

    model_config = ConfigDict(title="amputate: gaps in a data set")
    kind: Literal["amputate"] = "amputate"
    source: Annotated[
        str,
        Field(title="Data", description="Folder of the federated data set whose cells are to be emptied."),
        OnCommandLine(("--from",), "FOLDER"),
    ]
    mechanism: Annotated[
        Mechanism,
        Field(
            title="Mechanism",
            description="What tells where cells are empty: mcar, nothing; mar, another column that stays complete, as "
            "half of them do; mnar, what stood in the cell.",
        ),
        OnCommandLine(value="NAME"),
    ] = "mcar"
    share: Annotated[
        float,
        Field(gt=0, lt=1, title="Share", description="Share of empty cells in each column that gets any."),
        OnCommandLine(value="SHARE"),
    ] = 0.1
    seed: Seed = 0
    form: Form = "csv"


Recipe = (
    Homogeneous
    | Heterogeneous
    | Nonlinear
    | Discrete
    | Mixed
    | Surrogate
    | Sachs
    | Network
    | Lucas
    | Split
    | Amputate
    | Dynamic
    | Series
)
AnyRecipe = Annotated[Recipe, Field(discriminator="kind")]
KINDS: dict[str, type[Recipe]] = {model.model_fields["kind"].default: model for model in get_args(Recipe)}
"""the recipe of each kind of data"""


def recipe(kind: str, **options: Any) -> Recipe:
    """Return the recipe of `kind` with `options`; raises `BadInput` for an unknown kind, option or value."""
    if kind not in KINDS:
        raise BadInput(f"there is no kind of data '{kind}': there are {', '.join(KINDS)}")
    return checked(KINDS[kind], options)
