"""Tables from databases in the OMOP common data model, compared with tables that plain Python makes of the records."""

import json
import shutil
import sqlite3
from collections import defaultdict
from datetime import date, timedelta

import duckdb
import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.data.folder.query import QuerySource
from fedbnsl.data.generators import cdm
from fedbnsl.flows.cli.inspect import show_folder
from fedbnsl.flows.options.learn import LearnOptions

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("cdm") / "site.db"
    cdm.write_cdm(path, cdm.Site(250, measured=0.8), np.random.default_rng(3))
    connection = sqlite3.connect(path)
    with connection:  # two records on one day, a gap in the observation, a patient without a sex
        connection.execute(f"INSERT INTO measurement VALUES (900001, 7, {cdm.BMI}, '2016-01-01', 31)")
        connection.execute(f"INSERT INTO measurement VALUES (900002, 7, {cdm.BMI}, '2016-01-01', 32)")
        connection.execute(f"INSERT INTO measurement VALUES (900003, 7, {cdm.BMI}, '2016-01-02', NULL)")
        connection.execute("UPDATE person SET gender_concept_id = 0 WHERE person_id = 3")
        connection.execute("DELETE FROM observation_period WHERE person_id = 4")
    connection.close()
    return path


def in_duckdb(path, target):
    """A copy of the SQLite database at `path` in DuckDB."""
    source = sqlite3.connect(path)
    with duckdb.connect(target) as connection:
        for name, columns in cdm.TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
            rows = source.execute(f"SELECT * FROM {name}").fetchall()
            if rows:
                connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    source.close()
    return target


