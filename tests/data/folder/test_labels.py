"""A written discrete folder is read back with the same codes, and a user's existing folder is read, too."""

import json
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, discrete, pool
from fedbnsl.data.folder.about import declarations, read_about
from fedbnsl.data.folder.cells import canonical_order, label_of
from fedbnsl.data.folder.folder import read_folder, read_schema, write_folder

ODD = ["<5", "12+", "Asy/Patch", "None", "NA", "?", "1.0", "1", "007", "-1", "a,b", 'q"q', "5 pm", "ü", "TRUE", "-"]
LABELS = st.sampled_from(ODD) | st.text(
    st.characters(blacklist_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), blacklist_characters="\ufeff"),
    min_size=1,
    max_size=6,
)


@st.composite
def data_sets(draw):
    variables = tuple(draw(st.lists(st.sampled_from(["x", "y,z", "the w", "8"]), min_size=1, max_size=4, unique=True)))
    levels = {name: tuple(draw(st.lists(LABELS, min_size=1, max_size=5, unique=True))) for name in variables}
    tables = {}
    for silo in draw(st.lists(st.sampled_from(["a", "Zürich", "10", "9"]), min_size=1, max_size=3, unique=True)):
        rows = draw(st.integers(2, 6))
        codes = [
            draw(st.lists(st.integers(0, len(levels[name]) - 1), min_size=rows, max_size=rows)) for name in variables
        ]
        tables[silo] = np.array(codes, dtype=np.int64).T.copy()
    truth = Structure(variables, np.triu(np.ones((len(variables), len(variables))), 1))
    return FederatedData(discrete(tables, variables, levels), tables, truth, {}, {"kind": "discrete", "seed": 3})


@given(data_sets(), st.sampled_from(["csv", "parquet"]))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_is_read_back_code_for_code(tmp_path_factory, data, form):
    folder = tmp_path_factory.mktemp("round") / "set"
    write_folder(folder, data, form)
    back = read_folder(folder)
    assert back.schema == data.schema == read_schema(folder)
    for silo, table in data.tables.items():
        assert np.array_equal(back.tables[silo], table)
        assert back.tables[silo].dtype == np.int64
    assert np.array_equal(back.truth.weights, data.truth.weights)
    assert {name: tuple(labels) for name, labels in back.about["levels"].items()} == data.schema.levels


def test_the_cells_are_the_labels_as_text(tmp_path):
    tables = {"a": np.array([[0, 1], [1, 0], [2, 1]])}
    levels = {"o2": ("<5", "5-12", "12+"), "sick": ("yes", "no")}
    write_folder(tmp_path / "set", FederatedData(discrete(tables, ("o2", "sick"), levels), tables))
    assert (tmp_path / "set" / "a.csv").read_text() == "o2,sick\n<5,no\n5-12,yes\n12+,no\n"
    about = json.loads((tmp_path / "set" / "about.json").read_text())
    assert about["kind"] == "discrete"
    assert about["levels"] == {"o2": ["<5", "5-12", "12+"], "sick": ["yes", "no"]}


def test_a_folder_somebody_already_has(tmp_path):
    (tmp_path / "Wien.csv").write_text("dose, sick\n 10 ,yes\n2,no\n2, no\n")
    (tmp_path / "Graz.csv").write_bytes("\ufeffsick,dose\r\nmaybe,2.0\r\n\r\nyes,9\r\n".encode())
    pd.DataFrame({"sick": ["no", "no"], "dose": [1.0, 2.0]}).to_parquet(tmp_path / "Linz.parquet")
    data = read_folder(tmp_path)
    levels = {"sick": ("maybe", "no", "yes"), "dose": ("1", "2", "9", "10")}
    assert data.schema == Schema(("sick", "dose"), {"Graz": 2, "Linz": 2, "Wien": 3}, "discrete", levels)
    assert data.tables["Graz"].tolist() == [[0, 1], [2, 2]]
    assert data.tables["Linz"].tolist() == [[1, 0], [1, 1]]
    assert data.tables["Wien"].tolist() == [[2, 3], [1, 1], [1, 1]]
    assert read_schema(tmp_path) == data.schema
    pooled = pool(data)
    assert pooled.schema.levels == levels
    assert pooled.tables["pooled"].tolist() == [[0, 1], [2, 2], [1, 0], [1, 1], [2, 3], [1, 1], [1, 1]]


