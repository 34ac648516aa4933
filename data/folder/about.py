"""`about.json` and the options of reading a folder.

`about.json` describes the data: their kind, their columns, the form and the origin of the files, and checksums of the
silo files. `Reading` has the options of the reader (columns, silos, missing values, privacy). `Declared` combines both.
"""

import codecs
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from fedbnsl.algorithms.core.schema import Kind, Transform
from fedbnsl.algorithms.errors import BadInput, quoted

from .cells import missing_words
from .check import check_labels
from .formats import NO_FORM, Form, parquet_parts
from .harmonise import Recode, Scale, declared_recode, declared_scale
from .targets import declared_targets
from .text import SEPARATORS

ABOUT, SCHEMA = "about.json", "about.schema.json"
KINDS = ("continuous", "discrete", "mixed", "time-series", "events")
COLUMN_KINDS = ("continuous", "discrete", "count")
TRANSFORMS: tuple[str, ...] = ("normal-scores", "log", "sqrt", "none")


def read_about(folder: Path) -> dict[str, Any]:
    """The content of `about.json`, or {} if there is no such file. Raises `BadInput` for an invalid file or value.

    `folder` may also be a file in the folder.
    """
    path = (folder.parent if folder.is_file() else folder) / ABOUT
    if not path.exists():
        return {}
    try:
        about = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}: line {error.lineno}: not JSON: {error.msg}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not UTF-8 text") from None
    except RecursionError:
        raise BadInput(f"{path}: nested too deeply: three levels are enough") from None
    except ValueError as error:
        raise BadInput(f"{path}: not valid JSON: {error}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    if not isinstance(about, dict):
        raise BadInput(f"{path}: not a JSON object with keys such as 'kind'")
    _check_keys(path, about)
    if "kind" in about and about["kind"] not in KINDS:
        raise BadInput(f"{path}: kind: {quoted(str(about['kind']))} is not one of {', '.join(KINDS)}")
    for key in ("levels", "columns", "missing", "transform", "stretches", "checksums"):
        if not isinstance(about.get(key, {}), dict):
            raise BadInput(f"{path}: {key}: not a JSON object")
    if declared_levels(about, str(path)) and about.get("kind", "discrete") not in ("discrete", "mixed", "time-series"):
        raise BadInput(f"{path}: levels: {about['kind']} data have no levels; is the kind discrete?")
    step = about.get("step", 1.0)
    if isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step < math.inf:
        raise BadInput(f"{path}: step: {quoted(str(step))} is not a positive number, the time between two rows")
    window = about.get("window", [0, 1])
    if not isinstance(window, list) or len(window) != 2:
        raise BadInput(f"{path}: window: {quoted(str(window))} is not a list [begin, end] of times")
    ignored = about.get("ignore", [])
    if not isinstance(ignored, list) or not all(isinstance(name, str) for name in ignored):
        raise BadInput(f"{path}: ignore: {quoted(str(ignored))} is not a list of names of columns")
    _check_columns(path, about)
    _check_transforms(path, about)
    _check_stretches(path, about)
    _check_form(path, about)
    declared_targets(path, about)
    if not isinstance(about.get("condition", ""), str):
        raise BadInput(f"{path}: condition: {quoted(str(about['condition']))} is not the name of a column")
    declared_recode(str(path), about)
    declared_scale(str(path), about)
    declared_sheets(str(path), about)
    return about


@cache
def known_keys() -> tuple[str, ...]:
    """The keys that `about.json` may have, from the JSON schema beside this module."""
    schema: dict[str, Any] = json.loads(files(__package__).joinpath(SCHEMA).read_text("utf-8"))
    return tuple(schema["properties"])


def _check_keys(path: Path, about: Mapping[str, Any]) -> None:
    """Raise `BadInput` for a key that does not exist; the message suggests the nearest key."""
    for key in about:
        if key not in known_keys():
            near = get_close_matches(key, known_keys(), 1)
            instead = f"did you mean {quoted(near[0])}?" if near else "remarks have the key 'comment'"
            raise BadInput(f"{path}: unknown key {quoted(key)}; {instead}")


def _check_columns(path: Path, about: Mapping[str, Any]) -> None:
    """Raise `BadInput` for invalid kinds of columns or markers of missing values."""
    for name, kind in about.get("columns", {}).items():
        if kind not in COLUMN_KINDS:
            raise BadInput(
                f"{path}: columns: {quoted(name)}: {quoted(str(kind))} is not one of {', '.join(COLUMN_KINDS)}"
            )
        numbers = kind != "discrete"
        if about.get("kind", "mixed") not in ("mixed", "continuous" if numbers else kind) or (
            numbers and name in about.get("levels", {})
        ):
            other = "it has levels" if name in about.get("levels", {}) else f"the kind of the data is {about['kind']}"
            raise BadInput(f"{path}: columns: {quoted(name)} is {kind}, but {other}; is the kind mixed?")
    for name, cells in about.get("missing", {}).items():
        if not isinstance(cells, list) or not all(isinstance(cell, str | int | float) for cell in cells):
            raise BadInput(f"{path}: missing: {quoted(name)}: not a list of cells that mark a missing value")


def _check_transforms(path: Path, about: Mapping[str, Any]) -> None:
    """Raise `BadInput` for an unknown transform, and for a transform of a column of labels."""
    for name, one in about.get("transform", {}).items():
        if one not in TRANSFORMS:
            raise BadInput(
                f"{path}: transform: {quoted(name)}: {quoted(str(one))} is not one of {', '.join(TRANSFORMS)}"
            )
        if name in about.get("levels", {}) or about.get("columns", {}).get(name) == "discrete":
            raise BadInput(f"{path}: transform: {quoted(name)} has labels: only numbers can be transformed")


def _check_stretches(path: Path, about: Mapping[str, Any]) -> None:
    """Raise `BadInput` for lengths of time series that are not positive integers."""
    for silo, lengths in about.get("stretches", {}).items():
        whole = isinstance(lengths, list) and all(type(length) is int and length > 0 for length in lengths)
        if not whole or not lengths:
            raise BadInput(f"{path}: stretches: {quoted(silo)}: not a list of numbers of rows, such as [200, 150]")


def _check_form(path: Path, about: Mapping[str, Any]) -> None:
    """Raise `BadInput` for an invalid separator, encoding or decimal mark."""
    if about.get("separator", ",") not in SEPARATORS:
        given = quoted(str(about["separator"]))
        raise BadInput(f"{path}: separator: {given} is not one of {', '.join(map(repr, SEPARATORS))}")
    if about.get("decimal", ".") not in (".", ","):
        raise BadInput(f"{path}: decimal: {quoted(str(about['decimal']))} is neither '.' nor ','")
    if about.get("decimal") == "," and about.get("separator") == ",":
        raise BadInput(f"{path}: decimal: ',' is already the separator")
    try:
        codecs.lookup(about.get("encoding", "utf-8"))
    except (LookupError, TypeError):
        raise BadInput(
            f"{path}: encoding: {quoted(str(about['encoding']))} is not an encoding that Python has"
        ) from None


def declared_levels(about: Mapping[str, Any], place: str = ABOUT) -> dict[str, tuple[str, ...]]:
    """The levels that `about` declares, by variable. Raises `BadInput` for invalid levels."""
    levels: dict[str, Any] = about.get("levels") or {}
    for name, labels in levels.items():
        if not isinstance(labels, list | tuple):
            raise BadInput(f"{place}: levels of {quoted(name)}: not a list of labels")
    return {name: check_labels(place, name, labels) for name, labels in levels.items()}


def write_about(folder: Path, about: Mapping[str, Any], silos: Mapping[str, Path]) -> None:
    """Write `about.json`: `about` (by default of the kind continuous), and the checksums of the files of `silos`.

    Raises `TypeError` or `ValueError` if JSON cannot represent it, `BadInput` for an unknown key.
    """
    _check_keys(folder / ABOUT, about)
    content = {"kind": "continuous", **about, "checksums": checksums_of(silos)}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / ABOUT).write_text(text + "\n", encoding="utf-8")


