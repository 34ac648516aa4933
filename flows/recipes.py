"""What the flow `prepare` can make: one form a kind of data set, told apart by `kind`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData

Seed = Annotated[int, Field(ge=0, title="Seed", description="Same seed, same data, bit for bit.")]
Count = Annotated[int, Field(ge=1, title="Silos", description="How many owners hold a part of the rows.")]
Rows = Annotated[int, Field(ge=2, title="Rows per silo")]
Edges = Annotated[
    int | None, Field(title="Expected edges", description="Of the random graph; by default as many as variables.")
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
        from fedbnsl.data.generate import homogeneous

        return homogeneous(**self.model_dump(exclude={"kind"}))


class Heterogeneous(_Synthetic):
    """The silos share a random graph, each with weights of its own around the common ones."""

    model_config = ConfigDict(extra="forbid", title="heterogeneous: one graph, weights of each silo")
    kind: Literal["heterogeneous"] = "heterogeneous"
    weight_variance: float = Field(default=0.1, ge=0, title="Variance of the weights between silos")

    def make(self) -> FederatedData:
        """Draw the rows."""
        from fedbnsl.data.generate import heterogeneous

        return heterogeneous(**self.model_dump(exclude={"kind"}))


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
    seed: Seed = 0

    def make(self) -> FederatedData:
        """Read and deal the cells."""
        from fedbnsl.data.sachs import sachs

        return sachs(**self.model_dump(exclude={"kind"}))


class Network(Recipe):
    """Rows drawn from a published network."""

    model_config = ConfigDict(extra="forbid", title="network: a published Gaussian network")
    kind: Literal["network"] = "network"
    network: str = Field(
        title="Network", json_schema_extra={"enum": ["arth150", "ecoli70", "magic-irri", "magic-niab"]}
    )
    silos: Count = 5
    rows: Rows = 1000
    seed: Seed = 0

    def make(self) -> FederatedData:
        """Draw the rows."""
        from fedbnsl.data.networks import network

        return network(self.network, self.silos, self.rows, self.seed)


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
    seed: Seed = 0

    def make(self) -> FederatedData:
        """Read and deal the rows."""
        from fedbnsl.data.partition import split_table

        return split_table(Path(self.table), self.silos, self.sizes, self.concentration, self.by, self.seed)


AnyRecipe = Annotated[Homogeneous | Heterogeneous | Sachs | Network | Split, Field(discriminator="kind")]
KINDS: dict[str, type[Recipe]] = {
    "homogeneous": Homogeneous,
    "heterogeneous": Heterogeneous,
    "sachs": Sachs,
    "network": Network,
    "split": Split,
}


def recipe(kind: str, **options: Any) -> Recipe:
    """Return the recipe of `kind` with `options`; raises `BadInput` for an unknown kind, option or value."""
    from .settings import checked

    if kind not in KINDS:
        raise BadInput(f"there is no kind of data '{kind}': there are {', '.join(KINDS)}")
    made: Recipe = checked(KINDS[kind], **options)
    return made