def expected(path, omop):
    """The table of the declaration, by loops over the records of the database."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    read = {name: [dict(row) for row in connection.execute(f"SELECT * FROM {name}")] for name in cdm.TABLES}
    connection.close()
    below = defaultdict(set)
    for row in read["concept_ancestor"]:
        below[row["ancestor_concept_id"]].add(row["descendant_concept_id"])

    def records(one):
        table = {"condition": "condition_occurrence", "drug": "drug_exposure", "visit": "visit_occurrence"}
        wanted = set(one["concepts"])
        for concept in one["concepts"] if one.get("descendants", True) else ():
            wanted |= below[concept]
        for row in read[table.get(one["domain"], one["domain"])]:
            (concept,) = [value for key, value in row.items() if "concept" in key]
            (when,) = [value for key, value in row.items() if key.endswith("date")]
            if not wanted or concept in wanted:
                yield row["person_id"], date.fromisoformat(when), row

    cohort, first = omop["cohort"], {}
    for person, when, _ in records(cohort):
        first[person] = min(when, first.get(person, when))
    people = {row["person_id"]: row for row in read["person"]}
    rows = {}
    for person, index in first.items():
        periods = [
            (
                date.fromisoformat(row["observation_period_start_date"]),
                date.fromisoformat(row["observation_period_end_date"]),
            )
            for row in read["observation_period"]
            if row["person_id"] == person
        ]
        fitting = [
            (start, end)
            for start, end in periods
            if start <= index <= end and index - start >= cohort.get("prior_days", 0) * DAY
        ]
        age = index.year - people[person]["year_of_birth"]
        ages = cohort.get("min_age", 0) <= age <= cohort.get("max_age", 999)
        dates = cohort.get("begin", "0") <= index.isoformat() <= cohort.get("end", "9")
        if not fitting or not ages or not dates:
            continue
        last, row = max(end for _, end in fitting), {}
        for name, column in omop["columns"].items():
            if column == "age":
                row[name] = age
            elif column == "sex":
                row[name] = {8507: "male", 8532: "female"}.get(people[person]["gender_concept_id"])
            elif column["value"] == "time":
                after = [when for who, when, _ in records(column) if who == person and index < when <= last]
                days = (min(after, default=last) - index).days
                limit = column.get("within") or 10**9
                row[name], row[column["event"]] = min(days, limit), int(bool(after) and days <= limit)
            else:
                begin, end = column.get("window") or omop.get("window", [-365, 0])
                found = [
                    (when, one)
                    for who, when, one in records(column)
                    if who == person and begin <= (when - index).days <= end
                ]
                if column["value"] == "count":
                    row[name] = len(found)
                elif column["value"] == "present":
                    row[name] = "yes" if found else "no"
                else:
                    known = [(when, one["measurement_id"], one["value_as_number"]) for when, one in found]
                    known = [one for one in known if one[2] is not None]
                    row[name] = max(known)[2] if known else None
        rows[person] = row
    return pd.DataFrame([rows[person] for person in sorted(rows)])


def source(folder, url, omop):
    folder.mkdir(exist_ok=True)
    (folder / "site.sql").write_text(f"-- {url}\n")
    (folder / "about.json").write_text(json.dumps({"omop": omop}))
    return QuerySource(folder / "site.sql")


OTHER = {
    "cohort": {
        "domain": "condition",
        "concepts": [cdm.DIABETES],
        "descendants": False,
        "max_age": 65,
        "begin": "2013-01-01",
        "end": "2016-06-30",
    },
    "window": [-100, -1],
    "columns": {
        "visits": {"domain": "visit", "concepts": [], "value": "count"},
        'the "bmi"': {"domain": "measurement", "concepts": [cdm.BMI], "value": "last"},
        "later": {"domain": "measurement", "concepts": [cdm.BMI, cdm.HBA1C], "value": "count", "window": [1, 20]},
        "days": {"domain": "death", "concepts": [], "value": "time", "event": "died"},
    },
}


@pytest.mark.parametrize("omop", [cdm.OMOP, OTHER], ids=["all columns", "other limits"])
@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_the_table_is_that_of_loops_over_the_records(kind, omop, database, tmp_path):
    where = database if kind == "sqlite" else in_duckdb(database, tmp_path / "site.duckdb")
    query = source(tmp_path / "data", f"{kind}:///{where}", omop)
    found = pd.concat([batch.to_pandas() for batch in query.batches(query.names)])
    wanted = expected(database, omop)
    assert len(wanted) > 40
    assert list(found.columns) == list(wanted.columns)
    pd.testing.assert_frame_equal(found.reset_index(drop=True), wanted, check_dtype=False)
    steps = [number for _, number in query.attrition()]
    assert steps[0] == 250
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] == len(wanted) < steps[-2] or omop is cdm.OMOP
    assert len(set(steps)) > 2


def test_inspect_shows_the_query_and_no_small_number_of_patients(database, tmp_path, capsys):
    late = {**cdm.OMOP, "cohort": {**cdm.OMOP["cohort"], "min_age": 81}}
    few = len(expected(database, late))
    assert 2 <= few < 10
    query = source(tmp_path / "data", f"sqlite:///{database}", late)
    show_folder(tmp_path / "data", LearnOptions())
    printed = capsys.readouterr().out
    assert printed.index(query.compiled) < printed.index("patients in the database") < printed.index("mixed data")
    (line,) = [line for line in printed.splitlines() if line.startswith("of the age and date")]
    assert line.split()[-1] == "<10"


def test_three_sites_learn_from_their_databases(tmp_path):
    rng = np.random.default_rng(5)
    sites = {"north": cdm.Site(1700), "south": cdm.Site(1700, 65, 0.9, 1500), "west": cdm.Site(1600, 55, 0.97, 2500)}
    for name, site in sites.items():
        cdm.write_cdm(tmp_path / f"{name}.db", site, rng)
        (tmp_path / f"{name}.sql").write_text(f"-- sqlite:///{tmp_path}/{name}.db\n")
    omop = {**cdm.OMOP, "columns": {name: one for name, one in cdm.COLUMNS.items() if name != "days"}}
    (tmp_path / "about.json").write_text(json.dumps({"omop": omop}))
    data = read_folder(tmp_path)
    assert all(rows > 900 for rows in data.schema.rows.values())
    assert not data.schema.streamed
    found = learn(tmp_path, bootstrap=0, seed=1).result.structure
    joined = {frozenset(found.variables[v] for v in pair) for pair in np.argwhere(found.adjacency)}
    wanted = {frozenset(edge) for edge in cdm.TRUTH if "days" not in edge}
    assert len(joined ^ wanted) <= 1


def test_rows_that_do_not_fit_into_memory_are_read_again_for_each_pass(database, tmp_path, monkeypatch):
    query = source(tmp_path / "data", f"sqlite:///{database}", cdm.OMOP)
    whole = pd.concat([batch.to_pandas() for batch in query.batches(query.names)])
    monkeypatch.setattr("fedbnsl.data.folder.batches.IN_MEMORY_BYTES", 1)
    again = QuerySource(query.path)
    assert query.fits_memory
    assert not again.fits_memory
    pd.testing.assert_frame_equal(pd.concat([batch.to_pandas() for batch in again.batches(again.names)]), whole)


BROKEN = {
    "cohort: Field required": lambda omop: omop.pop("cohort"),
    "'diagnosis'": lambda omop: omop["cohort"].update(domain="diagnosis"),
    "the window": lambda omop: omop.update(window=[0, -1]),
    "only records of measurement and observation have a number": lambda omop: omop["columns"]["statin"].update(
        value="last"
    ),
    "two columns are called 'age'": lambda omop: omop["columns"]["days"].update(event="age"),
    "cdm": lambda omop: omop.update(cdm="cdm; DROP TABLE person"),
    "concepts": lambda omop: omop["cohort"].update(concepts=["1) OR (1=1"]),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_declaration_with_a_fault_is_refused_in_one_line(fault, database, tmp_path):
    omop = json.loads(json.dumps(cdm.OMOP))
    BROKEN[fault](omop)
    query = source(tmp_path / "data", f"sqlite:///{database}", omop)
    with pytest.raises(BadInput) as refusal:
        _ = query.names
    assert str(refusal.value).startswith(f"{tmp_path / 'data' / 'about.json'}: ")
    assert "omop" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_what_a_database_lacks_is_named_in_one_line(database, tmp_path):
    for url, fault in (("mysql://x/y", "not mysql"), (f"sqlite:///{tmp_path}/none.db", "no such table")):
        with pytest.raises(BadInput, match=fault):
            _ = source(tmp_path / "data", url, cdm.OMOP).names
    query = source(tmp_path / "data", f"sqlite:///{database}", cdm.OMOP)
    (tmp_path / "data" / "about.json").unlink()
    with pytest.raises(BadInput, match=r'there is no query below line 1, and no "omop" in the about\.json beside it'):
        _ = QuerySource(query.path).names


def test_a_database_may_lie_beside_the_queries(database, tmp_path):
    query = source(tmp_path / "data", f"sqlite:///{tmp_path / 'data' / 'site.db'}", cdm.OMOP)
    shutil.copy(database, tmp_path / "data" / "site.db")
    assert read_folder(tmp_path / "data").schema.silos == ("site",)
    assert query.compiled is not None
