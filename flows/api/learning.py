"""`learn` and `prepare` in Python: the options of the command line as keywords, data in memory or in a folder.

Data are a dict or list of tables, one per silo, or one table with a column that names the silo of each row. A table is
a pandas DataFrame, anything with `to_pandas`, or a two-dimensional array. Tables are written to a temporary folder and
read back, so that the rules for folders apply. The algorithm is a name, or a settings object of `fedbnsl.settings`.
"""

import inspect
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypedDict, Union, Unpack, overload
from uuid import uuid4

import numpy as np
import pandas as pd

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.choose import AUTO
from fedbnsl.algorithms.core.spec import RENAMED_SETTINGS
from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.data.federated import FederatedData, without_outliers
from fedbnsl.data.folder.about import ABOUT, NO_DECLARATION, READ_ALL, Reading, declarations
from fedbnsl.data.folder.check import check_silo_name
from fedbnsl.data.folder.folder import read_folder, silo_files, write_folder
from fedbnsl.data.folder.joint_columns import with_transforms
from fedbnsl.data.folder.targets import with_targets
from fedbnsl.tracking.outputs import write_outputs
from fedbnsl.tracking.staging import first_line

from ..engines.inline import job_inline, run_inline
from ..engines.resuming import run_lock
from ..job.check import check, check_options, reading_of, selected_silos
from ..job.run import Listener
from ..options.learn import (
    Columns,
    Dates,
    DifferentColumns,
    LearnOptions,
    LearnSettings,
    Missing,
    Outliers,
    SmallCells,
    TuneBy,
)
from ..options.model import one_line_errors
from ..options.prepare import recipe
from ..servers.environment import prepare_environment
from ..start import check_inline, check_out, learn_with_prefect, precheck
from .evaluation import as_structure
from .learned import Learned
from .progress import progress_line

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from numpy.typing import NDArray

FORMS = (
    "give a folder, a FederatedData, a dict or a list of DataFrames or arrays, or one DataFrame with by='COLUMN', the "
    "column that names the silo of each row"
)


def split_tables(data: Any, by: str | None = None, *, private: bool = False) -> dict[Any, pd.DataFrame]:
    """The table of each silo, by the given name.

    Silos of a list have the names silo-1, silo-2, ..., and columns of an array x1, x2, ...; the numbers are padded with
    zeros to equal length. Raises
    `BadInput` for `data` of another type, for an invalid table, and for a column `by` that does not exist, has empty
    cells (without their place in a `private` run), or is superfluous.
    """
    data = _frame(data)
    if isinstance(data, pd.DataFrame):
        return _divided(data, by, private=private)
    if by is not None:
        raise BadInput(f"by is {shown(by)}, a column of one DataFrame, but data is a {type(data).__name__} of silos")
    if isinstance(data, Mapping):
        silos = dict(data)
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        silos = dict(zip(numbered_names("silo-", len(data)), data, strict=True))
    elif isinstance(data, np.ndarray):
        raise BadInput("data is one array, which names no silos: give a list of arrays, one per silo")
    else:
        raise BadInput(f"data is a {type(data).__name__}: {FORMS}")
    if not silos:
        raise BadInput(f"data is an empty {type(data).__name__}: {FORMS}")
    return {silo: _table(silo, one) for silo, one in silos.items()}


def _frame(given: Any) -> Any:
    """A table of another library as a DataFrame, if it has `to_pandas`; anything else unchanged."""
    return given.to_pandas() if hasattr(given, "to_pandas") else given


def _divided(frame: pd.DataFrame, by: str | None, *, private: bool) -> dict[Any, pd.DataFrame]:
    """The rows of each silo without the column `by`, in the order of the silos' first rows."""
    if by is None:
        raise BadInput("data is one DataFrame: give the column with the silo of each row, such as by='hospital'")
    if list(frame.columns).count(by) != 1:
        raise BadInput(f"by is {shown(str(by))}: no such column; available: {', '.join(map(str, frame.columns))}")
    empty = np.flatnonzero(frame[by].isna())
    if len(empty):
        where = "" if private else f"row {empty[0] + 1}, "
        raise BadInput(f"data: {where}column {shown(by)}: a cell is empty, so its row has no silo")
    groups = frame.groupby(frame[by].astype(str), sort=False)
    return {silo: rows.drop(columns=by) for silo, rows in groups}


