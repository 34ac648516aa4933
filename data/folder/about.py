"""`about.json` and the options of reading a folder.

`about.json` describes the data: their kind, their columns, the form and the origin of the files, and checksums of the
silo files. `Reading` has the options of the reader (columns, silos, missing values, privacy). `Declared` combines both.
"""

import codecs
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from annotated_types import Gt
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from fedbnsl.algorithms.core.schema import SURVIVAL_EVENTS, Kind, Transform, name_fault
from fedbnsl.algorithms.errors import BadInput, quoted

from ..defaults import Dates, DifferentColumns, Missing, Outliers, SmallSilos
from .cells import label_of, missing_words
from .check import check_labels
from .formats import NO_FORM, Form, parquet_parts
from .harmonise import OTHERS, Recode, Scale
from .omop import Omop

ABOUT = "about.json"
ColumnKind = Literal["continuous", "discrete", "count"]
RequestedTransform = Literal["normal-scores", "log-ratio", "log", "sqrt", "bounded", "none"]
Text = Annotated[str, Field(min_length=1)]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
PositiveNumber = Annotated[float, Strict(), Gt(0)]
Cell = str | Whole | Number
Labels = Annotated[list[str | Whole], Field(min_length=1, json_schema_extra={"uniqueItems": True})]
Recoded = Annotated[dict[str, Cell | None], Field(min_length=1)]
Lengths = Annotated[list[Annotated[Whole, Gt(0)]], Field(min_length=1)]


