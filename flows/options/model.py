"""Base classes of option models, the form of a field on the command line, and fields that several recipes have."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedbnsl.algorithms.core.settings import Count, CountOrNone, NonNegative
from fedbnsl.algorithms.errors import BadInput, choices_text, quoted
from fedbnsl.data.defaults import Noise

if TYPE_CHECKING:
    from fedbnsl.data.federated import FederatedData
    from fedbnsl.data.folder.folder import FileFormat


LARGEST_SEED = 2**63 - 1
"""the largest seed: messages and databases store signed integers of 64 bits"""


class Options(BaseModel):
    """Options for users: as in `Settings`, the type of a field states its range, and its docstring its meaning.

    The docstrings appear in the help, in Prefect's forms and in the documentation. The title of a field in a form is
    its name, unless the field has another title. A model is built at its first use, because most commands use few.
    """

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        field_title_generator=lambda name, _: name.replace("_", " ").capitalize(),
        defer_build=True,
    )
    headings: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """by field, the heading in the help for this field and those after it, up to the next field with a heading"""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Join the lines of each docstring of a field."""
        for field in cls.model_fields.values():
            field.description = field.description and " ".join(field.description.split())


class DataRecipe(Options):
    """A kind of data set with its options; it builds the data set that it describes.

    Generators are imported when a data set is built, so that the command line shows its help without numpy.
    """

    @abstractmethod
    def build(self) -> "FederatedData":
        """The data set; raises `BadInput` for inconsistent options."""

    def arguments(self, *without: str) -> dict[str, Any]:
        """The options by name, as arguments of a generator."""
        return self.model_dump(exclude={"kind", "form", *without})

    @property
    def file_form(self) -> "FileFormat":
        """The file format of the silos' rows."""
        form: FileFormat = getattr(self, "form", "csv")
        return form


@dataclass(frozen=True)
class OnCommandLine:
    """The form of a field on the command line, if this form differs from `--<name> <type>`."""

    names: tuple[str, ...] = ()
    """the names of the option; if empty, its name is the name of the field, with hyphens"""
    value: str | None = None
    """the placeholder of the value in the help"""


def in_utf8(text: str) -> str:
    """`text`; raises `BadInput` for a path that is not UTF-8, which messages, pages and databases do not accept."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{quoted(text)} is a path that is not UTF-8 text: rename it") from None
    return text


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn a `ValidationError` in the block into a `BadInput` of one line: the first invalid field, and its value."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), BadInput):
            raise cause from None
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] == "missing":
            raise BadInput(f"{place} is missing: give one") from None
        raise BadInput(
            f"{place} is {quoted(str(first['input']))}: {first['msg'][0].lower()}{first['msg'][1:]}"
        ) from None


Model = TypeVar("Model", bound=Options)


def validate(model: type[Model], values: Mapping[str, Any]) -> Model:
    """The `model` with the `values` of options by name. Raises `BadInput` for an unknown option or an invalid value."""
    for name in values:
        known = name in model.model_fields
        if not known and model.model_config.get("extra") == "forbid":
            raise BadInput(f"unknown option {quoted(name)}: {choices_text(name, model.model_fields)}")
    with one_line_errors():
        return model(**values)


Seed = Annotated[
    CountOrNone,
    Field(le=LARGEST_SEED, description="Random seed: the same seed gives the same data, bit for bit."),
]
Silos = Annotated[Count, Field(description="Number of silos.")]
Rows = Annotated[int, Field(ge=2, title="Rows per silo", description="Number of rows of each silo.")]
Variables = Annotated[int, Field(ge=2, description="Number of variables.")]
Edges = Annotated[
    int | None,
    Field(
        title="Expected edges",
        description="Expected number of edges in the random graph; default: as many as variables.",
    ),
]
Latent = Annotated[
    CountOrNone,
    Field(
        title="Latent variables",
        description="Number of variables to hide, common causes first. If any are hidden, the true graph is a PAG.",
    ),
]
Degree = Annotated[
    NonNegative, Field(description="Mean number of neighbours in the random graph."), OnCommandLine(value="MEAN")
]
Levels = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{1,4}(-[0-9]{1,4})?$",
        description="Levels of each variable: a number such as 3, or a range such as 2-5 to draw it from.",
    ),
    OnCommandLine(value="N|N-N"),
]
Concentration = Annotated[
    float | None,
    Field(
        description="Concentration of the Dirichlet distribution of the probability tables; "
        "default: drawn for each row of a table, from 0.1 to 1.",
    ),
    OnCommandLine(value="ALPHA"),
]
Noisy = Annotated[Noise, Field(description="Distribution of the errors of the linear model.")]
Form = Annotated[Literal["csv", "parquet"], Field(description="File format of the silos' rows.")]