def checksums_of(silos: Mapping[str, Path]) -> dict[str, str]:
    """The hexadecimal SHA-256 of each silo file, by file name; for a folder, the SHA-256 of its parts' checksums."""
    return {path.name: _checksum(path) for path in silos.values()}


def _checksum(path: Path) -> str:
    if path.is_dir():
        parts = (f"{part.name} {_checksum(part)}" for part in parquet_parts(path))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_checksums(folder: Path, about: Mapping[str, Any], silos: Mapping[str, Path]) -> None:
    """Raise `BadInput` if the files of `silos` were changed, deleted or added since `about.json` was written."""
    expected = about.get("checksums")
    if expected is None:
        return
    found = checksums_of(silos)
    remedy = "if this is intended, delete 'checksums' from about.json"
    for name in sorted(set(expected) | set(found)):
        if name not in found:
            raise BadInput(f"{folder / name}: no such file, but about.json names it; {remedy}")
        if name not in expected:
            raise BadInput(f"{folder / name}: not there when about.json was written; {remedy}")
        if expected[name] != found[name]:
            raise BadInput(f"{folder / name}: changed since about.json was written; {remedy}")


ColumnKind = Literal["continuous", "discrete", "count"]
Missing = Literal["model", "complete-rows", "refuse"]
Outliers = Literal["keep", "set-aside"]
Dates = Literal["set-aside", "days"]
DifferentColumns = Literal["same", "union", "common"]
RequestedTransform = Literal["normal-scores", "log", "sqrt", "none"]
IGNORED, NOT_SELECTED, OWNER = "left out by --ignore", "not among --only", "names the silo of each row (--by)"
CONDITION = "names the condition of each row (--condition)"