class About(BaseModel):
    """How the tables of a folder are read by fedbnsl. All keys are optional."""

    model_config = ConfigDict(
        title="about.json of a federated data set",
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    schema_: str | None = Field(None, alias="$schema")
    """this schema, for editors"""
    comment: Any = None
    """remarks; recorded, not interpreted"""
    kind: Kind | None = None
    """the kind of all columns"""
    columns: dict[str, ColumnKind] = Field({}, examples=[{"age": "count"}])
    """the kind of single columns"""
    ignore: list[str] = Field([], examples=[["id"]])
    """columns to leave out, as --ignore does"""
    levels: dict[str, Labels] = Field({}, examples=[{"smokes": ["no", "yes"]}])
    """the levels of discrete columns, in their order"""
    missing: dict[str, list[Cell]] = Field({}, examples=[{"weight": ["-9"]}])
    """by column, cells that mark a missing value; an empty list: only cells without content do"""
    transform: dict[str, RequestedTransform] = Field({}, examples=[{"dose": "log"}])
    """by column, the transform of its numbers"""
    rename: dict[str, dict[str, Text]] = Field({}, examples=[{"clinic": {"Alter": "age"}}])
    """by silo, columns that have another name in its file, and their names in the data set, which all other keys use"""
    recode: dict[str, dict[str, Recoded]] = Field({}, examples=[{"clinic": {"smokes": {"Ja": "yes", "?": None}}}])
    """by silo and column, cells that stand for others; null is an empty cell"""
    join: dict[str, Annotated[list[Text], Field(min_length=2)]] = Field({}, examples=[{"colour": ["red", "green"]}])
    """by variable, the columns of 0 and 1, or no and yes, that are its indicators; each is a level of the variable"""
    scale: dict[str, dict[str, PositiveNumber]] = Field({}, examples=[{"clinic": {"weight": 0.4536}}])
    """by silo and column, the factor of its numbers"""
    unit: dict[str, str] = Field({}, examples=[{"weight": "kg"}])
    """by column, the unit of its numbers, which its cells may have beside them, as in 70.3 kg; "" for numbers without a
    unit that are written with marks between thousands or with detection limits, as in <0.5"""
    sheet: Text | dict[str, Text] = Field({}, examples=[{"clinic": "Data"}])
    """the sheet of a spreadsheet with several, for all silos or by silo"""
    separator: Literal[",", ";", "\t", "|"] | None = None
    """the separator of text files"""
    encoding: str | None = None
    """the encoding of text files"""
    decimal: Literal[".", ","] | None = None
    """the decimal mark of text files"""
    step: PositiveNumber | None = None
    """the time between two rows of time series"""
    omop: Omop | None = None
    """for queries without text: the cohort and the columns of tables from databases in the OMOP common data model"""
    window: list[Cell] | None = Field(None, min_length=2, max_length=2, examples=[["2020-01-01", "2021-01-01"]])
    """begin and end of the observation of event sequences"""
    stretches: dict[str, Lengths] = Field({}, examples=[{"clinic": [200, 150]}])
    """by silo, the lengths of its unbroken time series"""
    targets: dict[str, list[str]] = Field({}, examples=[{"clinic": ["dose"]}])
    """by silo or, with a column of conditions, by condition, the variables that an experiment has set"""
    condition: str | None = None
    """the column that names the condition of each row, if experiments set variables in some rows of a silo"""
    cluster: str | None = None
    """the column that names the cluster of each row, such as a patient, if rows of one cluster depend on each other"""
    survival: dict[str, Annotated[list[Text], Field(min_length=2, max_length=2)]] = Field(
        {}, examples=[{"death": ["days", "died"]}]
    )
    """by outcome, the column of times under observation, above 0, and the column of events: 1 at the end of this time,
    or 0 if it ended without the event (censored)"""
    checksums: dict[str, str] | None = None
    """by file, its SHA-256"""
    truth: Any = None
    """where the true graph comes from"""
    pooled_from: list[str] = []
    """the silos that a pooled table was made of"""
    generator: Any = None
    """the recipe of prepare"""
    source: Any = None
    """where the data come from"""
    parameters: Any = None
    """the options of the recipe"""
    seed: Any = None
    """its seed"""
    amputated: Any = None
    """how cells were emptied"""
    latent: Any = None
    """variables that were removed"""
    surrogate_parents: Any = None
    """the columns whose hidden child dealt the rows"""
    target: Any = None
    """the variable to predict"""
    set: Any = None
    """the variables that were set in test data"""

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, encoding: str | None, info: ValidationInfo) -> str | None:
        try:
            codecs.lookup(encoding or "utf-8")
        except LookupError:
            raise BadInput(
                f"{info.context}: encoding: {quoted(str(encoding))} is not an encoding that Python has"
            ) from None
        return encoding

    @model_validator(mode="after")
    def _check_kinds(self, info: ValidationInfo) -> Self:
        """Raise `BadInput` for invalid levels, and for levels and kinds that contradict each other."""
        place = str(info.context)
        for name, labels in self.levels.items():
            check_labels(place, name, labels)
        if self.levels and self.kind in ("continuous", "events"):
            raise BadInput(f"{place}: levels: {self.kind} data have no levels; is the kind discrete?")
        for name, kind in self.columns.items():
            numbers = kind != "discrete"
            fitting = (None, "mixed", "continuous" if numbers else "discrete")
            if self.kind not in fitting or (numbers and name in self.levels):
                other = "it has levels" if name in self.levels else f"the kind of the data is {self.kind}"
                raise BadInput(f"{place}: columns: {quoted(name)} is {kind}, but {other}; is the kind mixed?")
        return self

    @model_validator(mode="after")
    def _check_survival(self, info: ValidationInfo) -> Self:
        """Raise `BadInput` for an outcome without two columns of its own, or for a declaration that contradicts it."""
        if self.survival and self.kind in ("time-series", "events"):
            raise BadInput(f"{info.context}: survival: outcomes are columns of tables, and the data are {self.kind}")
        for name, pair in self.survival.items():
            fault = name_fault(name)
            fault = f"the outcome {fault}" if fault else self._survival_fault(name, *pair)
            if fault:
                raise BadInput(f"{info.context}: survival: {fault}")
        return self

    def _survival_fault(self, name: str, time: str, event: str) -> str:
        """What is wrong with the outcome `name` of two columns; empty if nothing is."""
        times, events = ([pair[k] for pair in self.survival.values()] for k in (0, 1))
        if time == event or time in events or events.count(event) > 1:
            return f"{quoted(name)}: it needs a column of times and another one of its events"
        if name in times or (name in events and name != event):
            return f"{quoted(name)} is the name of a column of another kind"
        if self.levels.get(event, ["0", "1"]) not in (["0", "1"], [0, 1]):
            return f"{quoted(name)}: the levels of {quoted(event)} are 0 and 1"
        numbers = {*self.transform, *self.unit, *(one for one, kind in self.columns.items() if kind != "discrete")}
        labels = {*self.levels, *(one for one, kind in self.columns.items() if kind == "discrete")}
        contradicted = next((one for one in (time, event) if one in (labels if one == time else numbers)), None)
        contradicted = time if time in self.transform else contradicted
        return f"{quoted(name)}: another key declares {quoted(contradicted)}" if contradicted else ""

    @model_validator(mode="after")
    def _check_names(self, info: ValidationInfo) -> Self:
        """Raise `BadInput` for two columns of a silo that are renamed to one name, and for an invalid name."""
        for silo, names in self.rename.items():
            for name, common in names.items():
                fault = name_fault(common)
                if fault is not None:
                    raise BadInput(f"{info.context}: rename: {quoted(silo)}: {quoted(name)}: the column {fault}")
                if [*names.values()].count(common) > 1:
                    raise BadInput(f"{info.context}: rename: {quoted(silo)}: two columns would be {quoted(common)}")
        return self

    @model_validator(mode="after")
    def _check_numbers(self, info: ValidationInfo) -> Self:
        """Raise `BadInput` for a transform or a unit of a column of labels, and for an ambiguous decimal comma."""
        place = str(info.context)
        labelled = self.levels.keys() | {name for name, kind in self.columns.items() if kind == "discrete"}
        for name in self.transform:
            if name in labelled:
                raise BadInput(f"{place}: transform: {quoted(name)} has labels: only numbers can be transformed")
        for name in labelled & self.unit.keys():
            raise BadInput(f"{place}: unit: {quoted(name)} has labels: only numbers have a unit")
        for silo, factors in self.scale.items():
            for name in labelled & factors.keys():
                raise BadInput(f"{place}: scale: {quoted(silo)}: {quoted(name)} has labels: only numbers have a unit")
        if self.decimal == self.separator == ",":
            raise BadInput(f"{place}: decimal: ',' is already the separator")
        return self


