"""What the models of options have in common: how a value is refused, and how a field is written on the command line."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from fedbnsl.algorithms.errors import BadInput, shown

LARGEST = 2**63 - 1
"""the largest seed: all that keep it, such as messages and databases, hold whole numbers of 64 bits"""


class Options(BaseModel):
    """Options that a user can choose; a field's description is its meaning in the help, the forms and the docs."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class OnCommandLine:
    """How a field is written on the command line, where that is not `--its-name <type>`."""

    names: tuple[str, ...] = ()
    """the option's names; by default the field's"""
    value: str | None = None
    """what stands for the value in the help"""


def in_utf8(text: str) -> str:
    """Return `text`, raising `BadInput` for a path that is not UTF-8: no message, page or database takes it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{shown(text)} is a path that is not UTF-8 text: rename it") from None
    return text


@contextmanager
def one_line() -> Iterator[None]:
    """Raise `BadInput` for options that are refused within the block: one line with the first field and its value."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), BadInput):
            raise cause from None
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(
            f"{place} is {shown(str(first['input']))}: {first['msg'][0].lower()}{first['msg'][1:]}"
        ) from None


Model = TypeVar("Model", bound=Options)


def checked(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Return the `model` of values from outside, by name; raises `BadInput` as `one_line` does."""
    with one_line():
        return model(**values)
