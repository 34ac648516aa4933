"""The recipes of `prepare` for time series: drawn from random models, or recorded."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field

from fedbnsl.data.defaults import DECAY, EVENT_DEGREE, INTRA_DEGREE, LAGGED_DEGREE, NOISE

from .model import DataRecipe, Noisy, OnCommandLine, Seed, Silos, Variables

if TYPE_CHECKING:
    from fedbnsl.data.federated import FederatedData


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