EXPECTED = {
    "dict_type": "a JSON object",
    "list_type": "a list",
    "string_type": "text",
    "string_too_short": "a name",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than": "a positive number",
    "too_short": "long enough",
    "too_long": "short enough",
}
"""by pydantic's type of an error, what the value should have been"""


def parse_about(about: Mapping[str, Any], place: str = ABOUT) -> About:
    """The content of `about.json`; raises `BadInput` with the `place`, the key and the value if a value is invalid."""
    try:
        return About.model_validate(about, context=place)
    except ValidationError as error:
        raise BadInput(_fault(about, place, error.errors())) from None


def _fault(about: Mapping[str, Any], place: str, errors: Sequence[Any]) -> str:
    """The innermost of `errors` in one line; a value that may have several types has an error for each of them."""
    innermost = max(errors, key=lambda error: len(error["loc"]))
    cause = innermost.get("ctx", {}).get("error")
    if isinstance(cause, BadInput):
        return str(cause)
    key = innermost["loc"][0]
    if innermost["type"] == "extra_forbidden":
        near = get_close_matches(key, known_keys(), 1)
        instead = f"did you mean {quoted(near[0])}?" if near else "remarks have the key 'comment'"
        return f"{place}: unknown key {quoted(key)}; {instead}"
    same = [one for one in errors if one["loc"][0] == key and one["input"] is innermost["input"]]
    expected = dict.fromkeys(one.get("ctx", {}).get("expected") or EXPECTED.get(one["type"], "valid") for one in same)
    if "a number" in expected:
        expected.pop("a whole number", None)
    field = About.model_fields.get(key)
    example = f", such as {json.dumps(field.examples[0])}" if field is not None and field.examples else ""
    where = ": ".join([place, key, *map(quoted, _names_in(about[key], innermost["loc"][1:]))])
    return f"{where}: {quoted(str(innermost['input']))} is not {' or '.join(expected)}{example}"


def _names_in(value: Any, location: Sequence[str | int]) -> Iterator[str]:
    """The keys of objects in pydantic's location of an error, which also has indices, and names of types."""
    for part in location:
        if isinstance(value, Mapping) and part in value:
            yield str(part)
            value = value[part]
        elif isinstance(value, list | tuple) and isinstance(part, int):
            value = value[part]


def known_keys() -> tuple[str, ...]:
    """The keys that `about.json` may have."""
    return tuple(field.alias or name for name, field in About.model_fields.items())


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
    parse_about(about, str(path))
    return about


def write_about(folder: Path, about: Mapping[str, Any], silos: Mapping[str, Path]) -> None:
    """Write `about.json`: `about` (by default of the kind continuous), and the checksums of the files of `silos`.

    Raises `TypeError` or `ValueError` if JSON cannot represent it, `BadInput` for an unknown key or an invalid value.
    """
    parse_about(about, str(folder / ABOUT))
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


