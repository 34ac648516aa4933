"""`learn` and `prepare` in Python: the options of the command line as keywords, data in memory or in a folder.

Data in memory are a `FederatedData`, a dict or list of tables (one per silo), or one table with a column that names the
silo of each row. A table is a pandas DataFrame, an object with `to_pandas`, or a two-dimensional array. Tables are
written to a temporary folder and read back, so that the rules for folders apply. The algorithm is a name, or a settings
object of `fedbnsl.settings`.
"""

import inspect
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import MISSING, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Union, Unpack, overload
from uuid import uuid4

import numpy as np

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.choose import AUTO
from fedbnsl.algorithms.core.spec import unknown_parameter
from fedbnsl.algorithms.errors import MAX_LINE_LENGTH, BadInput, foreign_text
from fedbnsl.data.defaults import Dates, DifferentColumns, Missing, Outliers, SmallSilos
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.about import NO_DECLARATION, declarations
from fedbnsl.data.folder.folder import files_of, read_folder, write_folder
from fedbnsl.tracking.outputs import write_outputs

from ..engines.inline import job_inline, run_inline
from ..engines.resuming import repeated, run_lock
from ..job.check import check, check_options
from ..job.reading import reading_of
from ..job.run import Listener
from ..job.signing import write_unsigned
from ..options.in_python import as_fields, message_in_python
from ..options.learn import (
    Columns,
    LearnOptions,
    LearnSettings,
    Platform,
    SmallCells,
    TuneBy,
)
from ..options.model import one_line_errors
from ..options.prepare import recipe
from ..servers.environment import prepare_environment
from ..start import check_inline, check_out, learn_with_prefect, orchestration_missing, precheck
from .evaluation import as_structure
from .learned import Learned
from .progress import progress_line
from .tables import IN_MEMORY, tables_in_memory

if TYPE_CHECKING:
    import pandas as pd
    from _typeshed import DataclassInstance
    from numpy.typing import NDArray