@dataclass(frozen=True)
class Reading:
    """The options of reading a data set."""

    ignore: tuple[str, ...] = ()
    """columns to leave out"""
    only: tuple[str, ...] = ()
    """columns to read; if empty, all columns are read"""
    missing: Missing = "model"
    """treatment of empty cells: keep them for the learner, leave out their rows, or refuse them"""
    silos: tuple[str, ...] = ()
    """silos to read; if empty, all silos are read"""
    outliers: Outliers = "keep"
    """treatment of numbers far from their column: keep them, or treat them as empty cells"""
    columns: DifferentColumns = "same"
    """treatment of columns that only some silos have: refuse them, keep them, or leave them out"""
    time: tuple[str, ...] = ()
    """the column of times, or the two columns of years and of quarters or months; if empty, a column `time` is used"""
    dates: Dates = "set-aside"
    """treatment of columns of dates: set them aside, or read them as days"""
    transform: RequestedTransform = "none"
    """the transform of all columns of numbers"""
    transforms: tuple[tuple[str, RequestedTransform], ...] = ()
    """columns with a separate transform"""
    private: bool = False
    """whether the run has an ε: silos then disclose only the names of columns and the number of their rows"""

    targets: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    """the targets of experiments by silo or, with a column of conditions, by condition; if None, the targets of
    `about.json` are used"""
    finds_targets: bool = False
    """whether the run finds the targets (`--targets unknown`) and ignores the targets of `about.json`"""
    learned_from: bool = False
    """whether a learner computes with the numbers: values whose powers overflow or underflow are then refused"""
    by: str | None = None
    """the column that names the silo of each row, if one file has the rows of all silos"""
    condition: str | None = None
    """the column that names the condition of each row, if experiments set variables in some rows of a silo"""
    series_gaps: bool = False
    """whether a learner of time series of numbers models empty cells; if not, a row with an empty cell ends a stretch
    """

    def __post_init__(self) -> None:
        """Raise `BadInput` for options that contradict each other, and for options that a run with an ε cannot have."""
        both = sorted(set(self.ignore) & set(self.only))
        if both:
            raise BadInput(f"--ignore and --only both name the column '{both[0]}'")
        if len(self.time) > 2:
            raise BadInput("--time names more than two columns: give one, or those of year and quarter or month")
        if self.time and self.private:
            raise BadInput(
                '--time cannot be used with an ε, as times are data: declare {"kind": "time-series"} in about.json'
            )
        if self.by is not None and (self.by in self.ignore or self.by in self.time):
            option = "--ignore" if self.by in self.ignore else "--time"
            raise BadInput(f"--by and {option} both name the column '{self.by}'")
        if self.by is not None and self.private:
            raise BadInput(
                "--by cannot be used with an ε, as the silo of a row would come from a cell: write a file for each "
                "silo once with `fedbnsl prepare split OUT --table FILE --by COLUMN`"
            )
        self._check_condition()
        if self.dates == "days" and self.private:
            raise BadInput("--dates days cannot be used with an ε: the first date is that of a row")
        if self.columns == "union" and self.missing == "refuse":
            raise BadInput("--columns union leaves cells empty, and --missing refuse allows no empty cell")
        if self.outliers == "set-aside" and self.missing == "refuse":
            raise BadInput("--outliers set-aside empties cells, and --missing refuse allows no empty cell")

    def _check_condition(self) -> None:
        """Raise `BadInput` for a column of conditions that another option names, or in a run with an ε."""
        for option, named in (("--by", (self.by,)), ("--ignore", self.ignore), ("--time", self.time)):
            if self.condition is not None and self.condition in named:
                raise BadInput(f"--condition and {option} both name the column '{self.condition}'")
        if self.conditions_column is not None and self.private:
            raise BadInput(
                "--condition cannot be used with an ε, as the condition of a row would come from a cell: use "
                "--targets none to learn as if there had been no experiment"
            )

    @property
    def conditions_column(self) -> str | None:
        """The column whose levels are conditions; None without such a column, and if the run does not use targets."""
        return None if self.targets == () and not self.finds_targets else self.condition

    def also_ignoring(self, columns: Iterable[str]) -> "Reading":
        """These options, which also ignore `columns`; raises `BadInput` for a column that another option names."""
        further = tuple(name for name in dict.fromkeys(columns) if name not in self.ignore)
        return replace(self, ignore=(*self.ignore, *further)) if further else self

    def leaves_out(self, name: str) -> str | None:
        """The reason for leaving a column out; None if the column is read."""
        if name == self.by:
            return OWNER
        if name == self.condition:
            return CONDITION
        if name in self.ignore:
            return IGNORED
        return NOT_SELECTED if self.only and name not in self.only else None


