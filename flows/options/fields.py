"""Options that several recipes of `prepare` have in common."""

from typing import Annotated, Literal

from pydantic import Field

from fedbnsl.data.defaults import Noise

from .model import LARGEST, OnCommandLine

Seed = Annotated[
    int,
    Field(ge=0, le=LARGEST, title="Seed", description="Same seed, same data, bit for bit."),
    OnCommandLine(value="N"),
]
Silos = Annotated[
    int, Field(ge=1, title="Silos", description="How many owners hold a part of the rows."), OnCommandLine(value="N")
]
Rows = Annotated[
    int, Field(ge=2, title="Rows per silo", description="How many rows each silo holds."), OnCommandLine(value="N")
]
Variables = Annotated[
    int, Field(ge=2, title="Variables", description="How many variables there are."), OnCommandLine(value="N")
]
Edges = Annotated[
    int | None,
    Field(
        title="Expected edges",
        description="Expected number of edges in the random graph; default: as many as variables.",
    ),
    OnCommandLine(value="N"),
]
Latent = Annotated[
    int,
    Field(
        ge=0,
        title="Latent variables",
        description="How many variables to hide, common causes first; the truth is then a PAG.",
    ),
    OnCommandLine(value="N"),
]
Degree = Annotated[
    float,
    Field(ge=0, title="Degree", description="Mean number of neighbours in the random graph."),
    OnCommandLine(value="MEAN"),
]
Levels = Annotated[
    str,
    Field(
        title="Levels",
        pattern=r"^[0-9]{1,4}(-[0-9]{1,4})?$",
        description="Levels of each variable: a number, as 3, or a range to draw it from, as 2-5.",
    ),
    OnCommandLine(value="N|N-N"),
]
Concentration = Annotated[
    float | None,
    Field(
        title="Concentration",
        description="Concentration of the Dirichlet distribution of the probability tables; "
        "default: drawn anew for each row of a table, from 0.1 to 1.",
    ),
    OnCommandLine(value="ALPHA"),
]
Noisy = Annotated[
    Noise,
    Field(title="Noise", description="Distribution of the errors of the linear model."),
    OnCommandLine(value="NAME"),
]
Form = Annotated[
    Literal["csv", "parquet"],
    Field(title="Form", description="What kind of file each silo's rows are written to."),
    OnCommandLine(value="NAME"),
]
