"""Databases in the OMOP common data model with patients drawn from a known graph, to try `data/folder/omop.py` on.

Each site is an SQLite database of patients, some of whom have diabetes. What is recorded before the diagnosis follows
the graph `TRUTH`; sites differ in age, in how often they measure, and in how long they follow patients.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

DIABETES, TYPE_2, HYPERTENSION, SMOKER, STATIN, VISIT = 201820, 201826, 316866, 4298794, 1545958, 9202
HBA1C, BMI, PRESSURE, CREATININE = 3004410, 3038553, 3004249, 3016723
"""concepts of the OMOP vocabulary"""
COLUMNS: dict[str, Any] = {
    "age": "age",
    "sex": "sex",
    "smoker": {"domain": "observation", "concepts": [SMOKER], "value": "present"},
    "bmi": {"domain": "measurement", "concepts": [BMI], "value": "last"},
    "hba1c": {"domain": "measurement", "concepts": [HBA1C], "value": "last"},
    "pressure": {"domain": "measurement", "concepts": [PRESSURE], "value": "last"},
    "creatinine": {"domain": "measurement", "concepts": [CREATININE], "value": "last"},
    "statin": {"domain": "drug", "concepts": [STATIN], "value": "present", "window": [-180, 0]},
    "visits": {"domain": "visit", "concepts": [], "value": "count"},
    "days": {"domain": "death", "concepts": [], "value": "time", "event": "died", "within": 1825},
}
OMOP: dict[str, Any] = {
    "cohort": {"domain": "condition", "concepts": [DIABETES], "prior_days": 365, "min_age": 18},
    "columns": COLUMNS,
}
"""the declaration of a cohort of adults with newly diagnosed diabetes"""
TRUTH = (
    ("age", "pressure"),
    ("bmi", "hba1c"),
    ("bmi", "pressure"),
    ("pressure", "creatinine"),
    ("pressure", "statin"),
    ("hba1c", "visits"),
    ("age", "days"),
    ("smoker", "days"),
    ("creatinine", "days"),
)
"""the edges of the graph behind the columns of patients with diabetes"""
TABLES = {
    "person": "person_id INTEGER PRIMARY KEY, gender_concept_id INTEGER, year_of_birth INTEGER",
    "observation_period": "observation_period_id INTEGER PRIMARY KEY, person_id INTEGER, "
    "observation_period_start_date DATE, observation_period_end_date DATE",
    "condition_occurrence": "condition_occurrence_id INTEGER PRIMARY KEY, person_id INTEGER, "
    "condition_concept_id INTEGER, condition_start_date DATE",
    "drug_exposure": "drug_exposure_id INTEGER PRIMARY KEY, person_id INTEGER, drug_concept_id INTEGER, "
    "drug_exposure_start_date DATE",
    "measurement": "measurement_id INTEGER PRIMARY KEY, person_id INTEGER, measurement_concept_id INTEGER, "
    "measurement_date DATE, value_as_number REAL",
    "observation": "observation_id INTEGER PRIMARY KEY, person_id INTEGER, observation_concept_id INTEGER, "
    "observation_date DATE, value_as_number REAL",
    "visit_occurrence": "visit_occurrence_id INTEGER PRIMARY KEY, person_id INTEGER, visit_concept_id INTEGER, "
    "visit_start_date DATE",
    "death": "person_id INTEGER, death_date DATE, cause_concept_id INTEGER",
    "concept_ancestor": "ancestor_concept_id INTEGER, descendant_concept_id INTEGER",
}
"""the tables that a cohort can be read from, with the columns that are used"""


@dataclass(frozen=True)
class Site:
    """How a site differs from others."""

    patients: int
    age: float = 60.0
    """mean age at the diagnosis"""
    measured: float = 0.95
    """probability that a value was measured in the year before the diagnosis"""
    followed: float = 2000.0
    """mean number of days of follow-up"""


def write_cdm(path: Path, site: Site, rng: np.random.Generator) -> None:
    """Draw the patients of a `site`, and write them to a new SQLite database at `path`."""
    with sqlite3.connect(path) as connection:
        for name, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
        rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
        rows["concept_ancestor"] = [(DIABETES, DIABETES), (DIABETES, TYPE_2)]
        for person in range(1, site.patients + 1):
            for name, row in _patient(person, site, rng):
                keyed = name in ("person", "death", "concept_ancestor")
                rows[name].append(row if keyed else (len(rows[name]) + 1, *row))
        for name, own in rows.items():
            if own:
                _insert(connection, name, own)
    connection.close()


def _insert(connection: sqlite3.Connection, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
    rows = list(rows)
    connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def _patient(person: int, site: Site, rng: np.random.Generator) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the records of a patient, each with its table."""
    index = date(2012, 1, 1) + timedelta(days=int(rng.integers(0, 2000)))
    age = round(float(np.clip(rng.normal(site.age, 11), 5, 95)))
    known = timedelta(days=int(rng.integers(100, 3000)))
    end = index + timedelta(days=int(rng.exponential(site.followed)) + 1)
    yield "person", (person, int(rng.choice([8507, 8532])), index.year - age)

    smoker, bmi = rng.random() < 0.3, rng.normal(29, 4)
    hba1c = 7 + 0.15 * (bmi - 29) + rng.normal(0, 0.8)
    pressure = 135 + 0.6 * (age - 60) + 1.2 * (bmi - 29) + rng.normal(0, 9)
    creatinine = 1 + 0.012 * (pressure - 135) + rng.normal(0, 0.15)
    statin = rng.random() < 1 / (1 + np.exp(-(pressure - 135) / 8))
    visits = rng.poisson(np.exp(1.2 + 0.35 * (hba1c - 7)))
    hazard = np.exp(-8.2 + 0.05 * (age - 60) + 0.8 * smoker + 1.5 * (creatinine - 1))
    death = index + timedelta(days=1 + int(rng.exponential(1 / hazard)))

    if death <= end:
        end = death
        yield "death", (person, death.isoformat(), 0)
    yield "observation_period", (person, (index - known).isoformat(), end.isoformat())
    if rng.random() < 0.7:
        yield "condition_occurrence", (person, TYPE_2, index.isoformat())
        yield "condition_occurrence", (person, DIABETES, (index + timedelta(days=90)).isoformat())
    yield "condition_occurrence", (person, HYPERTENSION, (index - timedelta(days=30)).isoformat())
    before = [(index - timedelta(days=int(day))).isoformat() for day in rng.integers(0, 360, 60)]
    for value, concept in ((bmi, BMI), (hba1c, HBA1C), (pressure, PRESSURE), (creatinine, CREATININE)):
        if rng.random() < site.measured:
            days = sorted(rng.integers(0, 360, 2), reverse=True)
            for noise, day in zip((3.0, 0.0), days, strict=True):  # the last one counts
                when = index - timedelta(days=int(day))
                yield "measurement", (person, concept, when.isoformat(), round(float(value + noise), 2))
        later = index + timedelta(days=5)
        yield "measurement", (person, concept, later.isoformat(), round(float(value) * 0.8, 2))
    if smoker:
        yield "observation", (person, SMOKER, before[0], None)
    if statin:
        yield "drug_exposure", (person, STATIN, (index - timedelta(days=int(rng.integers(0, 170)))).isoformat())
    for day in before[:visits]:
        yield "visit_occurrence", (person, VISIT, day)
