"""Words such as None and NA are labels in columns of words and missing values among numbers, in all silos."""

import json

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.data.folder import batches
from fedbnsl.data.folder.about import Reading
from fedbnsl.data.folder.folder import read_folder

ROWS = 60
COMPLETE = {"damage": ["None", "Mild", "Severe"], "size": ["1.5", "2.5", "4.0"]}


def written(folder, *tables, about=None):
    """A folder with a CSV file for each of the `tables`; cells are repeated to `ROWS` rows."""
    folder.mkdir(exist_ok=True)
    for silo, table in zip("abc", tables, strict=False):
        columns = [[cells[k % len(cells)] for k in range(ROWS)] for cells in table.values()]
        lines = [",".join(table), *(",".join(row) for row in zip(*columns, strict=True))]
        (folder / f"{silo}.csv").write_text("\n".join(lines) + "\n")
    if about:
        (folder / "about.json").write_text(json.dumps(about))
    return folder


def levels(folder, name="damage"):
    """The levels of a column, and the number of its empty cells."""
    schema = read_folder(folder).schema
    v = schema.variables.index(name)
    return schema.levels[name], sum(counts[v] for counts in schema.empty.values())


@pytest.mark.parametrize("word", ["None", "NA", "none", "null", "N/A"])
def test_a_word_beside_other_labels_is_a_level(tmp_path, word):
    table = {"damage": [word, "Mild", "Severe"], "size": ["1.5", "2.5", "4.0"]}
    folder = written(tmp_path / "data", table, table)
    assert levels(folder) == (tuple(sorted([word, "Mild", "Severe"])), 0)
    (note,) = read_folder(folder).notes
    assert repr(word) in note
    assert f'{{"missing": {{"damage": ["{word}"]}}}}' in note


def test_rows_hold_the_code_of_the_word_in_any_capitals(tmp_path):
    other = {"damage": ["none", "Mild", "Severe"], "size": ["1.5", "2.5", "4.0"]}
    data = read_folder(written(tmp_path / "data", COMPLETE, other))
    assert data.schema.levels["damage"] == ("Mild", "None", "Severe")
    np.testing.assert_array_equal(data.tables["a"][:3, 0], [1, 0, 2])
    np.testing.assert_array_equal(data.tables["b"][:3, 0], [1, 0, 2])


def test_among_numbers_a_word_marks_a_missing_value_in_all_columns(tmp_path):
    table = {"damage": ["NA", "Mild", "Severe"], "size": ["1.5", "NA", "4.0"]}
    folder = written(tmp_path / "data", COMPLETE | {"damage": ["NA", "Mild"]}, table)
    assert levels(folder) == (("Mild", "Severe"), 50)
    marks, override = read_folder(folder).notes[-2:]
    assert marks == "read as missing: damage ('NA' over 20 %), size ('NA' 5-20 %)"
    assert '{"missing": {"damage": []}}' in override


@pytest.mark.parametrize(("word", "kept"), [("None", True), ("NA", False)])
def test_beside_empty_cells_of_another_silo_only_none_is_a_label(tmp_path, word, kept):
    one = {"damage": [word, "Mild", "Severe"], "size": ["1.5", "2.5", "4.0"]}
    other = {"damage": ["", "Mild", "Severe"], "size": ["1.5", "2.5", "4.0"]}
    found, empty = levels(written(tmp_path / "data", one, other))
    assert (word in found, empty) == (kept, 20 if kept else 40)


def test_a_mark_of_programs_in_most_columns_of_words_is_missing(tmp_path):
    table = {name: ["NA", "x", "y"] for name in "abc"} | {"size": ["1.5", "2.5"]}
    assert levels(written(tmp_path / "three", table), "a") == (("x", "y"), 20)
    table = {name: ["NA", "x", "y"] for name in "ab"} | {name: ["x", "y"] for name in "cd"}
    assert levels(written(tmp_path / "half", table), "a") == (("NA", "x", "y"), 0)


def test_what_is_declared_decides(tmp_path):
    assert levels(written(tmp_path / "marks", COMPLETE, about={"missing": {"damage": ["None"]}})) == (
        ("Mild", "Severe"),
        20,
    )
    declared = {"levels": {"damage": ["Mild", "Severe"]}}
    assert levels(written(tmp_path / "levels", COMPLETE, about=declared)) == (("Mild", "Severe"), 20)


