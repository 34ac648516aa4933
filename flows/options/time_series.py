"""The recipes of `prepare` for time series: drawn from random models, or recorded."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from fedbnsl.data.defaults import DECAY, INTRA_DEGREE, LAGGED_DEGREE, NOISE

from .fields import Noisy, Seed, Silos, Variables
from .model import OnCommandLine, Options


class Dynamic(Options):
    """Draw time series from a stable random model: graphs within a time and from earlier times (Chen et al. 2025)."""

    model_config = ConfigDict(title="dynamic: time series of a random model")
    kind: Literal["dynamic"] = "dynamic"
    variables: Variables = 10
    silos: Silos = 6
    rows: Annotated[
        int,
        Field(
            ge=2,
            title="Rows per silo",
            description="Rows of each silo that have all their lags before them: every series begins with as many rows "
            "more as there are lags.",
        ),
        OnCommandLine(value="N"),
    ] = 256
    seed: Seed = 0
    lags: Annotated[
        int,
        Field(ge=1, title="Lags", description="How many steps back a variable's causes may lie."),
        OnCommandLine(value="N"),
    ] = 1
    degree: Annotated[
        float,
        Field(ge=0, title="Degree", description="Mean number of neighbours in the graph within a time."),
        OnCommandLine(value="MEAN"),
    ] = INTRA_DEGREE
    lagged_degree: Annotated[
        float,
        Field(gt=0, title="Lagged degree", description="Mean number of variables that one drives at each lag."),
        OnCommandLine(value="MEAN"),
    ] = LAGGED_DEGREE
    decay: Annotated[
        float,
        Field(ge=1, title="Decay", description="How many times smaller the weights are at the next lag."),
        OnCommandLine(value="ETA"),
    ] = DECAY
    heterogeneity: Annotated[
        float,
        Field(
            ge=0,
            title="Heterogeneity",
            description="Standard deviation of each silo's weights around the shared ones, on the shared graph.",
        ),
        OnCommandLine(value="SIGMA"),
    ] = 0.0
    own_structures: Annotated[
        bool, Field(title="Own structures", description="Draw a graph and weights of its own for every silo.")
    ] = False
    noise: Noisy = NOISE
    series: Annotated[
        int,
        Field(ge=1, title="Series per silo", description="Draw the rows of a silo as so many separate series."),
        OnCommandLine(value="N"),
    ] = 1


class Series(Options):
    """Deal recorded time series of yours to silos: whole, or one series in consecutive pieces."""

    model_config = ConfigDict(title="series: recorded time series of yours")
    kind: Literal["series"] = "series"
    table: Annotated[
        str,
        Field(
            title="Table",
            description="A .csv or .parquet file with a row for each time of each series, a .mat file of NetSim, or a "
            ".tsv file of the DREAM4 challenge.",
        ),
        OnCommandLine(value="FILE"),
    ]
    series: Annotated[
        str | None,
        Field(
            title="Series column",
            description="The column that tells the series apart; default: the one called series, if any.",
        ),
        OnCommandLine(value="COLUMN"),
    ] = None
    time: Annotated[
        str | None,
        Field(
            title="Time column",
            description="The column of times, numbers or dates; default: the one called time, or else rows follow each "
            "other.",
        ),
        OnCommandLine(value="COLUMN"),
    ] = None
    silos: Annotated[
        int | None,
        Field(
            ge=1,
            title="Silos",
            description="Deal whole series to this many silos, in their order, or cut a single one into so many "
            "consecutive pieces; default: a silo for every series.",
        ),
        OnCommandLine(value="N"),
    ] = None
    by: Annotated[
        str | None,
        Field(title="By column", description="Make a silo of every value of this column."),
        OnCommandLine(value="COLUMN"),
    ] = None
    truth: Annotated[
        str | None,
        Field(
            title="Truth",
            description="File of the true graph: .csv with source,target[,weight][,lag] in every line, or .json with "
            "edges.",
        ),
        OnCommandLine(value="FILE"),
    ] = None
    standardise: Annotated[
        bool,
        Field(
            title="Standardise",
            description="Give every column of every series the mean 0 and the standard deviation 1: for recordings "
            "whose levels and units say nothing, such as those of functional MRI.",
        ),
    ] = False
