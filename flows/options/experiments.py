"""The recipe of `prepare interventions`: silos in which experiments change the mechanisms of variables."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field

from fedbnsl.data.defaults import GRAPH, Experiment, Graph

from .model import DataRecipe, Edges, OnCommandLine, Seed, Silos, Variables

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
