"""What the flow `learn` can be told: the form in the Prefect UI, and the checks of every value."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput

Algorithm = Annotated[str, Field(json_schema_extra={"enum": sorted(registry.ALGORITHMS)})]
Value = bool | int | float | str


class LearnSettings(BaseModel):
    """Learn the structure of a Bayesian network from the silos of a federated data set."""

    model_config = ConfigDict(extra="forbid", title="Learn", use_attribute_docstrings=False)

    data: str = Field(
        title="Data set",
        description="Folder with one .csv or .parquet file a silo, all with the same columns; optional truth.csv.",
        examples=["example"],
    )
    algorithm: Algorithm = Field(
        default="fed-sparse", title="Algorithm", description="One of those that `fedbnsl algorithms` lists."
    )
    params: dict[str, Value] = Field(
        default_factory=dict,
        title="Parameters",
        description="Settings of the algorithm that differ from its defaults, by name.",
        examples=[{"rho1": 1000, "l1": 0.1}],
    )
    epsilon: float | None = Field(
        default=None, gt=0, title="ε", description="Privacy budget of the run, for the algorithms that are private."
    )
    delta: float | None = Field(
        default=None, gt=0, lt=1, title="δ", description="By default 1/n², n the rows of the smallest silo."
    )
    budget: float | None = Field(
        default=None, gt=0, title="Budget", description="The most ε that all runs on the same rows may spend together."
    )
    secure: bool = Field(
        default=False,
        title="Secure aggregation",
        description="Mask the silos' replies, so that the coordinator sees only their sum.",
    )
    parameters: bool = Field(
        default=True,
        title="Parameters",
        description="Learn the parameters of the structure, too, in one more exchange of sums.",
    )
    smoothing: float = Field(
        default=1.0, gt=0, title="Smoothing", description="Rows that the prior of a probability table counts for."
    )
    seed: int = Field(default=0, ge=0, title="Seed", description="Same seed, same result, bit for bit.")
    name: str | None = Field(
        default=None,
        title="Name",
        pattern=r"^[^/\\\s.][^/\\]*$",
        description="Name of the run; by default algorithm, data set, seed and time.",
    )
    out: str | None = Field(
        default=None, title="Output folder", description="Where the results are written; by default runs/<name>."
    )
    allow_cyclic_truth: bool = Field(
        default=False, title="Allow a cyclic truth", description="Compare even if the true graph has a directed cycle."
    )
    dask_address: str | None = Field(
        default=None,
        title="Dask scheduler",
        description="Address of a scheduler whose workers host the silos; by default workers start on this machine.",
        examples=["tcp://10.0.0.1:8786"],
    )
    silo_patience: float = Field(
        default=60, gt=0, title="Patience (s)", description="How long a silo whose worker died may stay away."
    )
    resume: bool = Field(
        default=False, title="Resume", description="Continue the interrupted run whose output folder is given above."
    )

    @field_validator("algorithm")
    @classmethod
    def _known(cls, name: str) -> str:
        if name in registry.STEPS:
            raise BadInput(f"algorithm '{name}' is a step of other runs: there are {', '.join(registry.ALGORITHMS)}")
        registry.entry(name)
        return name

    @property
    def spec(self) -> AlgorithmSpec:
        """The algorithm with its settings, the privacy budget among them. Raises `BadInput` for what it cannot be."""
        return registry.specify(self.algorithm, self.params, self.epsilon, self.delta)

    def named(self, when: datetime | None = None) -> "LearnSettings":
        """Return the same settings with the name and the output folder filled in."""
        name = self.name or run_name(self.algorithm, self.data, self.seed, when or datetime.now())
        return self.model_copy(update={"name": name, "out": self.out or str(Path("runs") / name)})


def run_name(algorithm: str, data: str, seed: int, when: datetime) -> str:
    """Return the name of a run: algorithm, data set, seed, time."""
    return f"{algorithm}-{Path(data).absolute().name}-seed{seed}-{when:%Y%m%d-%H%M%S}"


def checked(model: type[BaseModel], **values: Any) -> Any:
    """Return `model(**values)`; raises `BadInput` with one line, naming the first field that is wrong and its value."""
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), BadInput):
            raise cause from None
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{place} is '{first['input']}': {first['msg'][0].lower()}{first['msg'][1:]}") from None
