"""The kinds of columns just above and just below each threshold, in memory and in passes."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import create_engine, text

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches, query
from fedbnsl.data.folder.about import Declared
from fedbnsl.data.folder.folder import read_folder, read_schema
from fedbnsl.data.folder.sources import open_source
from fedbnsl.data.folder.table import open_table

FRACTIONS = "amount"


@pytest.fixture(params=["in memory", "in passes"])
def schema_of(request, tmp_path, monkeypatch):
    """A function that writes silos of columns and reads their schema."""
    if request.param == "in passes":
        monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 0)
        monkeypatch.setattr(batches, "MAX_BATCH_ROWS", 7)
        monkeypatch.setattr(batches, "MIN_BATCH_ROWS", 7)

    def read(about=None, silos=1, **columns):
        frame = pd.DataFrame({name: pd.Series(list(values), dtype=object) for name, values in columns.items()})
        frame[FRACTIONS] = [0.5 + k * 0.75 for k in range(len(frame))]
        for k in range(silos):
            frame[k::silos].to_csv(tmp_path / f"s{k}.csv", index=False)
        if about:
            (tmp_path / "about.json").write_text(json.dumps(about))
        return read_schema(tmp_path)

    return read


def cycled(values, rows):
    return [values[k % len(values)] for k in range(rows)]


@pytest.mark.parametrize(
    ("values", "rows", "codes"), [(10, 50, True), (11, 200, False), (10, 49, False), (3, 15, True)]
)
@pytest.mark.parametrize("silos", [1, 2])
def test_few_whole_numbers_beside_fractions_are_codes(schema_of, values, rows, codes, silos):
    """There are at most ten values over all silos, and each occurs five times on average."""
    schema = schema_of(silos=silos, code=cycled(range(values), rows))
    assert ("code" in schema.levels) == bool(codes)
    if codes:
        assert schema.levels["code"] == tuple(map(str, range(values)))
    assert not schema.aside


def test_one_fraction_makes_numbers_of_codes(schema_of):
    schema = schema_of(code=[*cycled(range(3), 59), 1.5])
    assert "code" not in schema.levels


def test_what_is_declared_holds(schema_of):
    about = {"columns": {"code": "continuous", "count": "discrete"}}
    schema = schema_of(about, code=cycled(range(3), 60), count=cycled(range(12), 60))
    assert "code" not in schema.levels
    assert len(schema.levels["count"]) == 12


@pytest.mark.parametrize(("labels", "kept"), [(50, True), (51, False)])
def test_fifty_labels_are_levels_and_more_are_text(schema_of, labels, kept):
    schema = schema_of(word=cycled([f"name {chr(97 + k // 26)}{chr(97 + k % 26)}" for k in range(labels)], 120))
    assert ("word" in schema.variables) == kept
    if kept:
        assert len(schema.levels["word"]) == 50
    else:
        assert schema.aside["word"].startswith("more than 50 distinct labels, such as names, ids, dates or free text")


@pytest.mark.parametrize(("empty", "kept"), [(54, True), (55, False)])
def test_a_column_nine_tenths_empty_is_a_variable_and_an_emptier_one_is_not(schema_of, empty, kept):
    sizes = [None] * empty + [k + 0.25 for k in range(60 - empty)]
    schema = schema_of(size=sizes)
    assert ("size" in schema.variables) == kept
    if not kept:
        assert schema.aside == {"size": "empty in 92% of the rows"}


@pytest.mark.parametrize(("last", "kept"), [(7.5, False), (7.25, True), (None, False)])
def test_a_constant_is_none_with_one_other_value(schema_of, last, kept):
    schema = schema_of(same=[*([7.5] * 39), last])
    assert ("same" in schema.variables) == kept
    if not kept:
        assert schema.aside == {"same": "constant: every cell is '7.5'"}
    assert schema.kind == "continuous"


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("visit", range(100, 120), True),  # consecutive
        ("visit", range(100, 119), False),  # as many as may be chance
        ("visit", [*range(100, 119), 125], False),
        ("id", [*range(100, 119), 125], True),
        ("patient_id", [*range(100, 119), 125], True),
        ("idea", [*range(100, 119), 125], False),
        ("id", [*range(100, 119), 118], False),
        ("id", [*range(100, 119), 125.5], False),
    ],
)
def test_row_numbers_and_ids_are_no_variables(schema_of, name, values, why):
    schema = schema_of(**{name: values})
    assert schema.aside == ({name: "row numbers or ids: all values are distinct"} if why else {})


@pytest.mark.parametrize(("words", "labels"), [(9, None), (10, ("0", "1", "2", "many", "unknown"))])
def test_words_among_codes_are_labels_if_each_occurs_five_times(schema_of, words, labels):
    values = cycled(range(3), 100 - words) + cycled(["unknown", "many"], words)
    if labels is None:
        with pytest.raises(BadInput, match="'unknown' is not a number"):
            schema_of(code=values)
    else:
        assert schema_of(code=values).levels["code"] == labels


@pytest.mark.parametrize("schema_of", ["in memory"], indirect=True)
@pytest.mark.parametrize(("words", "labelled"), [(9, False), (10, True)])
def test_words_among_codes_are_labels_if_they_are_a_fiftieth(schema_of, words, labelled):
    values = cycled(range(3), 500 - words) + ["unknown"] * words
    if labelled:
        assert schema_of(code=values).levels["code"] == ("0", "1", "2", "unknown")
    else:
        with pytest.raises(BadInput, match="'unknown' is not a number"):
            schema_of(code=values)


@pytest.mark.parametrize(("words", "labelled"), [(29, False), (30, True)])
def test_a_column_of_as_many_words_as_numbers_is_one_of_labels(schema_of, words, labelled):
    values = [k % 7 + 0.5 for k in range(60 - words)] + cycled(["low", "high"], words)
    if labelled:
        assert {"low", "high"} < set(schema_of(size=values).levels["size"])
    else:
        with pytest.raises(BadInput, match="'low' is not a number"):
            schema_of(size=values)


@pytest.mark.parametrize(
    ("place", "named"), [(3, "0.parquet: row 3"), (40, "1.parquet: row 10"), (58, "1.parquet: row 28")]
)
def test_a_word_among_numbers_is_named_by_its_own_row(tmp_path, monkeypatch, place, named):
    """This also holds in a later batch of a table that is read in passes."""
    monkeypatch.setattr(batches, "MAX_BATCH_ROWS", 7)
    monkeypatch.setattr(batches, "MIN_BATCH_ROWS", 7)
    values = [str(k + 0.5) for k in range(60)]
    values[place - 1] = "twelve"
    values[59] = "thirteen"
    frame = pd.DataFrame({"size": values, "other": np.arange(60) + 0.5})
    parts = tmp_path / "parts"
    parts.mkdir()
    frame[:30].to_parquet(parts / "0.parquet")
    frame[30:].to_parquet(parts / "1.parquet")
    odd = open_table(parts, Declared()).profile().columns["size"].odd
    assert re.search(rf"{named}, column 'size': 'twelve' is not a number", odd)
    values[place - 1] = "1,5"
    pd.DataFrame({"size": values})[:30].to_parquet(parts / "0.parquet")
    pd.DataFrame({"size": values})[30:].to_parquet(parts / "1.parquet")
    odd = open_table(parts, Declared()).profile().columns["size"].odd
    assert re.search(rf"{named}, column 'size': '1,5'", odd)


@pytest.mark.parametrize("declared", [False, True])
def test_nulls_of_a_database_are_empty_also_where_types_are_mixed(tmp_path, declared):
    """SQLite has a type for each value: NULL is an empty cell in any column, even if 'None' is a label."""
    url = f"sqlite:///{tmp_path / 'owner.db'}"
    with create_engine(url).begin() as connection:
        connection.execute(text("CREATE TABLE patients (size REAL, answer, code INTEGER)"))
        for k in range(60):
            answer = ["'yes'", "'None'" if declared else "'no'", "NULL", "3", "0.5"][k % 5]
            code = "NULL" if k % 6 == 0 else str(k % 3)
            connection.execute(text(f"INSERT INTO patients VALUES ({k + 0.5}, {answer}, {code})"))
    folder = tmp_path / "set"
    folder.mkdir()
    levels = ["None", "yes", "3", "0.5"] if declared else ["0.5", "3", "no", "yes"]
    if declared:
        (folder / "about.json").write_text(json.dumps({"levels": {"answer": levels}}))
    (folder / "a.sql").write_text(f"-- {url}\nSELECT * FROM patients ORDER BY size\n")
    schema = read_schema(folder)
    assert schema.levels == {"answer": tuple(levels), "code": ("0", "1", "2")}
    assert schema.empty == {"a": (0, 12, 10)}


@pytest.mark.parametrize(("held", "sizes"), [(1000, [60]), (25, [25, 25, 10])])
def test_rows_of_a_database_come_many_at_a_time(tmp_path, monkeypatch, held, sizes):
    monkeypatch.setattr(query, "MAX_QUERY_ROWS", held)
    url = f"sqlite:///{tmp_path / 'owner.db'}"
    pd.DataFrame({"x": np.arange(60) + 0.5}).to_sql("patients", create_engine(url), index=False)
    (tmp_path / "a.sql").write_text(f"-- {url}\nSELECT * FROM patients\n")
    source = open_source(tmp_path / "a.sql")
    assert [batch.num_rows for batch in source.batches(("x",))] == sizes


@pytest.mark.parametrize(("more", "streamed"), [(0, False), (1, True)])
def test_a_text_of_more_bytes_than_are_held_is_read_in_passes(tmp_path, monkeypatch, more, streamed):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1.5,2\n2.5,3\n" * 40)
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", path.stat().st_size - more)
    assert open_table(path, Declared()).streamed == streamed
    assert read_schema(tmp_path).streamed == (("a",) if streamed else ())


@pytest.mark.parametrize(("more", "streamed"), [(0, False), (1, True)])
def test_a_parquet_file_of_more_cells_than_are_held_is_read_in_passes(tmp_path, monkeypatch, more, streamed):
    pd.DataFrame({"x": np.arange(80) + 0.5, "y": np.arange(80) * 2.5}).to_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 8 * 160 - more)
    assert open_table(tmp_path / "a.parquet", Declared()).streamed == streamed


def test_two_rows_are_enough_and_one_is_not(tmp_path):
    (tmp_path / "b.csv").write_text("x,y\n1.5,2\n")
    with pytest.raises(BadInput, match=r"b\.csv: only one row; at least two are needed"):
        read_folder(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n1.5,2\n2.5,3\n")
    assert read_folder(tmp_path).schema.rows == {"a": 2}


def notes_of(folder, **silos):
    for silo, values in silos.items():
        pd.DataFrame({"size": values, "other": np.arange(len(values)) % 17 + 0.5}).to_csv(
            folder / f"{silo}.csv", index=False
        )
    return [note for note in read_folder(folder).notes if note.startswith("size")]


def test_a_silo_in_another_unit_is_named_from_nine_tenths_of_a_decade_on(tmp_path):
    values = np.linspace(1.0, 3.0, 31)
    near = notes_of(tmp_path, a=values, b=1.1 * values, c=10**0.84 * values)
    assert near == []
    (far,) = notes_of(tmp_path, a=values, b=1.1 * values, c=10**0.96 * values)
    assert re.fullmatch(
        r"size: the median at c is about (7\.9|8|10) times the other silos' median: is it in another unit there\?", far
    )


@pytest.mark.parametrize(("least", "apart"), [(0.27, True), (0.23, False)])
def test_a_zero_far_from_all_other_values_is_named(tmp_path, least, apart):
    """The median is 1, and the least value is above or below a quarter of it."""
    values = [0.0, 0.0, least, *np.linspace(0.9, 1.1, 40)]
    found = notes_of(tmp_path, a=values, b=values[1:])
    said = "size: 0 is far from all other values (cells with 0: 2 at a, 1 at b); if it marks a missing value, declare"
    assert [note.startswith(said) for note in found] == [True] * apart