def requested_algorithm(algorithm: Any, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of the algorithm and its given parameters, from a name and keywords, or from a settings object.

    Of a settings object, only the fields that differ from their defaults are returned, so that the run can set other
    fields, such as the seed. Raises `BadInput` if `algorithm` is neither a name nor settings, if there are keywords in
    addition to a settings object, and for a keyword that is a misspelt option.
    """
    if isinstance(algorithm, str):
        check_keywords(algorithm, params)
        return algorithm, dict(params)
    name = name_of(algorithm)
    if params:
        one = next(iter(params))
        raise BadInput(f"{one} is given beside {type(algorithm).__name__}(...): pass it there, as {one}=...")
    changed = {field.name: getattr(algorithm, field.name) for field in fields(algorithm) if field.init}
    defaults = {field.name: field.default for field in fields(algorithm) if field.default is not MISSING}
    return name, {key: value for key, value in changed.items() if key not in defaults or value != defaults[key]}


def name_of(settings: Any) -> str:
    """The algorithm of `settings`: the algorithm with the name of their class, or the only algorithm with this class.

    Raises `BadInput` if no algorithm or several algorithms use the class.
    """
    if isinstance(settings, type):
        raise BadInput(f"algorithm is the class {settings.__name__}: give its settings, {settings.__name__}()")
    if not is_dataclass(settings):
        raise BadInput(
            f"algorithm is a {type(settings).__name__}: give a name of `fedbnsl algorithms`, or settings such as "
            "fedbnsl.settings.FedSparse()"
        )
    kind = type(settings)
    named = re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
    entry = registry.ALGORITHMS.get(named)
    if entry is not None and issubclass(kind, entry.config):
        return named
    sharing = [name for name, one in registry.ALGORITHMS.items() if one.config is kind]
    if not sharing:
        raise BadInput(f"algorithm is a {kind.__name__}, which no algorithm uses: see fedbnsl.settings")
    if len(sharing) > 1:
        classes = " or ".join("".join(word.title() for word in name.split("-")) for name in sharing)
        raise BadInput(f"{kind.__name__} are the settings of several algorithms: use {classes}")
    return sharing[0]


CLOSE = 0.7
"""minimum similarity at which a keyword counts as a misspelt option"""


def check_keywords(algorithm: str, params: Mapping[str, Any]) -> None:
    """Raise `BadInput` for a keyword that is neither an option of `learn` nor a parameter of the algorithm."""
    if algorithm not in (*registry.ALGORITHMS, AUTO):
        return
    known = registry.parameter_names(algorithm) if algorithm != AUTO else ()
    options = [name for name in LearnOptions.model_fields if name != "params"]
    for name in params:
        near = get_close_matches(name, [*known, *options], 1, CLOSE)
        if name not in (*known, "preset") and near and near[0] in options:
            raise BadInput(
                f"'{name}' is neither an option of learn nor a parameter of {algorithm}: did you mean {near[0]}?"
            )
        if algorithm != AUTO and name not in (*known, "preset"):
            raise unknown_parameter(algorithm, name, known)


Table = Union["pd.DataFrame", "NDArray[np.generic]"]
Data = Union[str, Path, FederatedData, "pd.DataFrame", "Mapping[str, Table]", "Sequence[Table]"]


class LearnKeywords(TypedDict, total=False):
    """The keywords of `learn` for type checkers and editors; a test compares them with `LearnOptions`."""

    epsilon: float | None
    delta: float | None
    budget: float | None
    budget_delta: float | None
    secure: bool
    ignore: Columns
    only: Columns
    missing: Missing
    columns: DifferentColumns
    time: Columns
    dates: Dates
    outliers: Outliers
    detrend: bool
    deseasonalise: int | None
    difference: bool
    transform: str
    targets: str | None
    condition: str | None
    cluster: str | None
    knowledge: str | None
    required_arcs: str | None
    forbidden_arcs: str | None
    tiers: str | None
    no_parents: str | None
    parameters: bool
    diagnose: bool
    smoothing: float
    small_cells: SmallCells
    bootstrap: int | None
    posterior: int
    held_out: bool
    tune: str
    tune_by: TuneBy
    time_limit: float | None
    megabytes: float | None
    seed: int
    out: str | Path | None
    name: str | None
    register_as: str | None
    federation: str | None
    platform: Platform | None
    silos: Columns
    small_silos: SmallSilos
    quorum: int | None
    silo_patience: float
    allow_cyclic_truth: bool


@overload
def learn(
    data: Data,
    algorithm: "str | DataclassInstance" = AUTO,
    *,
    by: str | None = None,
    about: "Mapping[str, Any] | None" = None,
    truth: Any = None,
    engine: str = "inline",
    progress: bool | None = None,
    **options: Unpack[LearnKeywords],
) -> Learned: ...


@overload
def learn(
    data: Data,
    algorithm: "str | DataclassInstance" = AUTO,
    *,
    by: str | None = None,
    about: "Mapping[str, Any] | None" = None,
    truth: Any = None,
    engine: str = "inline",
    progress: bool | None = None,
    **options: Any,
) -> Learned: ...


def learn(
    data: Data,
    algorithm: "str | DataclassInstance" = AUTO,
    *,
    by: str | None = None,
    about: "Mapping[str, Any] | None" = None,
    truth: Any = None,
    engine: str = "inline",
    progress: bool | None = None,
    **options: Any,
) -> Learned:
    """Learn the structure of a Bayesian network from the silos of `data`.

    Parameters
    ----------
    data : folder, FederatedData, DataFrame, dict or list of tables
        A folder has one file per silo. A single file or DataFrame needs `by`. A dict or a list has one table (DataFrame
        or array, rows x variables) per silo. The privacy ledgers of a folder are kept in the folder; the ledgers of
        tables in memory end with the call.
    algorithm : str or settings
        A name of `fedbnsl algorithms`, with its settings as further keywords, or a settings object such as
        `FedSparse(l1=0.1)` of `fedbnsl.settings`; `auto` chooses an algorithm that suits the data.
    by : str
        The column of a single DataFrame or file that names the silo of each row.
    about : dict
        The description of tables in memory, with the keys of `about.json`.
    truth : DataFrame, networkx.DiGraph, path or result of learn
        The true graph to compare with, in a form that `evaluate` accepts; by default the truth.csv of a folder. Only
        with the engine inline.
    engine : str
        `inline` runs in this process; `prefect` runs through Prefect, Dask and MLflow.
    progress : bool
        Show the progress; by default in notebooks only.
    **options
        The options below; any other keyword is a setting of the algorithm.
    """
    tables: dict[str, Any] = {"by": by, "about": about}
    if isinstance(data, str | Path) and by is not None:
        options, tables = {**options, "by": by}, {"about": about}
    with errors_in_python():
        settings = _settings(data, algorithm, options)
        with progress_line(progress) as listeners:
            return _learned(settings, data, engine, tables, truth, listeners)


@contextmanager
def errors_in_python() -> Iterator[None]:
    """Name options as keywords of `learn` in the errors of the block, such as `held_out` for `--held-out`."""
    try:
        yield
    except BadInput as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (message_in_python(error.args[0]), *error.args[1:])
        raise


OPTIONS = {
    name: field for name, field in LearnOptions.model_fields.items() if name not in ("algorithm", "params", "by")
}
"""the options that are added to the signature of `learn` as keywords"""


PYTHON_TYPES: dict[str, Any] = {"out": str | Path | None}
"""types of keywords that accept more in Python than on the command line"""


def _document_options() -> None:
    """Add the options of `LearnOptions` to the signature and the docstring of `learn`."""
    signature = inspect.signature(learn)
    *own, _ = signature.parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, keyword, default=field.default, annotation=PYTHON_TYPES.get(name, field.annotation))
        for name, field in OPTIONS.items()
    ]
    settings = inspect.Parameter("params", inspect.Parameter.VAR_KEYWORD, annotation=Any)
    learn.__signature__ = signature.replace(parameters=[*own, *options, settings])  # type: ignore[attr-defined]
    lines = [
        *(f"{name}\n    {field.description}" for name, field in OPTIONS.items()),
        "**params\n    Settings of the algorithm; `fedbnsl algorithms NAME` explains them.",
        "",
        "Returns\n-------\nLearned\n    The structure with its scores; with `out`, the files are written there, too.",
        "",
        "Raises\n------\nBadInput\n    A ValueError, for unusable data or options.",
    ]
    learn.__doc__ = inspect.cleandoc(str(learn.__doc__)) + "\n" + "\n".join(lines) + "\n"


_document_options()


def prepare(kind: str, out: str | Path | None = None, **options: Any) -> FederatedData:
    """A data set of `kind`; if `out` is given, it is also written to this folder.

    The kinds are the commands of `fedbnsl prepare`, and the options are the options of `fedbnsl prepare KIND`. Raises
    `BadInput` for an unknown kind, option or value.
    """
    requested = recipe(kind, **options)
    data = requested.build()
    if out is not None:
        write_folder(Path(out), data, requested.file_form)
    return data


def _settings(data: Any, algorithm: "str | DataclassInstance", keywords: "Mapping[str, Any]") -> LearnSettings:
    """The settings of a run; keywords that are not options of `learn` are settings of the algorithm."""
    is_known = isinstance(algorithm, str) and algorithm in registry.ALGORITHMS
    keywords = as_fields(keywords, registry.parameter_names(str(algorithm)) if is_known else ())
    known = {*OPTIONS, "by"}
    given = {name: value for name, value in keywords.items() if name in known}
    params = {name: value for name, value in keywords.items() if name not in known}
    given["algorithm"], given["params"] = requested_algorithm(algorithm, params)
    given["data"] = str(data) if isinstance(data, str | Path) else IN_MEMORY
    given["out"] = str(given["out"]) if given.get("out") else None
    with one_line_errors():
        return LearnSettings.model_validate(given)


def _learned(
    settings: LearnSettings,
    data: Any,
    engine: str,
    tables: "Mapping[str, Any]",
    truth: Any,
    listeners: tuple[Listener, ...],
) -> Learned:
    folder = Path(data) if isinstance(data, str | Path) else None
    for name, given in tables.items():
        if given is not None and folder is not None:
            raise BadInput(
                f"{name} is for tables in memory: the silos of a folder are its files, described by its about.json"
            )
    if engine == "prefect":
        if folder is None:
            raise BadInput("the engine prefect reads a folder: write the data with fedbnsl.data.folder.write_folder")
        if truth is not None:
            raise BadInput("truth is for the engine inline: the engine prefect reads the truth.csv of the folder")
        return _learn_with_prefect(settings, listeners)
    if engine != "inline":
        raise BadInput(f"engine is '{engine}': choose inline or prefect")
    check_inline(settings)
    check_options(settings)
    reading = reading_of(settings)
    data_set = tables_in_memory(data, reading, **tables) if folder is None else read_folder(folder, reading)
    aside = [f"column {name} is not used: {reason}" for name, reason in data_set.schema.aside.items()]
    for note in (*data_set.notes, *aside):
        warnings.warn(foreign_text(note, MAX_LINE_LENGTH), stacklevel=3)
    if truth is not None:
        data_set = replace(data_set, truth=as_structure(truth, data_set.schema.nodes), silo_weights={})
    return _learn_inline(settings, data_set, folder, listeners)


def _learn_inline(
    settings: LearnSettings, tables: FederatedData, folder: Path | None, listeners: tuple[Listener, ...]
) -> Learned:
    """Learn from `tables`; if they were read from `folder`, the run charges the ledgers beside the files there."""
    out = None if settings.out is None else Path(settings.out)
    if out is not None:
        check_out(out)
    job = job_inline(settings.named(), str(uuid4()), tables)
    check(job, tables.schema)
    files = files_of(folder, reading_of(settings)) if folder is not None else None
    declared = declarations(tables.about, reading_of(settings)) if folder is not None else NO_DECLARATION
    with nullcontext() if out is None else run_lock(out, fresh=True):
        result = run_inline(job, tables, listeners, files, declared)
        if out is not None:
            write_unsigned(out, write_outputs(result, out))
    return Learned(result, out)


def _learn_with_prefect(settings: LearnSettings, listeners: tuple[Listener, ...]) -> Learned:
    prepare_environment()
    settings = repeated(settings.named())
    if not settings.resume:
        check_out(Path(str(settings.out)))
        precheck(settings)
    try:
        finished = learn_with_prefect(settings, *listeners)
    except ModuleNotFoundError as error:
        raise orchestration_missing(error) from None
    return Learned(finished.result, finished.folder)