def test_a_level_that_one_silo_lacks_is_nothing_special(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\nred,one\nred,two\n")
    (tmp_path / "b.csv").write_text("x,y\nblue,two\nred,two\n")
    data = read_folder(tmp_path)
    assert data.schema.levels == {"x": ("blue", "red"), "y": ("one", "two")}
    assert [data.tables[silo].tolist() for silo in "ab"] == [[[1, 0], [1, 1]], [[0, 1], [1, 1]]]


def test_the_levels_do_not_depend_on_the_silos_or_the_order_of_rows(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{x},{y}\n" for x, y in zip(rng.choice(ODD[:3], 60), rng.choice(["10", "9", "8"], 60), strict=True)]
    schemas = []
    for number, cuts in enumerate(((20, 40), (5, 50), (30, 31))):
        folder = tmp_path / str(number)
        folder.mkdir()
        mixed = rng.permutation(rows)
        for silo, part in zip("abc", np.split(mixed, cuts), strict=True):
            (folder / f"{silo}.csv").write_text("x,y\n" + "".join(part) + "".join(part))
        schemas.append(read_folder(folder).schema.levels)
    assert schemas[0] == schemas[1] == schemas[2] == {"x": ("12+", "<5", "Asy/Patch"), "y": ("8", "9", "10")}


@given(st.lists(st.integers(-99, 99), min_size=1), st.randoms())
def test_whole_numbers_are_in_numerical_order(numbers, random):
    labels = [str(number) for number in numbers]
    random.shuffle(labels)
    assert canonical_order(labels) == tuple(str(number) for number in sorted(set(numbers)))


@pytest.mark.parametrize(
    ("cell", "label"), [(" a ", "a"), ("2.0", "2"), ("-3.", "-3"), ("2.50", "2.50"), ("1e3", "1e3"), ("007", "007")]
)
def test_the_label_of_a_cell(cell, label):
    assert label_of(cell) == label


def test_declared_levels_stand_as_they_are(tmp_path):
    about = {"levels": {"x": ["high", "None", "low"], "dose": ["1.0", "1", 2]}}
    (tmp_path / "about.json").write_text(json.dumps(about))
    (tmp_path / "a.csv").write_text("x,dose,site\nlow,1.0,b\nNone,1,a\nlow,2.0,a\n")
    data = read_folder(tmp_path)
    assert data.schema.levels == {"x": ("high", "None", "low"), "dose": ("1.0", "1", "2"), "site": ("a", "b")}
    assert data.tables["a"].tolist() == [[2, 0, 1], [1, 1, 0], [2, 2, 0]]


def test_a_declared_variable_may_be_constant_and_may_have_many_levels(tmp_path):
    many = [f"l{number}" for number in range(63)]
    (tmp_path / "about.json").write_text(json.dumps({"kind": "discrete", "levels": {"x": many, "y": ["0", "1"]}}))
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{label},0\n" for label in many))
    data = read_folder(tmp_path)
    assert data.tables["a"].tolist() == [[code, 0] for code in range(63)]


KINDS = {
    "words": ("x,y\na,b\nc,d\n", "discrete"),
    "words and whole numbers": ("x,y\na,1\nc,2.0\n", "discrete"),
    "words and fractions": ("x,y\na,0.5\nc,2\n", "mixed"),
    "whole numbers alone": ("x,y\n0,1\n1,0\n", "continuous"),
    "a number among words": ("x,y\na,b\n3,d\n", "discrete"),
    "truth values": ("x,y\nTrue,1\nFalse,0\n", "discrete"),
}


@pytest.mark.parametrize("case", KINDS)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_kind_of_data_that_nothing_is_said_of(tmp_path, case, form):
    content, expected = KINDS[case]
    (tmp_path / "a.csv").write_text(content)
    if form == "parquet":
        pd.read_csv(tmp_path / "a.csv").to_parquet(tmp_path / "a.parquet")
        (tmp_path / "a.csv").unlink()
    assert read_folder(tmp_path).schema.kind == expected == read_schema(tmp_path).kind


def test_one_silo_of_words_makes_the_folder_discrete_and_about_has_the_last_word(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n2,1\n")
    (tmp_path / "b.csv").write_text("x,y\n1,two\n2,two\n")
    assert read_folder(tmp_path).schema.levels == {"x": ("1", "2"), "y": ("1", "2", "two")}
    (tmp_path / "b.csv").write_text("x,y\n1,5\n2,4\n")
    assert read_folder(tmp_path).schema.kind == "continuous"
    (tmp_path / "about.json").write_text('{"kind": "discrete"}')
    assert read_folder(tmp_path).schema.levels == {"x": ("1", "2"), "y": ("1", "2", "4", "5")}
    (tmp_path / "about.json").write_text('{"levels": {"y": ["5", "4", "2", "1"]}}')
    assert declarations(read_about(tmp_path)).levels == {"y": ("5", "4", "2", "1")}
    assert read_folder(tmp_path).schema.levels["y"] == ("5", "4", "2", "1")


def test_any_value_of_a_parquet_column_is_a_label(tmp_path):
    frame = pd.DataFrame(
        {
            "flag": [True, False, True],
            "count": pd.array([3, 10, 3], dtype="Int64"),
            "group": pd.Categorical(["b", "a", "b"], categories=["c", "b", "a"]),
            "float": [1.0, 2.0, 1.0],
        }
    )
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    data = read_folder(tmp_path)
    assert data.schema.levels == {
        "flag": ("False", "True"),
        "count": ("3", "10"),
        "group": ("a", "b"),
        "float": ("1", "2"),
    }
    assert data.tables["a"].tolist() == [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]


def test_a_line_of_spaces_is_no_row(tmp_path):
    (tmp_path / "a.csv").write_text("\nx,y\n\na,b\n  \nc,d\n\n")
    assert read_folder(tmp_path).tables["a"].tolist() == [[0, 0], [1, 1]]


def test_a_table_of_other_codes_is_a_mistake_of_the_program():
    with pytest.raises(ValueError, match="a table of float64, not of level codes"):
        FederatedData(Schema(("x",), {"a": 2}, "discrete", {"x": ("y", "n")}), {"a": np.zeros((2, 1))})


def test_100_000_rows_of_50_columns_take_about_a_second(tmp_path):
    rng = np.random.default_rng(0)
    variables = tuple(f"x{v}" for v in range(50))
    tables = {"a": rng.integers(0, 4, (100_000, 50))}
    schema = discrete(tables, variables, dict.fromkeys(variables, ("<5", "5-12", "12+", "none")))
    write_folder(tmp_path / "set", FederatedData(schema, tables))
    before = time.process_time()
    data = read_folder(tmp_path / "set")
    assert time.process_time() - before < 2
    assert np.array_equal(data.tables["a"], tables["a"])
