"""What `learn` can be told: the command line, the Python signature and Prefect's form are all made from this."""

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, field_validator

from fedbnsl.algorithms.errors import BadInput

from .model import LARGEST, OnCommandLine, Options, checked, in_utf8

Value = bool | int | float | str
Missing = Literal["model", "complete-rows", "refuse"]
"""as `fedbnsl.data.folder.declared` has it, which the command line's help does not import"""


def _list_algorithms(schema: dict[str, Any]) -> None:
    # Imported late: the registry brings numpy, which the command line's help does not need.
    from fedbnsl.algorithms.choose import AUTO
    from fedbnsl.algorithms.registry import ALGORITHMS

    schema["enum"] = [AUTO, *sorted(ALGORITHMS)]


Algorithm = Annotated[
    str,
    Field(
        title="Algorithm",
        description="How to learn: one of those that `fedbnsl algorithms` lists; auto: as suits the data.",
        json_schema_extra=_list_algorithms,
    ),
    OnCommandLine(("--algorithm", "-a"), "NAME"),
]


Columns = tuple[str, ...]
Listed = BeforeValidator(lambda given: given.split(",") if isinstance(given, str) else given)


class LearnOptions(Options):
    """How to learn, whatever the data."""

    algorithm: Algorithm = "auto"
    params: Annotated[
        dict[str, Value],
        Field(
            title="Settings of the algorithm",
            description="A parameter of the algorithm that is to differ from its default; "
            "`fedbnsl algorithms NAME` explains them.",
            examples=[{"rho1": 1000, "l1": 0.1}],
        ),
        OnCommandLine(("--param", "-p"), "KEY=VALUE"),
    ] = Field(default_factory=dict)
    epsilon: Annotated[
        float | None,
        Field(gt=0, title="ε", description="Privacy budget ε of this run; see `fedbnsl privacy plan`."),
        OnCommandLine(value="E"),
    ] = None
    delta: Annotated[
        float | None,
        Field(
            gt=0, lt=1, title="δ", description="Privacy parameter δ; default: 1/n², n the rows of the smallest silo."
        ),
        OnCommandLine(value="D"),
    ] = None
    budget: Annotated[
        float | None,
        Field(gt=0, title="Budget", description="The most ε that all runs on the same rows may spend together."),
        OnCommandLine(value="E"),
    ] = None
    budget_delta: Annotated[
        float | None,
        Field(
            gt=0,
            lt=1,
            title="δ of the budget",
            description="The δ at which the budget holds, and the largest of a run; default: 1/n², n the silo's rows.",
        ),
        OnCommandLine(value="D"),
    ] = None
    secure: Annotated[
        bool,
        Field(
            title="Secure aggregation",
            description="Mask the silos' replies, so that the coordinator sees only their sum.",
        ),
    ] = False
    ignore: Annotated[
        Columns,
        Field(title="Ignore", description="Columns to leave out, as if they were not there; commas between them."),
        Listed,
        OnCommandLine(value="COLUMNS"),
    ] = ()
    only: Annotated[
        Columns,
        Field(title="Only", description="The columns to learn from, all others left out; commas between them."),
        Listed,
        OnCommandLine(value="COLUMNS"),
    ] = ()
    missing: Annotated[
        Missing,
        Field(
            title="Empty cells",
            description="What to do about empty cells: keep them for the learner's model, leave out the rows that have "
            "one, or refuse them.",
        ),
    ] = "model"
    knowledge: Annotated[
        str | None,
        Field(
            title="Background knowledge",
            description="CSV file rule,source,target of what is known: required, forbidden, no-parents, tier.",
        ),
        OnCommandLine(value="FILE"),
    ] = None
    required_arcs: Annotated[
        str | None,
        Field(title="Required arcs", description="Arcs that are there, such as 'A->B,B->C'."),
        OnCommandLine(("--required",), "ARCS"),
    ] = None
    forbidden_arcs: Annotated[
        str | None,
        Field(title="Forbidden arcs", description="Arcs that cannot be, such as 'B->A'."),
        OnCommandLine(("--forbidden",), "ARCS"),
    ] = None
    tiers: Annotated[
        str | None,
        Field(title="Tiers", description="What comes before what, such as 'age,sex<smokes<cancer'."),
        OnCommandLine(value="TIERS"),
    ] = None
    no_parents: Annotated[
        str | None,
        Field(title="No parents", description="Variables that nothing causes, such as 'age,sex'."),
        OnCommandLine(value="NAMES"),
    ] = None
    parameters: Annotated[
        bool,
        Field(
            title="Parameters of the structure",
            description="Also estimate the parameters of the learned structure, in one more exchange.",
        ),
    ] = True
    diagnose: Annotated[
        bool,
        Field(
            title="Diagnoses",
            description="Also ask the silos what the data can support, and which silo disagrees: two more exchanges.",
        ),
    ] = True
    smoothing: Annotated[
        float,
        Field(
            gt=0,
            title="Smoothing",
            description="Equivalent sample size of the Dirichlet prior of probability tables, in rows.",
        ),
        OnCommandLine(value="ROWS"),
    ] = 1.0
    bootstrap: Annotated[
        int,
        Field(
            ge=0,
            le=10_000,
            title="Resamples",
            description="Learn again from so many random halves of each silo's rows, 2 or more, and say how many of "
            "them have each edge; 0: none.",
        ),
        OnCommandLine(value="N"),
    ] = 0
    seed: Annotated[
        int,
        Field(
            ge=0,
            le=LARGEST,
            title="Seed",
            description="Same seed, same result, bit for bit; private noise has no seed.",
        ),
        OnCommandLine(value="N"),
    ] = 0
    out: Annotated[
        str | None,
        Field(title="Output folder", description="New folder for the results; default: runs/<name>."),
        AfterValidator(lambda given: given and in_utf8(given)),
        OnCommandLine(value="DIR"),
    ] = None
    name: Annotated[
        str | None,
        Field(
            title="Name",
            pattern=r"^[^/\\\s.\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]*$",
            description="Name of the run; default: algorithm, data set, seed and time.",
        ),
        OnCommandLine(value="NAME"),
    ] = None
    federation: Annotated[
        str | None,
        Field(
            title="Federation",
            description="The coordinator's file, federation.toml, of silos on their owners' machines; default: workers "
            "on this machine.",
        ),
        OnCommandLine(value="FILE"),
    ] = None
    silos: Annotated[
        Columns,
        Field(title="Silos", description="The silos that take part, all others left out; commas between them."),
        Listed,
        OnCommandLine(value="NAMES"),
    ] = ()
    quorum: Annotated[
        int | None,
        Field(
            ge=1,
            title="Quorum",
            description="Go on without silos that stay away as long as so many are left; default: at the start all are "
            "needed, later as many as the algorithm needs.",
        ),
        OnCommandLine(value="N"),
    ] = None
    silo_patience: Annotated[
        float,
        Field(gt=0, title="Patience (s)", description="Seconds to wait for a silo that stays away."),
        OnCommandLine(value="SECONDS"),
    ] = 60.0
    allow_cyclic_truth: Annotated[
        bool,
        Field(title="Allow a cyclic truth", description="Compare with the true graph even if it has a directed cycle."),
    ] = False

    @field_validator("bootstrap")
    @classmethod
    def _none_or_several(cls, resamples: int) -> int:
        if resamples == 1:
            raise BadInput("bootstrap is 1: one resample says nothing of chance; give 2 or more, or 0 for none")
        return resamples

    @field_validator("algorithm")
    @classmethod
    def _known(cls, name: str) -> str:
        from fedbnsl.algorithms import registry
        from fedbnsl.algorithms.choose import AUTO

        if name == AUTO:
            return name
        if name in registry.STEPS:
            raise BadInput(f"algorithm '{name}' is a step of other runs: there are {', '.join(registry.ALGORITHMS)}")
        registry.entry(name)
        return name

    def on(self, data: str) -> "LearnSettings":
        """Return the settings of a run with these options on the federated data set `data`, a folder."""
        return checked(LearnSettings, {**dict(self), "data": data})


