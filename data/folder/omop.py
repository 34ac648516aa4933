"""A silo's table from a database in the OMOP common data model (OHDSI, CDM v5.4): one row for each patient of a cohort.

`about.json` declares the cohort and the columns under "omop" (`Omop`), the same for all silos. The file `<silo>.sql` of
a silo names only its database, and its query is compiled from the declaration (`query_of`) for the SQL of SQLite,
DuckDB and PostgreSQL. The query is an ordinary one from there on (`query.py`).

A patient's index date is that of the first record of a concept of the cohort. The patient enters if an observation
period includes the index date, with enough days before it, and if age and date are within the limits. Each column is
the last value, the number or the presence of records of some concepts in a window of days around the index date, or the
time to the first record after the index date. Follow-up ends with the observation period.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from annotated_types import Ge
from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from fedbnsl.algorithms.errors import BadInput, quoted

Concept = Annotated[int, Strict(), Ge(1)]
Day = Annotated[int, Strict()]
Days = Annotated[int, Strict(), Ge(0)]
Domain = Literal["condition", "drug", "procedure", "measurement", "observation", "visit", "device", "death"]
SOURCES: Mapping[Domain, tuple[str, str, str]] = {
    "condition": ("condition_occurrence", "condition_concept_id", "condition_start_date"),
    "drug": ("drug_exposure", "drug_concept_id", "drug_exposure_start_date"),
    "procedure": ("procedure_occurrence", "procedure_concept_id", "procedure_date"),
    "measurement": ("measurement", "measurement_concept_id", "measurement_date"),
    "observation": ("observation", "observation_concept_id", "observation_date"),
    "visit": ("visit_occurrence", "visit_concept_id", "visit_start_date"),
    "device": ("device_exposure", "device_concept_id", "device_exposure_start_date"),
    "death": ("death", "cause_concept_id", "death_date"),
}
"""by domain: its table, and the columns of its concepts and of its dates"""
WITH_VALUES: tuple[Domain, ...] = ("measurement", "observation")
"""the domains whose records have a number"""
MALE, FEMALE = 8507, 8532
"""the concepts of the OMOP vocabulary for the sexes"""


class Part(BaseModel):
    """A part of the declaration."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Records(Part):
    """The records of some concepts in one domain."""

    domain: Domain
    """the kind of the records"""
    concepts: list[Concept] = []
    """standard concepts; empty for any record of the domain"""
    descendants: bool = True
    """whether concepts include their descendants by the table concept_ancestor"""


class Cohort(Records):
    """Who is in the table, and from which day on."""

    concepts: Annotated[list[Concept], Field(min_length=1)]
    """the first record of one of these is the index date"""
    prior_days: Days = 0
    """minimum number of observed days before the index date"""
    min_age: Days | None = None
    """minimum age at the index date, in years"""
    max_age: Days | None = None
    """maximum age at the index date, in years"""
    begin: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    """first index date"""
    end: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    """last index date"""


class ColumnOfRecords(Records):
    """A column from the records around the index date."""

    value: Literal["last", "count", "present"]
    """the number of the last record, the number of records, or whether there is one (yes, no)"""
    window: Annotated[list[Day], Field(min_length=2, max_length=2)] | None = None
    """first and last day relative to the index date; default: that of the declaration"""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.value == "last" and self.domain not in WITH_VALUES:
            raise ValueError(f"only records of {' and '.join(WITH_VALUES)} have a number; use count or present")
        _check_window(self.window)
        return self


class TimeToRecord(Records):
    """Two columns: the days to the first record after the index date, and whether it was observed (1, 0)."""

    value: Literal["time"]
    """the time to the first record"""
    event: Annotated[str, Field(min_length=1)]
    """the name of the column that says whether the event was observed"""
    within: Annotated[int, Strict(), Ge(1)] | None = None
    """maximum number of days of follow-up"""


Demographic = Literal["age", "sex"]


class Omop(Part):
    """A table from databases in the OMOP common data model."""

    cohort: Cohort
    columns: Annotated[dict[str, Demographic | ColumnOfRecords | TimeToRecord], Field(min_length=1)]
    """by name, what a column has: "age" at the index date in years, "sex", or records"""
    window: Annotated[list[Day], Field(min_length=2, max_length=2)] = [-365, 0]
    """first and last day relative to the index date, for columns without a window"""
    cdm: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """the schema of the tables; default: that of the connection"""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_window(self.window)
        events = [one.event for one in self.columns.values() if isinstance(one, TimeToRecord)]
        twice = [name for name in (*self.columns, *events) if (*self.columns, *events).count(name) > 1]
        if twice:
            raise ValueError(f"two columns are called {quoted(twice[0])}")
        return self