def test_without_marks_only_cells_without_content_are_missing(tmp_path):
    table = {"damage": ["NA", "?", "Mild", ""], "size": ["1.5", "NA", "4.0"]}
    folder = written(tmp_path / "data", table, about={"missing": {"damage": []}})
    assert levels(folder) == (("?", "Mild", "NA"), 15)
    np.testing.assert_array_equal(read_folder(folder).tables["a"][:4, 0], [2, 0, 1, np.nan])


def test_complete_rows_keep_the_rows_of_the_word(tmp_path):
    table = {"damage": ["None", "Mild", "Severe"], "size": ["1.5", "2.5", "4.0", "", "3.0"]}
    data = read_folder(written(tmp_path / "data", table), Reading(missing="complete-rows"))
    assert data.schema.levels["damage"] == ("Mild", "None", "Severe")
    assert data.schema.rows == {"a": 48}
    assert len(data.tables["a"]) == 48


def test_tables_read_in_passes_give_the_same(tmp_path, monkeypatch):
    other = {"damage": ["none", "Mild", "Severe"], "size": ["1.5", "2.5", "4.0"]}
    folder = written(tmp_path / "data", COMPLETE, other)
    whole = read_folder(folder)
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 10)
    passes = read_folder(folder)
    assert passes.schema.streamed == ("a", "b")
    assert passes.schema.levels == whole.schema.levels
    assert passes.notes == whole.notes
    for silo in "ab":
        np.testing.assert_array_equal(np.concatenate([*passes.tables[silo]]), whole.tables[silo])


def test_a_run_reports_the_label(tmp_path):
    table = {"damage": ["None", "Mild", "Severe", "None"], "size": ["1.5", "2.5", "4.0", "7.5", "3.0"]}
    found = learn(written(tmp_path / "data", table, table), missing="complete-rows", parameters=False).result
    assert any("the label 'None'" in note for note in found.notes)


MANY = [f"label {k:02}" for k in range(60)]


def folder_of(folder, labels, rows, name="kind"):
    """A folder of a silo with a column of `labels`, and one of numbers."""
    folder.mkdir()
    lines = [f"{name},size", *(f"{labels[k % len(labels)]},{k % 7}.5" for k in range(rows))]
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_many_labels_that_recur_are_levels(tmp_path):
    assert read_folder(folder_of(tmp_path / "ten", MANY, 600)).schema.levels["kind"] == tuple(MANY)
    assert "kind" in read_folder(folder_of(tmp_path / "fewer", MANY, 599)).schema.aside


def test_many_labels_are_read_alike_in_passes(tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "data", MANY, 600)
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 10)
    assert read_folder(folder).schema.levels["kind"] == tuple(MANY)


def test_many_labels_of_dates_ids_and_numbers_are_none(tmp_path):
    dates = [f"2020-{1 + k // 28:02}-{1 + k % 28:02}" for k in range(60)]
    assert "kind" in read_folder(folder_of(tmp_path / "dates", dates, 900)).schema.aside
    assert "patient_id" in read_folder(folder_of(tmp_path / "ids", MANY, 900, "patient_id")).schema.aside
    assert read_folder(folder_of(tmp_path / "ages", [str(k) for k in range(60)], 900)).schema.kind == "continuous"


@pytest.mark.parametrize("in_passes", [False, True])
def test_dates_are_set_aside_with_the_remedy(tmp_path, monkeypatch, in_passes):
    dates = [f"{2000 + k // 365}-{1 + k // 28 % 12:02}-{1 + k % 28:02} 12:00" for k in range(300)]
    folder = folder_of(tmp_path / "dates", dates, 300, "admitted")
    if in_passes:
        monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 10)
    assert (
        read_folder(folder)
        .schema.aside["admitted"]
        .startswith("dates: --dates days reads them as days since the first one")
    )
    assert (
        "dates"
        not in read_folder(folder_of(tmp_path / "other", [*dates[:299], "2000-1"], 300)).schema.aside["kind"][:5]
    )


def test_more_labels_than_are_sent_are_set_aside(tmp_path):
    labels = [f"label {k:03}" for k in range(201)]
    assert read_folder(folder_of(tmp_path / "most", labels[:200], 4000)).schema.kind == "mixed"
    assert "kind" in read_folder(folder_of(tmp_path / "more", labels, 4000)).schema.aside
