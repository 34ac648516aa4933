"""The recipe of `prepare interventions`: silos in which experiments set variables."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from fedbnsl.data.defaults import GRAPH, Experiment, Graph

from .model import DataRecipe, Edges, OnCommandLine, Rows, Seed, Silos, Variables

if TYPE_CHECKING:
    from fedbnsl.data.federated import FederatedData


class Interventions(DataRecipe):
    """Draw rows from one linear model; in some silos, experiments change the mechanisms of targets."""

    model_config = ConfigDict(title="interventions: silos in which experiments set variables")
    renamed: ClassVar[Mapping[str, str]] = MappingProxyType({"targeted": "targeted_silos"})
    kind: Literal["interventions"] = "interventions"
    variables: Variables = 10
    silos: Silos = 6
    rows: Rows = 1000
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
            description="Change of a target's mechanism: randomised, independent of its causes; soft, other weights "
            "and more noise; inhibiting, weaker effects of its causes.",
        ),
        OnCommandLine(value="NAME"),
    ] = "randomised"
    targeted_silos: Annotated[
        int,
        Field(ge=0, title="Targeted silos", description="Number of silos in which an experiment sets variables."),
        OnCommandLine(value="N"),
    ] = 4
    strength: Annotated[
        float,
        Field(title="Strength", description="Inhibiting experiments: factor of the effects on a target."),
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