IGNORED, NOT_SELECTED, OWNER = "left out by --ignore", "not among --only", "names the silo of each row (--by)"
CONDITION = "names the condition of each row (--condition)"
CLUSTER = "names the cluster of each row (--cluster)"
RECURRING = "ids that recur"
"""the begin of the reason for excluding a column of ids that several rows share"""


@dataclass(frozen=True)
class Reading:
    """The options of reading a data set."""

    ignore: tuple[str, ...] = ()
    """columns to leave out"""
    only: tuple[str, ...] = ()
    """columns to read; if empty, all columns are read"""
    missing: Missing = "model"
    silos: tuple[str, ...] = ()
    """silos to read; if empty, all silos are read"""
    outliers: Outliers = "keep"
    columns: DifferentColumns = "same"
    time: tuple[str, ...] = ()
    """the column of times, or the columns of their parts, such as year and month; if empty, a column `time` is used"""
    dates: Dates = "set-aside"
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
    small_silos: SmallSilos = "leave-out"
    condition: str | None = None
    """the column that names the condition of each row, if experiments set variables in some rows of a silo"""
    cluster: str | None = None
    """the column that names the cluster of each row, if rows of one cluster depend on each other"""
    series_gaps: bool = False
    """whether a learner of time series of numbers models empty cells; if not, a row with an empty cell ends a stretch
    """

    def __post_init__(self) -> None:
        """Raise `BadInput` for options that contradict each other, and for options that a run with an ε cannot have."""
        both = sorted(set(self.ignore) & set(self.only))
        if both:
            raise BadInput(f"--ignore and --only both name the column '{both[0]}'")
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
        self._check_cluster()
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

    def _check_cluster(self) -> None:
        """Raise `BadInput` for a column of clusters that another option names, with conditions, or with an ε."""
        if self.cluster is None:
            return
        for option, named in (("--by", (self.by,)), ("--ignore", self.ignore), ("--time", self.time)):
            if self.cluster in named:
                raise BadInput(f"--cluster and {option} both name the column '{self.cluster}'")
        if self.conditions_column is not None:
            raise BadInput("--cluster cannot be used with --condition: rows of a cluster may have several conditions")
        if self.private:
            raise BadInput(
                "--cluster cannot be used with an ε, which protects single rows: a person with several rows would be "
                "protected less. Owners at level sums do not allow it either, as they describe no cell"
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
        if name == self.cluster:
            return CLUSTER
        if name in self.ignore:
            return IGNORED
        return NOT_SELECTED if self.only and name not in self.only else None


def condition_column(aside: Mapping[str, str]) -> str | None:
    """The column that names the condition of each row, or None; `aside` has the excluded columns with their reasons."""
    return next((name for name, reason in aside.items() if reason == CONDITION), None)


def cluster_column(aside: Mapping[str, str]) -> str | None:
    """The column that names the cluster of each row, or None; `aside` has the excluded columns with their reasons."""
    return next((name for name, reason in aside.items() if reason == CLUSTER), None)


def recurring_column(aside: Mapping[str, str]) -> str | None:
    """The excluded column whose ids recur, so that it may name clusters, or None."""
    return next((name for name, reason in aside.items() if reason.startswith(RECURRING)), None)


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
    rename: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """by silo, columns that have another name in its file, each with its name in the data set"""
    recode: Recode = field(default_factory=dict)
    """by silo and column, the replaced cells and their replacements"""
    join: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """by variable, the columns that are its indicators"""
    scale: Scale = field(default_factory=dict)
    """by silo and column, the factor of the numbers"""
    unit: Mapping[str, str] = field(default_factory=dict)
    """by column, the unit of its numbers"""
    sheets: Mapping[str, str] = field(default_factory=dict)
    """by silo, the sheet of its spreadsheet; the key "" has the sheet of all other silos"""
    survival: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """by survival outcome, its columns of times and of events; only outcomes with both columns among those that are
    read"""

    def at_silo(self, silo: str) -> "Declared":
        """The declarations with the names, recoding, units, sheet and rows of one silo in `form`."""
        recode = tuple((name, tuple(cells.items())) for name, cells in self.recode.get(silo, {}).items())
        scale = tuple((name, by, self.marks.get(name, ())) for name, by in self.scale.get(silo, {}).items())
        sheet = self.sheets.get(silo, self.sheets.get("")) or None
        merges = self.reading.small_silos == "merge" and silo == OTHERS
        rows = None if self.reading.by is None else (self.reading.by, None if merges else silo)
        rename, unit = tuple(self.rename.get(silo, {}).items()), tuple(self.unit.items())
        own = replace(self.form, rename=rename, recode=recode, join=tuple(self.join.items()))
        form = replace(own, unit=unit, scale=scale, sheet=sheet, rows=rows)
        return self if form == self.form else replace(self, form=form)

    @property
    def all_targets(self) -> Mapping[str, tuple[str, ...]]:
        """The targets by silo or condition, from `--targets` or, without this option, from `about.json`."""
        return self.targets if self.reading.targets is None else dict(self.reading.targets)

    @property
    def targets_place(self) -> str:
        """Where the targets are declared, for messages."""
        return f"{ABOUT}: targets" if self.reading.targets is None else "--targets"

    @property
    def survival_columns(self) -> tuple[str, ...]:
        """The columns of the survival outcomes."""
        return tuple(dict.fromkeys(name for pair in self.survival.values() for name in pair))

    @property
    def times(self) -> frozenset[str]:
        """The columns of times of the survival outcomes."""
        return frozenset(time for time, _ in self.survival.values())

    def decisive(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The `columns` whose empty cells exclude a row from complete rows: those of no survival outcome."""
        return tuple(name for name in columns if name not in self.survival_columns)

    def without_survival(self) -> "Declared":
        """The declarations of the columns that belong to no survival outcome."""
        own = self.survival_columns
        levels = {name: labels for name, labels in self.levels.items() if name not in own}
        columns = {name: kind for name, kind in self.columns.items() if name not in own}
        return replace(self, levels=levels, columns=columns, survival={}) if own else self

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

    @property
    def bounds_far_numbers(self) -> bool:
        """Whether columns with far numbers get a bound.

        They do not if outliers are set aside, nor with an ε, because cells would then decide about the transform.
        """
        return self.reading.outliers == "keep" and not self.reading.private

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
        """The declarations for rows without empty cells, of variables with these `kinds`, with fixed kinds and scales.

        Empty cells of survival outcomes exclude no row, but are refused if empty cells are.
        """
        complete = tuple(kinds) if self.reading.missing == "refuse" else self.decisive(tuple(kinds))
        fixed: dict[str, Any] = {"fixed_transforms": transforms, "fixed_dates": dates}
        return replace(self, complete=complete, columns=kinds, words=self.words_in(levels), **fixed)

    def words_in(self, levels: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """By column, the inferred `levels` that mark a missing value in other columns."""
        words = {name: missing_words(labels) for name, labels in levels.items() if name not in self.levels}
        return {name: labels for name, labels in words.items() if labels}


NO_DECLARATION = Declared()
READ_ALL = Reading()


def declarations(about: Mapping[str, Any], reading: Reading = READ_ALL) -> Declared:
    """The declarations in `about`, the content of `about.json`, together with the options of reading."""
    own = parse_about(about)
    if reading.condition is None and own.condition is not None:
        reading = replace(reading, condition=own.condition)
    if reading.cluster is None and own.cluster is not None:
        reading = replace(reading, cluster=own.cluster)
    asked = {*reading.only, *reading.time, reading.by, reading.condition, reading.cluster}
    reading = reading.also_ignoring(name for name in own.ignore if name not in asked)
    survival = {
        name: (time, event)
        for name, (time, event) in own.survival.items()
        if not (reading.leaves_out(time) or reading.leaves_out(event))
    }
    return Declared(
        own.kind,
        {**own.columns, **{time: "continuous" for time, _ in survival.values()}},
        {name: tuple(map(str, labels)) for name, labels in own.levels.items()}
        | {event: SURVIVAL_EVENTS for _, event in survival.values()},
        {name: tuple(map(str, cells)) for name, cells in own.missing.items()},
        Form(own.separator, own.encoding, own.decimal),
        own.step,
        tuple(map(str, own.window or ())),
        {silo: tuple(lengths) for silo, lengths in own.stretches.items()},
        reading,
        survival=survival,
        transforms=own.transform,
        targets={name: tuple(dict.fromkeys(targets)) for name, targets in own.targets.items() if targets},
        rename=own.rename,
        recode={
            silo: {
                name: {label_of(cell): "" if label is None else str(label).strip() for cell, label in cells.items()}
                for name, cells in columns.items()
            }
            for silo, columns in own.recode.items()
        },
        scale=own.scale,
        unit=own.unit,
        join={name: tuple(columns) for name, columns in own.join.items()},
        sheets={"": own.sheet} if isinstance(own.sheet, str) else own.sheet,
    )


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
