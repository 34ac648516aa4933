"""A written folder is read back bit for bit, and a user's existing folder is read, too."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.data.folder import text
from fedbnsl.data.folder.about import checksums_of
from fedbnsl.data.folder.folder import read_folder, read_schema, silo_files, write_folder
from fedbnsl.data.folder.table import open_table
from fedbnsl.data.generators.linear import heterogeneous, homogeneous

NAMES = st.text(
    st.characters(blacklist_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), blacklist_characters="\ufeff"),
    min_size=1,
    max_size=8,
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)

NAME_IT = (
    "it must be UTF-8 text without / \\ : or line breaks, must not start or end with a space, and must not start with "
    "a dot"
)


def bits(values):
    return np.ascontiguousarray(values).view(np.int64)


@st.composite
def data_sets(draw):
    variables = tuple(
        draw(st.lists(NAMES | st.sampled_from(["a,b", 'q"q', "a b", "7", "ü;"]), min_size=2, max_size=4, unique=True))
    )
    silos = draw(
        st.lists(st.sampled_from(["a", "silo 2", "Zürich", "x.y", "10", "9"]), min_size=1, max_size=3, unique=True)
    )
    d = len(variables)
    tables = {}
    for silo in silos:
        rows = draw(st.integers(2, 5))
        table = draw(arrays(np.float64, (rows, d), elements=NUMBERS))
        table[0], table[1] = (
            np.where(table[0] == table[1], 1.5, table[0]),
            np.where(table[0] == table[1], -2e-300, table[1]),
        )
        tables[silo] = table
    weights = np.triu(draw(arrays(np.float64, (d, d), elements=NUMBERS)), k=1)
    own = {silo: np.where(weights != 0, draw(arrays(np.float64, (d, d), elements=NUMBERS)), 0.0) for silo in silos}
    schema = Schema(variables, {silo: len(table) for silo, table in tables.items()})
    return FederatedData(schema, tables, Structure(variables, weights), own, {"seed": 3, "comment": "ü"})


@given(data_sets(), st.sampled_from(["csv", "parquet"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_is_read_back_bit_for_bit(tmp_path_factory, data, form):
    folder = tmp_path_factory.mktemp("round") / "set"
    if all(name.isascii() and name.replace(".", "").isdigit() for name in data.schema.variables):
        return
    write_folder(folder, data, form)
    back = read_folder(folder)
    assert back.schema.variables == data.schema.variables
    assert back.schema.rows == data.schema.rows == read_schema(folder).rows
    for silo, table in data.tables.items():
        assert np.array_equal(bits(back.tables[silo]), bits(table))
    edges = data.truth.adjacency
    assert np.array_equal(bits(back.truth.weights[edges]), bits(data.truth.weights[edges]))
    assert np.array_equal(back.truth.adjacency, edges)
    for silo, own in data.silo_weights.items():
        assert np.array_equal(bits(back.silo_weights[silo][edges]), bits(own[edges]))
    marked = any(mark in name for name in data.schema.variables for mark in ",;|\t")
    separator = {"separator": ","} if marked else {}
    assert back.about == {
        "kind": "continuous",
        **data.about,
        **separator,
        "checksums": checksums_of(silo_files(folder)),
    }


def test_the_files_of_a_folder(tmp_path):
    write_folder(tmp_path / "new" / "set", heterogeneous(4, 2, 5, seed=1, weight_variance=0.1))
    folder = tmp_path / "new" / "set"
    assert sorted(path.name for path in folder.iterdir()) == ["about.json", "silo-1.csv", "silo-2.csv", "truth.csv"]
    assert (folder / "silo-1.csv").read_text().splitlines()[0] == "x1,x2,x3,x4"
    assert (folder / "truth.csv").read_text().splitlines()[0] == "source,target,weight,weight:silo-1,weight:silo-2"
    about = json.loads((folder / "about.json").read_text())
    assert (about["kind"], about["generator"], about["seed"]) == ("continuous", "heterogeneous", 1)
    assert about["parameters"]["weight_variance"] == 0.1
    assert len(about["checksums"]["silo-1.csv"]) == 64
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["set"], "nothing left beside it"


def test_a_folder_somebody_already_has(tmp_path):
    (tmp_path / "Wien.csv").write_text("b, a\n1, 2\n3, 4\n")
    (tmp_path / "Graz.CSV").write_text("\ufeffa,b\r\n1,2\r\n\r\n5e-1,+6\r\n", encoding="utf-8")
    pd.DataFrame({"b": [1, 2, 4], "a": [0.5, 1, 2]}, index=[7, 8, 9]).to_parquet(tmp_path / "Linz.parquet")
    for stray in ("README.md", ".hidden.csv", "notes.txt", "codebook.pdf", "map.png", "_old.xlsx", "mlflow.db"):
        (tmp_path / stray).write_text("nothing to read")
    (tmp_path / ".fedbnsl").mkdir()
    data = read_folder(tmp_path)
    assert data.schema == Schema(("a", "b"), {"Graz": 2, "Linz": 3, "Wien": 2})
    assert data.tables["Wien"].tolist() == [[2, 1], [4, 3]]
    assert data.tables["Graz"].tolist() == [[1, 2], [0.5, 6]]
    assert data.tables["Linz"].tolist() == [[0.5, 1], [1, 2], [2, 4]]
    assert data.truth is None
    assert (data.silo_weights, data.about) == ({}, {})
    assert read_schema(tmp_path) == data.schema


ENDINGS = (".xls", ".ods", ".rds", ".sas7bdat", ".7z", ".json", ".feather", ".txt", ".db", "")


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_entry_that_may_be_a_silo_is_not_left_out_in_silence(tmp_path, ending):
    name = f"ulm{ending}"
    (tmp_path / "Wien.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "Graz.csv").write_text("a,b\n1,2\n3,5\n")
    (tmp_path / name).write_text("rows of Ulm")
    for read in (silo_files, read_folder, read_schema):
        with pytest.raises(BadInput, match=rf"'{re.escape(name)}' is not a table .*convert it .*move it .*--silos"):
            read(tmp_path)
    assert set(silo_files(tmp_path, ("Wien",))) == {"Wien"}, "the silos to learn from are named"


def test_a_folder_within_the_folder_is_a_silo_or_refused(tmp_path):
    (tmp_path / "Wien.csv").write_text("a,b\n1,2\n3,4\n")
    for known in (".git", "_scratch", "runs"):
        (tmp_path / known).mkdir()
    assert set(silo_files(tmp_path)) == {"Wien"}
    (tmp_path / "Ulm").mkdir()
    with pytest.raises(BadInput, match="'Ulm' is a folder without Parquet parts"):
        silo_files(tmp_path)


def test_a_database_beside_its_query_and_knowledge_are_no_silos(tmp_path):
    (tmp_path / "Wien.sql").write_text("-- sqlite:///w.db\nSELECT a FROM t\n")
    (tmp_path / "w.db").write_text("")
    (tmp_path / "knowledge.csv").write_text("rule,source,target\nforbidden,a,b\n")
    assert set(silo_files(tmp_path)) == {"Wien"}


def test_no_column_is_taken_for_an_index(tmp_path):
    (tmp_path / "a.csv").write_text("index,x\n0,1\n1,3\n")
    assert open_table(tmp_path / "a.csv").names == ["index", "x"]


def test_variables_that_are_numbers_are_names_all_the_same(tmp_path):
    (tmp_path / "a.csv").write_text("8,4\n0,1\n1,3\n")
    (tmp_path / "truth.csv").write_text("source,target\n4,8\n")
    data = read_folder(tmp_path)
    assert data.schema.variables == ("8", "4")
    assert data.truth.weights.tolist() == [[0, 0], [1, 0]]


def test_one_silo_alone_in_the_order_of_the_schema(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,z\n1,2,3\n4,5,7\n")
    table = open_table(tmp_path / "a.csv").rows(Schema(("z", "x", "y"), {"a": 2}), "a")
    assert table.tolist() == [[3, 1, 2], [7, 4, 5]]
    assert table.flags.c_contiguous


def test_silos_come_sorted_and_pooled_in_that_order(tmp_path):
    data = homogeneous(3, 11, 2, seed=0)
    write_folder(tmp_path / "set", data)
    assert list(silo_files(tmp_path / "set"))[:3] == ["silo-01", "silo-02", "silo-03"]
    pooled = pool(read_folder(tmp_path / "set"))
    assert pooled.schema.rows == {"pooled": 22}
    assert np.array_equal(pooled.tables["pooled"], np.concatenate([data.tables[silo] for silo in sorted(data.tables)]))
    assert pooled.truth is not None
    assert pooled.silo_weights == {}
    assert "checksums" not in pooled.about


def test_an_empty_folder_may_be_written_to_a_full_one_not(tmp_path):
    data = homogeneous(3, 2, 4, seed=0)
    (tmp_path / "empty").mkdir()
    write_folder(tmp_path / "empty", data)
    before = checksums_of(silo_files(tmp_path / "empty"))
    with pytest.raises(BadInput) as caught:
        write_folder(tmp_path / "empty", homogeneous(3, 2, 4, seed=1))
    assert str(caught.value) == f"{tmp_path / 'empty'}: already exists; give a new or an empty folder"
    assert checksums_of(silo_files(tmp_path / "empty")) == before


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(folder, structure, own):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedbnsl.data.folder.folder.write_structure", full)
    with pytest.raises(BadInput, match=r"set: cannot be written: No space left on device$"):
        write_folder(tmp_path / "set", homogeneous(3, 2, 4, seed=0))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("silo", "variables", "table", "message"),
    [
        ("a", ("x", "y"), [[1, 2], [1, 3]], "set: column 'x': constant, every row is 1.0"),
        ("a", ("x", "y"), [[np.nan, 2], [np.nan, 3]], "set: column 'x': empty in every row"),
        ("a", ("x", "y"), [[1, 2], [3, np.inf]], "set/a.csv: row 2, column 'y': inf is not finite"),
        ("a", ("x", "y"), [[1, 2]], "set/a.csv: only one row; at least two are needed"),
        ("a", ("x", " y"), [[1, 2], [3, 4]], "set: column 2 has a name with spaces around it, ' y'"),
        ("a", ("x", "y\nz"), [[1, 2], [3, 4]], "set: column 2 has a name with a control character, 'y\\nz'"),
        (
            "../a",
            ("x", "y"),
            [[1, 2], [3, 4]],
            "set: '../a' cannot name a silo, because its file has that name: " + NAME_IT,
        ),
        (
            "truth",
            ("x", "y"),
            [[1, 2], [3, 4]],
            "set: 'truth' cannot name a silo: truth.csv is the file of the true graph",
        ),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, silo, variables, table, message):
    data = FederatedData(Schema(variables, {silo: len(table)}), {silo: np.array(table, dtype=float)})
    with pytest.raises(BadInput) as caught:
        write_folder(tmp_path / "set", data)
    assert str(caught.value) == f"{tmp_path}/{message}"
    assert list(tmp_path.iterdir()) == []


def test_a_schema_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="a table of"):
        FederatedData(Schema(("x", "y"), {"a": 3}), {"a": np.zeros((2, 2))})


def test_the_folder_is_a_path_of_any_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folder(Path("set"), homogeneous(3, 1, 4, seed=0))
    assert read_folder(Path("set")).schema.rows == {"silo-1": 4}


def test_a_file_is_examined_once_until_it_changes(tmp_path, monkeypatch):
    examined = []
    text_of = text.text_of
    monkeypatch.setattr(text, "text_of", lambda *parts: [examined.append(parts[0]), text_of(*parts)][1])
    monkeypatch.setattr(text, "has_settled", lambda status: True)
    (tmp_path / "a.csv").write_text("x,y\n1.5,2.5\n2.5,1\n3,4.5\n")
    read_folder(tmp_path)
    read_folder(tmp_path)
    assert len(examined) == 1
    (tmp_path / "a.csv").write_text("x;z\n1,5;2,5\n2,5;1\n3;14,5\n")
    assert read_folder(tmp_path).schema.variables == ("x", "z")
    assert len(examined) == 2


def test_only_the_first_rows_of_a_long_head_are_kept(tmp_path):
    rows = ["x,y", '"1.5",2', '"2\n",3', "", *["1.25,7"] * 20_000]
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    source = text.TextFile(tmp_path / "a.csv")
    assert len(text.first_rows(source._head, text.SNIFFED_ROWS)) == text.SNIFFED_ROWS + 1
    assert len(source._head.content) < 2000
