"""What the flow `prepare` can make: one form a kind of data set, told apart by `kind`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.networks.catalogue import DISCRETE, GAUSSIAN

Seed = Annotated[int, Field(ge=0, title="Seed", description="Same seed, same data, bit for bit.")]
Count = Annotated[int, Field(ge=1, title="Silos", description="How many owners hold a part of the rows.")]
Rows = Annotated[int, Field(ge=2, title="Rows per silo")]
Edges = Annotated[
    int | None, Field(title="Expected edges", description="Of the random graph; by default as many as variables.")
]
Latent = Annotated[
    int, Field(ge=0, title="Latent", description="Variables to hide, common causes first; the truth is then a PAG.")
]
Degree = Annotated[float, Field(ge=0, title="Degree", description="Mean number of neighbours in the random graph.")]
Levels = Annotated[
    str,
    Field(title="Levels", pattern=r"^[0-9]{1,4}(-[0-9]{1,4})?$", description="Of each variable: 3, or a range, 2-5."),
]
Concentration = Annotated[
    float | None,
    Field(title="Concentration", description="Of the Dirichlet tables; by default drawn from 0.1 to 1 row by row."),
]


class Recipe(BaseModel):
    """A data set that can be made."""

    model_config = ConfigDict(extra="forbid")

    def make(self) -> FederatedData:
        """Return the data set; raises `BadInput` for a value that makes no sense."""
        raise NotImplementedError


class _Synthetic(Recipe):
    variables: int = Field(default=20, ge=2, title="Variables")
    silos: Count = 8
    rows: Rows = 5000
    seed: Seed = 0
    edges: Edges = None
    graph: Literal["ER", "SF"] = Field(default="ER", title="Graph", description="Erdős–Rényi or scale-free.")
    noise: Literal["gaussian", "exponential", "gumbel"] = Field(default="gaussian", title="Noise")


class Homogeneous(_Synthetic):
    """Every silo draws its rows from the same linear model on a random graph."""

    model_config = ConfigDict(extra="forbid", title="homogeneous: one model for all silos")
    kind: Literal["homogeneous"] = "homogeneous"

    def make(self) -> FederatedData:
        """Draw the rows."""
        from fedbnsl.data.generators.linear import homogeneous

        return homogeneous(**self.model_dump(exclude={"kind"}))


class Heterogeneous(_Synthetic):
    """The silos share a random graph, each with weights of its own around the common ones."""

    model_config = ConfigDict(extra="forbid", title="heterogeneous: one graph, weights of each silo")
    kind: Literal["heterogeneous"] = "heterogeneous"
    weight_variance: float = Field(default=0.1, ge=0, title="Variance of the weights between silos")

    def make(self) -> FederatedData:
        """Draw the rows."""
        from fedbnsl.data.generators.linear import heterogeneous

        return heterogeneous(**self.model_dump(exclude={"kind"}))


class Discrete(Recipe):
    """Every silo draws its rows from the same random network over discrete variables (003 §7.4)."""

    model_config = ConfigDict(extra="forbid", title="discrete: one random network for all silos")
    kind: Literal["discrete"] = "discrete"
    variables: int = Field(default=20, ge=2, title="Variables")
    silos: Count = 10
    rows: Rows = 1000
    seed: Seed = 0
    degree: Degree = 2.0
    levels: Levels = "2-5"
    concentration: Concentration = None
    latent: Latent = 0

    def make(self) -> FederatedData:
        """Draw the rows."""
        from fedbnsl.data.generators.discrete import discrete

        return discrete(**self.model_dump(exclude={"kind", "levels"}), levels=_range(self.levels))


class Surrogate(Recipe):
    """The rows of one discrete network, split by a hidden child of some variables (003 Def. 1)."""

    model_config = ConfigDict(extra="forbid", title="surrogate: silos that a hidden variable tells apart")
    kind: Literal["surrogate"] = "surrogate"
    silos: Count = 4
    rows: Annotated[int, Field(ge=2, title="Rows per silo", description="On average.")] = 2500
    seed: Seed = 0
    parents: int = Field(
        default=5, ge=0, title="Parents", description="Of the hidden variable; with none the silos are alike."
    )
    network: str | None = Field(
        default=None, title="Network", description="A published one instead of a random one.", examples=["alarm"]
    )
    variables: int = Field(default=20, ge=2, title="Variables", description="Of a random network.")
    degree: Degree = 2.0
    levels: Levels = "2-5"
    concentration: Concentration = None
    latent: Latent = 0

    def make(self) -> FederatedData:
        """Draw and split the rows."""
        from fedbnsl.data.networks.surrogate import surrogate

        return surrogate(**self.model_dump(exclude={"kind", "levels"}), levels=_range(self.levels))


class Sachs(Recipe):
    """Flow cytometry of 11 proteins (Sachs et al. 2005), dealt to silos or one silo an experimental condition."""

    model_config = ConfigDict(extra="forbid", title="sachs: 11 proteins, 7466 cells")
    kind: Literal["sachs"] = "sachs"
    silos: Count = 3
    by_condition: bool = Field(default=False, title="By condition", description="The nine conditions as nine silos.")
    truth: Literal["20", "18", "17", "17-fedc2sl"] = Field(
        default="20", title="Truth", description="Which graph counts as true, by its number of edges; 18 has a cycle."
    )
    transform: Literal["none", "log"] = Field(default="none", title="Transform")
    center: bool = Field(default=False, title="Centre", description="Subtract the mean over all cells.")
    discrete: bool = Field(
        default=False, title="Discrete", description="Draw rows of three levels from the published network instead."
    )
    rows: Annotated[int | None, Field(ge=2, title="Rows", description="Of the discrete data in all; 853 if empty.")] = (
        None
    )
    seed: Seed = 0

    def make(self) -> FederatedData:
        """Read or draw the cells, and deal them."""
        from fedbnsl.data.networks.sachs import discrete_sachs, sachs

        if not self.discrete:
            if self.rows is not None:
                raise BadInput(f"rows is '{self.rows}': only discrete data are drawn, the table has 7466 cells")
            return sachs(**self.model_dump(exclude={"kind", "discrete", "rows"}))
        for name in ("by_condition", "truth", "transform", "center"):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise BadInput(
                    f"{name} is '{getattr(self, name)}': discrete data are drawn from one network of 17 edges"
                )
        return discrete_sachs(self.silos, self.rows or 853, self.seed)


class Network(Recipe):
    """Rows drawn from a published network."""

    model_config = ConfigDict(extra="forbid", title="network: a published network")
    kind: Literal["network"] = "network"
    network: str = Field(title="Network", json_schema_extra={"enum": [*sorted(DISCRETE), *sorted(GAUSSIAN)]})
    silos: Count = 5
    rows: Rows = 1000
    seed: Seed = 0
    latent: Latent = 0

    def make(self) -> FederatedData:
        """Draw the rows."""
        from fedbnsl.data.networks.published import network

        return network(self.network, self.silos, self.rows, self.seed, self.latent)


class Lucas(Recipe):
    """Rows of LUCAS, a made-up study of lung cancer, as observed or with some variables set (003 §7.5)."""

    model_config = ConfigDict(extra="forbid", title="lucas: 12 variables, for causal feature selection")
    kind: Literal["lucas"] = "lucas"
    version: Literal["0", "1", "2"] = Field(
        default="0", title="Version", description="0 as observed, 1 with four variables set, 2 with six."
    )
    silos: Count = 4
    rows: Rows = 500
    seed: Seed = 0

    def make(self) -> FederatedData:
        """Draw the rows."""
        from fedbnsl.data.networks.lucas import lucas

        return lucas(self.version, self.silos, self.rows, self.seed)


class Split(Recipe):
    """A table somebody has, dealt to silos: equal parts, skewed parts, given sizes, or by a column."""

    model_config = ConfigDict(extra="forbid", title="split: a table of yours")
    kind: Literal["split"] = "split"
    table: str = Field(title="Table", description="A .csv or .parquet file with a header.")
    silos: Annotated[int | None, Field(title="Silos", description="Deal the rows to this many.")] = None
    sizes: Annotated[list[int] | None, Field(title="Sizes", description="Rows of each silo.")] = None
    concentration: Annotated[
        float | None, Field(title="Concentration", description="Dirichlet-skewed sizes: the smaller, the more uneven.")
    ] = None
    by: Annotated[str | None, Field(title="By column", description="A silo for every value of this column.")] = None
    skew: Annotated[
        str | None, Field(title="Skewed column", description="Spread each of its levels unevenly over the silos.")
    ] = None
    data_kind: Annotated[
        Literal["continuous", "discrete"] | None,
        Field(title="Kind of data", description="By default what the table looks like: columns of words are discrete."),
    ] = None
    truth: Annotated[str | None, Field(title="Truth", description="A file source,target of the true graph.")] = None
    seed: Seed = 0

    def make(self) -> FederatedData:
        """Read and deal the rows."""
        from fedbnsl.data.splitting.partition import split_table

        options = self.model_dump(exclude={"kind", "table", "data_kind", "truth"})
        truth = Path(self.truth) if self.truth else None
        return split_table(Path(self.table), **options, kind=self.data_kind, truth=truth)


AnyRecipe = Annotated[
    Homogeneous | Heterogeneous | Discrete | Surrogate | Sachs | Network | Lucas | Split, Field(discriminator="kind")
]
KINDS: dict[str, type[Recipe]] = {
    "homogeneous": Homogeneous,
    "heterogeneous": Heterogeneous,
    "discrete": Discrete,
    "surrogate": Surrogate,
    "sachs": Sachs,
    "network": Network,
    "lucas": Lucas,
    "split": Split,
}


def recipe(kind: str, **options: Any) -> Recipe:
    """Return the recipe of `kind` with `options`; raises `BadInput` for an unknown kind, option or value."""
    from .learn import checked

    if kind not in KINDS:
        raise BadInput(f"there is no kind of data '{kind}': there are {', '.join(KINDS)}")
    made: Recipe = checked(KINDS[kind], **options)
    return made


def _range(levels: str) -> tuple[int, int]:
    fewest, _, most = levels.partition("-")
    return int(fewest), int(most or fewest)