def _check_window(window: list[int] | None) -> None:
    if window and window[0] > window[1]:
        raise ValueError(f"the window {window} ends before it begins")


@dataclass(frozen=True)
class Dialect:
    """How a database computes with dates."""

    days: str
    """the number of days from `{start}` to `{end}`"""
    year: str
    """the year of `{date}`"""


DIALECTS: Mapping[str, Dialect] = {
    "sqlite": Dialect(
        "CAST(julianday({end}) - julianday({start}) AS INTEGER)", "CAST(strftime('%Y', {date}) AS INTEGER)"
    ),
    "duckdb": Dialect(
        "date_diff('day', CAST({start} AS DATE), CAST({end} AS DATE))", "CAST(EXTRACT(YEAR FROM {date}) AS INTEGER)"
    ),
    "postgresql": Dialect(
        "(CAST({end} AS DATE) - CAST({start} AS DATE))", "CAST(EXTRACT(YEAR FROM {date}) AS INTEGER)"
    ),
}
"""the databases, by the begin of their URL"""


@dataclass(frozen=True)
class Compiler:
    """The SQL of a declaration for one kind of database."""

    omop: Omop
    dialect: Dialect

    @classmethod
    def for_database(cls, omop: Omop, url: str, place: str) -> "Compiler":
        """The compiler for the database at `url`; raises `BadInput` for a kind of database that has none."""
        kind = url.partition(":")[0].partition("+")[0]
        if kind not in DIALECTS:
            raise BadInput(f"{place}: line 1: tables of OMOP are read from {', '.join(DIALECTS)}, not {kind}")
        return cls(omop, DIALECTS[kind])

    @property
    def query(self) -> str:
        """The query for the table: one row for each patient of the cohort, in the order of their ids."""
        selected, joins = list[str](), list[str]()
        for number, (name, column) in enumerate(self.omop.columns.items(), 1):
            if column == "age":
                selected.append(f"c.age AS {_name(name)}")
            elif column == "sex":
                sexes = f"WHEN {FEMALE} THEN 'female' WHEN {MALE} THEN 'male'"
                selected.append(f"CASE c.gender_concept_id {sexes} END AS {_name(name)}")
            else:
                alias = f"r{number}"
                if isinstance(column, TimeToRecord):
                    columns, records = self._outcome(name, column, alias)
                else:
                    columns, records = self._column(name, column, alias)
                selected += columns
                joins.append(f"LEFT JOIN (\n{_indented(records)}\n) {alias} ON {alias}.person_id = c.person_id")
        columns_of = ",\n  ".join(selected)
        steps = ",\n".join(f"{name} AS MATERIALIZED (\n{_indented(text)}\n)" for name, text in self._steps)
        return "\n".join([f"WITH {steps}", f"SELECT\n  {columns_of}", "FROM cohort c", *joins, "ORDER BY c.person_id"])

    @property
    def attrition(self) -> tuple[tuple[str, str], ...]:
        """The steps from all patients to the cohort, each with a query for the number of patients that are left."""
        words = ("patients with a record of the cohort", "observed on the index date and before", "of the age and date")
        steps, found = self._steps, [("patients in the database", f"SELECT COUNT(*) FROM {self._table('person')}")]
        for number, word in enumerate(words, 1):
            text = ",\n".join(f"{name} AS MATERIALIZED (\n{_indented(step)}\n)" for name, step in steps[:number])
            found.append((word, f"WITH {text}\nSELECT COUNT(*) FROM {steps[number - 1][0]}"))
        return tuple(found)

    @property
    def _steps(self) -> tuple[tuple[str, str], ...]:
        """The named subqueries from the first records to the cohort."""
        cohort = self.omop.cohort
        table, concept, date = SOURCES[cohort.domain]
        observed = self._days("o.observation_period_start_date", "e.index_date")
        age = f"{self.dialect.year.format(date='e.index_date')} - p.year_of_birth"
        limits = [
            *([f"age >= {cohort.min_age}"] if cohort.min_age is not None else []),
            *([f"age <= {cohort.max_age}"] if cohort.max_age is not None else []),
            *([f"index_date >= '{cohort.begin}'"] if cohort.begin else []),
            *([f"index_date <= '{cohort.end}'"] if cohort.end else []),
        ]
        entries = (
            f"SELECT person_id, MIN({date}) AS index_date\nFROM {self._table(table)}\n"
            f"WHERE {self._concepts(cohort, concept)}\nGROUP BY person_id"
        )
        present = (
            "SELECT e.person_id, e.index_date, MAX(o.observation_period_end_date) AS last_date,\n"
            f"  {age} AS age, p.gender_concept_id\n"
            f"FROM entries e\nJOIN {self._table('person')} p ON p.person_id = e.person_id\n"
            f"JOIN {self._table('observation_period')} o ON o.person_id = e.person_id\n"
            "  AND e.index_date BETWEEN o.observation_period_start_date AND o.observation_period_end_date\n"
            f"WHERE {observed} >= {cohort.prior_days}\n"
            "GROUP BY e.person_id, e.index_date, p.year_of_birth, p.gender_concept_id"
        )
        chosen = "SELECT * FROM observed" + (f"\nWHERE {' AND '.join(limits)}" if limits else "")
        return (("entries", entries), ("observed", present), ("cohort", chosen))

    def _column(self, name: str, column: ColumnOfRecords, alias: str) -> tuple[list[str], str]:
        """The selected column, and the subquery of its records."""
        table, concept, date = SOURCES[column.domain]
        first, last = column.window or self.omop.window
        records = (
            f"FROM {self._table(table)} r\nJOIN cohort c ON c.person_id = r.person_id\n"
            f"WHERE {self._concepts(column, f'r.{concept}')}\n"
            f"  AND {self._days('c.index_date', f'r.{date}')} BETWEEN {first} AND {last}"
        )
        if column.value == "last":
            order = f"PARTITION BY r.person_id ORDER BY r.{date} DESC, r.{column.domain}_id DESC"
            ranked = (
                f"SELECT r.person_id, r.value_as_number, ROW_NUMBER() OVER ({order}) AS place\n"
                f"{records}\n  AND r.value_as_number IS NOT NULL"
            )
            query = f"SELECT person_id, value_as_number FROM (\n{_indented(ranked)}\n) ranked\nWHERE place = 1"
            return [f"{alias}.value_as_number AS {_name(name)}"], query
        counted = f"SELECT r.person_id, COUNT(*) AS records\n{records}\nGROUP BY r.person_id"
        number = f"COALESCE({alias}.records, 0)"
        value = f"CASE WHEN {number} > 0 THEN 'yes' ELSE 'no' END" if column.value == "present" else number
        return [f"{value} AS {_name(name)}"], counted

    def _outcome(self, name: str, outcome: TimeToRecord, alias: str) -> tuple[list[str], str]:
        """The columns of the time and of the event, and the subquery of the first record after the index date."""
        table, concept, date = SOURCES[outcome.domain]
        first = (
            f"SELECT r.person_id, MIN(r.{date}) AS event_date\nFROM {self._table(table)} r\n"
            f"JOIN cohort c ON c.person_id = r.person_id\n"
            f"WHERE {self._concepts(outcome, f'r.{concept}')}\n"
            f"  AND r.{date} > c.index_date AND r.{date} <= c.last_date\nGROUP BY r.person_id"
        )
        followed = self._days("c.index_date", f"COALESCE({alias}.event_date, c.last_date)")
        observed = f"{alias}.event_date IS NOT NULL"
        if outcome.within is not None:
            observed += f" AND {followed} <= {outcome.within}"
            followed = f"CASE WHEN {followed} > {outcome.within} THEN {outcome.within} ELSE {followed} END"
        return [
            f"{followed} AS {_name(name)}",
            f"CASE WHEN {observed} THEN 1 ELSE 0 END AS {_name(outcome.event)}",
        ], first

    def _concepts(self, records: Records, column: str) -> str:
        """The condition that the `column` has one of the concepts of the `records`."""
        if not records.concepts:
            return "1 = 1"
        listed = ", ".join(map(str, records.concepts))
        if not records.descendants:
            return f"{column} IN ({listed})"
        below = f"SELECT descendant_concept_id FROM {self._table('concept_ancestor')}"
        return f"({column} IN ({listed}) OR {column} IN ({below} WHERE ancestor_concept_id IN ({listed})))"

    def _days(self, start: str, end: str) -> str:
        return self.dialect.days.format(start=start, end=end)

    def _table(self, name: str) -> str:
        return f"{self.omop.cdm}.{name}" if self.omop.cdm else name


def _name(name: str) -> str:
    """The name of a column as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
