"""Options of a command from the fields of a model, so that the model is the only place that declares them."""

import inspect
from collections.abc import Callable
from functools import wraps
from types import NoneType
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

import typer
from pydantic.fields import FieldInfo

from fedbnsl.algorithms.errors import BadInput

from ..options.model import OnCommandLine, Options, validate
from .completion import COMPLETIONS

Model = TypeVar("Model", bound=Options)
Own = ParamSpec("Own")


def options_from_model(
    model: type[Model], *, only: tuple[str, ...] = (), without: tuple[str, ...] = ()
) -> Callable[[Callable[Concatenate[Model, Own], None]], Callable[..., None]]:
    """A decorator for a command whose first parameter is a `model`, parsed from options named like its fields.

    Each field in `only`, or each field of the model if `only` is empty, becomes an option unless it is in `without`.
    Fields without an option have their defaults. The help lists the options of the model after the command's own
    required parameters, and before its other parameters.
    """
    fields = {name: field for name, field in model.model_fields.items() if not only or name in only}
    fields = {name: field for name, field in fields.items() if name not in without}
    headings = headings_of(model)

    def decorate(command: Callable[Concatenate[Model, Own], None]) -> Callable[..., None]:
        @wraps(command)
        def run(**words: Any) -> None:
            given = {name: value_of(field, words.pop(name)) for name, field in fields.items()}
            command(validate(model, given), **words)  # type: ignore[call-arg]

        own = own_parameters(command)
        first = [one for one in own if one.default is inspect.Parameter.empty]
        rest = [one for one in own if one.default is not inspect.Parameter.empty]
        parameters = [*first, *(parameter(name, field, headings[name]) for name, field in fields.items()), *rest]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def headings_of(model: type[Options]) -> dict[str, str]:
    """By field of the model, the heading of its option in the help; "" for fields before the first heading."""
    headings, heading = dict[str, str](), ""
    for name in model.model_fields:
        headings[name] = heading = model.headings.get(name, heading)
    return headings


def own_parameters(command: Callable[..., None]) -> list[inspect.Parameter]:
    """The parameters of `command` without the first one, which is the model."""
    hints = get_type_hints(command, include_extras=True)
    _, *own = inspect.signature(command).parameters.values()
    return [one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[one.name]) for one in own]


def parameter(name: str, field: FieldInfo, heading: str | None) -> inspect.Parameter:
    """The parameter from which typer makes the option of `field`, which is below `heading` in the help."""
    kind, many = plain(field.annotation), repeated(field)
    written = next((one for one in field.metadata if isinstance(one, OnCommandLine)), OnCommandLine())
    flag = f"--{name.replace('_', '-')}"
    names = written.names or ((f"{flag}/--no-{flag[2:]}",) if kind is bool and field.default else (flag,))
    choices = f" One of: {', '.join(map(str, get_args(kind)))}." if get_origin(kind) is Literal else ""
    metavar = written.value or ("NAME" if choices else "N" if kind is int else None)
    completed = COMPLETIONS.get(name) or ((lambda: list(get_args(kind))) if choices else None)
    shown = list[str] if many else str if get_origin(kind) in (Literal, list) else kind
    default = inspect.Parameter.empty if field.is_required() else None if many else field.default
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[
            shown if default is inspect.Parameter.empty or default is not None else shown | None,
            typer.Option(
                *names,
                metavar=metavar,
                help=f"{field.description}{choices}",
                autocompletion=completed,
                rich_help_panel=heading or None,
            ),
        ],
    )


def plain(annotation: Any) -> Any:
    """`annotation` without None: the type of the option if it is given."""
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    optional = NoneType in get_args(annotation) and len(kinds) == 1
    return kinds[0] if optional else annotation


def repeated(field: FieldInfo) -> bool:
    """Whether the option can be repeated: for a dictionary, such as `-p KEY=VALUE`, and for a tuple of names."""
    return get_origin(plain(field.annotation)) is dict or plain(field.annotation) == tuple[str, ...]


def value_of(field: FieldInfo, word: Any) -> Any:
    """The value for `field` from its `word` on the command line; the items of a list are separated by commas."""
    if get_origin(plain(field.annotation)) is dict:
        return pairs(word)
    if repeated(field):
        return [name for one in word for name in one.split(",")] if word else field.default
    if get_origin(plain(field.annotation)) is list and word is not None:
        return word.split(",")
    return word


def pairs(given: list[str] | None) -> dict[str, str]:
    """The parameters in `KEY=VALUE` words; raises `BadInput` for a word of another form."""
    found = {}
    for word in given or ():
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise BadInput(f"-p {word}: a parameter is given as KEY=VALUE")
        found[key] = value
    return found