class DataSet(Options):
    """On which data to learn."""

    data: Annotated[str, AfterValidator(in_utf8)] = Field(
        title="Data set",
        description="Folder with one .csv or .parquet file a silo, all with the same columns; optional truth.csv.",
        examples=["example"],
    )


class LearnSettings(LearnOptions, DataSet):
    """Learn the structure of a Bayesian network from the silos of a federated data set."""

    model_config = ConfigDict(title="Learn")

    resume: bool = Field(
        default=False, title="Resume", description="Continue the interrupted run whose output folder is given above."
    )

    def named(self, when: datetime | None = None) -> "LearnSettings":
        """Return the same settings with the name and the output folder filled in."""
        name = self.name or run_name(self.algorithm, self.data, self.seed, when or datetime.now())
        return self.model_copy(update={"name": name, "out": self.out or str(Path("runs") / name)})


class FeaturesOptions(LearnOptions):
    """How to learn if only the Markov blanket of one variable is wanted."""

    algorithm: Algorithm = "fed-pc"
    parameters: bool = False
    diagnose: bool = False


def run_name(algorithm: str, data: str, seed: int, when: datetime) -> str:
    """Return the name of a run: algorithm, data set, seed, time."""
    of = re.sub(r"[\x00-\x1f\x7f\\]", "_", Path(data).absolute().name)[:100]
    return f"{algorithm}-{of}-seed{seed}-{when:%Y%m%d-%H%M%S}"