def _table(silo: Any, given: Any) -> pd.DataFrame:
    given = _frame(given)
    if isinstance(given, pd.DataFrame):
        return given
    who = f"data: silo {shown(str(silo))}"
    if not isinstance(given, np.ndarray):
        raise BadInput(f"{who} is a {type(given).__name__}: give a DataFrame, or an array of rows and columns")
    if given.ndim != 2:
        raise BadInput(f"{who} is an array of shape {given.shape}: give one of rows and columns")
    return pd.DataFrame(given, columns=numbered_names("x", given.shape[1]))


def numbered_names(word: str, count: int) -> list[str]:
    """`word` with the numbers from 1 to `count`, padded with zeros so that they sort by number."""
    return [f"{word}{number:0{len(str(count))}d}" for number in range(1, count + 1)]


IN_MEMORY = "data"


def tables_in_memory(
    data: Any, reading: Reading = READ_ALL, by: str | None = None, about: Mapping[str, Any] | None = None
) -> FederatedData:
    """The data set of tables in memory, as `split_tables` accepts them, described by `about` in place of `about.json`.

    A `FederatedData` keeps its tables; only transforms and outliers follow `reading`. Raises `BadInput` as reading a
    folder does.
    """
    if isinstance(data, FederatedData):
        if about is not None:
            raise BadInput("about describes how to read tables: a FederatedData is already read")
        if by is not None:
            raise BadInput(f"by is {shown(by)}, a column of a single DataFrame: a FederatedData already has its silos")
        if reading.ignore or reading.only or reading.silos or reading.missing != "model":
            raise BadInput("ignore, only, silos and missing are options of reading: a FederatedData is already read")
        data = with_transforms(data, reading)
        if reading.targets is not None:
            data = replace(data, schema=with_targets(data.schema, dict(reading.targets), "targets"))
        return data if reading.outliers == "keep" else without_outliers(data)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / IN_MEMORY
        folder.mkdir()
        frames = split_tables(data, by, private=reading.private)
        for silo, frame in frames.items():
            _write(folder, silo, frame, private=reading.private)
        if about is None and reading.private:
            about = _declared_by_types(frames.values())
        try:
            if about is not None:
                (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")
            return read_folder(folder, reading)
        except BadInput as error:
            message = str(error).replace(f"{folder}{os.sep}", "").replace(str(folder), IN_MEMORY)
            raise BadInput(message.replace(".parquet", "")) from None
        except TypeError as error:
            raise BadInput(f"about cannot be written as JSON: {error}") from None


def _declared_by_types(frames: Iterable[pd.DataFrame]) -> dict[str, Any]:
    """The part of `about.json` that the types of columns declare: numbers, and categories with their levels.

    A run with an ε must not infer kinds and levels from rows; the types of a DataFrame count as the caller's
    declaration.
    """
    columns: dict[str, str] = {}
    levels: dict[str, list[str]] = {}
    for frame in frames:
        for name, column in frame.items():
            if isinstance(column.dtype, pd.CategoricalDtype):
                levels.setdefault(str(name), [str(label) for label in column.dtype.categories])
            elif pd.api.types.is_numeric_dtype(column.dtype):
                columns[str(name)] = "continuous"
    if not levels:
        return {"kind": "continuous"} if columns else {}
    return (
        {"kind": "mixed", "levels": levels, "columns": columns} if columns else {"kind": "discrete", "levels": levels}
    )


def _write(folder: Path, silo: Any, frame: pd.DataFrame, *, private: bool) -> None:
    """Write the table of one silo; raises `BadInput` for an invalid table, in a `private` run without its values."""
    import pyarrow

    if not isinstance(silo, str):
        raise BadInput(f"data: {shown(str(silo))} cannot name a silo: it is a {type(silo).__name__}, not text")
    check_silo_name(IN_MEMORY, silo)
    try:
        frame.rename(columns=str).to_parquet(folder / f"{silo}.parquet", index=False)
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        why = "" if private else f": {first_line(error)}"
        raise BadInput(f"data: silo {shown(silo)}: cannot be read as a table{why}") from None


def requested_algorithm(algorithm: Any, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of the algorithm and its given parameters, from a settings object or keywords.

    From a settings object only the fields that differ from their defaults count, so that the run can set others, such
    as the seed. Raises `BadInput` if `algorithm` is neither a name nor settings, for parameters beside settings, and
    for an unknown keyword, with the nearest known one.
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
    """The algorithm of `settings`: the one with the name of their class, or else the only one that uses the class.

    Raises `BadInput` if no algorithm or several use the class.
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
"""least similarity of a keyword and an option that it may stand for"""


def check_keywords(algorithm: str, params: Mapping[str, Any]) -> None:
    """Raise `BadInput` for a keyword that resembles an option of `learn` and is not a parameter of the algorithm."""
    if algorithm not in (*registry.ALGORITHMS, AUTO):
        return
    known = registry.parameter_names(algorithm) if algorithm != AUTO else ()
    options = [name for name in LearnOptions.model_fields if name != "params"]
    for name in params:
        near = get_close_matches(name, [*known, *options], 1, CLOSE)
        if name not in (*known, "preset", *RENAMED_SETTINGS) and near and near[0] in options:
            raise BadInput(
                f"'{name}' is neither an option of learn nor a parameter of {algorithm}: did you mean {near[0]}?"
            )


Table = Union["pd.DataFrame", "NDArray[np.generic]"]
Data = Union[str, Path, FederatedData, "pd.DataFrame", "Mapping[str, Table]", "Sequence[Table]"]


class LearnKeywords(TypedDict, total=False):
    """The options of `learn` for type checkers and editors; a test compares them with `LearnOptions`."""

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
    deseasonalise: int
    difference: bool
    transform: str
    targets: str | None
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
    held_out: bool
    tune: str
    tune_by: TuneBy
    seed: int
    out: str | Path | None
    name: str | None
    federation: str | None
    silos: Columns
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
        A folder has one file per silo, or is itself a file with the column `by`; a dict or a list has one table
        (DataFrame or array, rows x variables) per silo. The privacy ledgers of a folder are kept in it, those of tables
        end with the call.
    algorithm : str or settings
        A name of `fedbnsl algorithms`, with its settings as further keywords, or a settings object such as
        `FedSparse(l1=0.1)` of `fedbnsl.settings`; `auto` chooses one that suits the data.
    by : str
        The column of a single DataFrame or file that names the silo of each row.
    about : dict
        The description of tables, as `about.json` describes a folder.
    truth : DataFrame, networkx.DiGraph, path or result of learn
        The true graph to compare with, in a form that `evaluate` accepts; by default the truth.csv of a folder.
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
    settings = _settings(data, algorithm, options)
    with progress_line(progress) as listeners:
        return _learned(settings, data, engine, tables, truth, listeners)


OPTIONS = {
    name: field for name, field in LearnOptions.model_fields.items() if name not in ("algorithm", "params", "by")
}
"""the options of `learn` that are keywords of their own"""


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
    """A data set of `kind`, written to the folder `out` if given.

    The kinds are the commands of `fedbnsl prepare`, and the options are those of `fedbnsl prepare KIND`. Raises
    `BadInput` for an unknown kind, option or value.
    """
    requested = recipe(kind, **options)
    data = requested.build()
    if out is not None:
        write_folder(Path(out), data, requested.file_form)
    return data


def _settings(data: Any, algorithm: "str | DataclassInstance", keywords: "Mapping[str, Any]") -> LearnSettings:
    """The settings of a run; keywords that are not options of `learn` are settings of the algorithm."""
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
    if truth is not None:
        data_set = replace(data_set, truth=as_structure(truth, data_set.schema.variables), silo_weights={})
    return _learn_inline(settings, data_set, folder, listeners)


def _learn_inline(
    settings: LearnSettings, tables: FederatedData, folder: Path | None, listeners: tuple[Listener, ...]
) -> Learned:
    """Learn from `tables`; if they come from `folder`, the run charges the ledgers beside its files."""
    out = None if settings.out is None else Path(settings.out)
    if out is not None:
        check_out(out)
    job = job_inline(settings.named(), str(uuid4()), tables)
    check(job, tables.schema)
    files = silo_files(folder, selected_silos(settings), settings.by) if folder is not None else None
    declared = declarations(tables.about, reading_of(settings)) if folder is not None else NO_DECLARATION
    with nullcontext() if out is None else run_lock(out, fresh=True):
        result = run_inline(job, tables, listeners, files, declared)
        if out is not None:
            write_outputs(result, out)
    return Learned(result, out)


def _learn_with_prefect(settings: LearnSettings, listeners: tuple[Listener, ...]) -> Learned:
    prepare_environment()
    settings = settings.named()
    check_out(Path(str(settings.out)))
    precheck(settings)
    finished = learn_with_prefect(settings, *listeners)
    return Learned(finished.result, finished.folder)