def condition_column(aside: Mapping[str, str]) -> str | None:
    """The column that names the condition of each row, or None; `aside` has the excluded columns with their reasons."""
    return next((name for name, reason in aside.items() if reason == CONDITION), None)


def owner_column(aside: Mapping[str, str]) -> str | None:
    """The column that names the silo of each row, or None; `aside` has the excluded columns with their reasons."""
    return next((name for name, reason in aside.items() if reason == OWNER), None)


@dataclass(frozen=True)
class Declared:
    """The declarations of `about.json` and the options of reading, which the coordinator sends to every silo."""

    kind: Kind | None = None
    columns: Mapping[str, ColumnKind] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """by column, additional markers of missing values; with an empty tuple, only cells without content are missing"""
    form: Form = NO_FORM
    step: float | None = None
    """the time between two rows of a time series"""
    window: tuple[str, ...] = ()
    """the begin and the end of the observation of all devices of event sequences; if empty, a device is observed from
    its first to its last event"""
    stretches: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """by silo, the lengths of its unbroken time series, in the order of the rows; used in runs with an ε"""
    reading: Reading = Reading()
    complete: tuple[str, ...] = ()
    """the variables whose empty cells exclude a row (`--missing complete-rows`) or raise an error (`refuse`)"""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """by column, labels that mark a missing value in other columns, as inferred from all silos"""
    transforms: Mapping[str, RequestedTransform] = field(default_factory=dict)
    """the transforms of columns that `about.json` declares"""
    fixed_transforms: Mapping[str, Transform] = field(default_factory=dict)
    """the transforms of the variables in `complete`, as decided over all silos; outliers are defined on the transformed
    scale"""
    fixed_dates: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """the columns of dates among the variables in `complete`, with the origin of their days"""
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """the targets of experiments that `about.json` declares, by silo or, with a column of conditions, by condition"""
    recode: Recode = field(default_factory=dict)
    """by silo and column, the replaced cells and their replacements"""
    scale: Scale = field(default_factory=dict)
    """by silo and column, the factor of the numbers"""
    sheets: Mapping[str, str] = field(default_factory=dict)
    """by silo, the sheet of its spreadsheet; the key "" has the sheet of all other silos"""

    def at_silo(self, silo: str) -> "Declared":
        """The declarations with the recoding, units, sheet and rows of one silo in `form`."""
        recode = tuple((name, tuple(cells.items())) for name, cells in self.recode.get(silo, {}).items())
        scale = tuple((name, by, self.marks.get(name, ())) for name, by in self.scale.get(silo, {}).items())
        sheet = self.sheets.get(silo, self.sheets.get("")) or None
        rows = None if self.reading.by is None else (self.reading.by, silo)
        form = replace(self.form, recode=recode, scale=scale, sheet=sheet, rows=rows)
        return self if form == self.form else replace(self, form=form)

    @property
    def all_targets(self) -> Mapping[str, tuple[str, ...]]:
        """The targets by silo or condition, from `--targets` or, without this option, from `about.json`."""
        return self.targets if self.reading.targets is None else dict(self.reading.targets)

    @property
    def targets_place(self) -> str:
        """Where the targets are declared, for messages."""
        return f"{ABOUT}: targets" if self.reading.targets is None else "--targets"

    def levels_among(self, variables: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The declared levels, for the `variables` that have declared levels."""
        return {name: tuple(self.levels[name]) for name in variables if name in self.levels}

    def kind_of(self, name: str) -> Literal["continuous", "discrete"] | None:
        """The declared kind of a column, None if no kind is declared; counts are continuous."""
        if name in self.levels:
            return "discrete"
        if name in self.columns:
            return "discrete" if self.columns[name] == "discrete" else "continuous"
        return self.kind if self.kind in ("continuous", "discrete") else None

    def transform_of(self, name: str) -> RequestedTransform | None:
        """The transform that is requested for a column; None if no transform is requested."""
        own = dict(self.reading.transforms) | dict(self.transforms)
        default = self.reading.transform
        return own.get(name, None if default == "none" else default)

    def keeps(self, name: str) -> bool:
        """Whether to read a column. `only` does not leave out the times and names of series, or columns of events."""
        reason = self.reading.leaves_out(name)
        return reason is None or (reason == NOT_SELECTED and self.is_key(name))

    def is_key(self, name: str) -> bool:
        """Whether a column of this name has the times or the names of series, or belongs to a table of events."""
        may_be = self.may_be_series and not self.reading.private
        by_kind = {"time-series": ("series", "time"), "events": ("time", "event", "device", "neighbours")}
        keys = by_kind.get(self.kind or "", ("time",) if may_be else ())
        return name.lower() in keys or name in self.reading.time

    @property
    def may_be_series(self) -> bool:
        """Whether a column of times would make the data time series."""
        return bool(self.reading.time) or (self.kind is None and not self.levels and not self.columns)

    def of_complete(
        self,
        kinds: Mapping[str, ColumnKind],
        levels: Mapping[str, tuple[str, ...]],
        transforms: Mapping[str, Transform],
        dates: Mapping[str, tuple[str, str]],
    ) -> "Declared":
        """The declarations for rows without empty cells in the variables of `kinds`, with fixed kinds and scales."""
        fixed: dict[str, Any] = {"fixed_transforms": transforms, "fixed_dates": dates}
        return replace(self, complete=tuple(kinds), columns=kinds, words=self.words_in(levels), **fixed)

    def words_in(self, levels: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """By column, the inferred `levels` that mark a missing value in other columns."""
        words = {name: missing_words(labels) for name, labels in levels.items() if name not in self.levels}
        return {name: labels for name, labels in words.items() if labels}


NO_DECLARATION = Declared()
READ_ALL = Reading()


def declarations(about: Mapping[str, Any], reading: Reading = READ_ALL) -> Declared:
    """The declarations in `about`, as `read_about` returns it, together with the options of reading."""
    form = Form(about.get("separator"), about.get("encoding"), about.get("decimal"))
    if reading.condition is None and about.get("condition") is not None:
        reading = replace(reading, condition=about["condition"])
    reading = _ignoring(reading, about.get("ignore") or ())
    marks = {name: tuple(map(str, cells)) for name, cells in (about.get("missing") or {}).items()}
    levels = declared_levels(about)
    stretches = {silo: tuple(lengths) for silo, lengths in (about.get("stretches") or {}).items()}
    return Declared(
        about.get("kind"),
        about.get("columns") or {},
        levels,
        marks,
        form,
        about.get("step"),
        tuple(map(str, about.get("window") or ())),
        stretches,
        reading,
        transforms=about.get("transform") or {},
        targets=declared_targets(Path(ABOUT), about),
        recode=declared_recode(ABOUT, about),
        scale=declared_scale(ABOUT, about),
        sheets=declared_sheets(ABOUT, about),
    )


def _ignoring(reading: Reading, columns: Iterable[str]) -> Reading:
    """`reading` that also ignores `columns`, except for columns that its options name."""
    asked = {*reading.only, *reading.time, reading.by, reading.condition}
    return reading.also_ignoring(name for name in columns if name not in asked)


def declared_sheets(place: str, about: Mapping[str, Any]) -> dict[str, str]:
    """The sheets that `about` declares, by silo; the key "" has the sheet of all other silos.

    Raises `BadInput`, with the `place` of the declaration, for anything but names.
    """
    given = about.get("sheet", {})
    sheets = {"": given} if isinstance(given, str) else given
    if not isinstance(sheets, dict) or not all(isinstance(name, str) and name for name in sheets.values()):
        raise BadInput(
            f"{place}: sheet: {quoted(str(given))} is neither the name of a sheet nor an object by silo, such as "
            '{"clinic": "Data"}'
        )
    return dict(sheets)


def parse_transforms(given: str) -> tuple[RequestedTransform, tuple[tuple[str, RequestedTransform], ...]]:
    """The transform of all columns, and the transforms of single columns, from an option: `log`, or `a=log,b=sqrt`.

    Raises `BadInput` for an unknown transform, and a column that is named twice.
    """
    known = {one: one for one in get_args(RequestedTransform)}
    default: RequestedTransform = "none"
    single: dict[str, RequestedTransform] = {}
    for part in given.split(","):
        name, equals, one = (word.strip() for word in part.rpartition("="))
        if one not in known:
            raise BadInput(f"--transform {quoted(part.strip())}: {quoted(one)} is not one of {', '.join(known)}")
        if not equals:
            default = known[one]
        elif name in single:
            raise BadInput(f"--transform names the column {quoted(name)} twice")
        else:
            single[name] = known[one]
    return default, tuple(single.items())
