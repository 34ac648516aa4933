"""Tables of numbers and labels with empty cells are written and read back exactly, and silos agree on them."""

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData, with_gaps
from fedbnsl.data.folder.about import Reading, declarations, read_about
from fedbnsl.data.folder.folder import read_folder, read_schema, silo_files, write_folder
from fedbnsl.tasks.silo.rows import read_rows
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.described_schema import schema_from_descriptions
from fedbnsl.tasks.transport.in_process import InProcessTransport, in_process_roster

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "heart_disease"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real data sets are not here")
LABELS = st.sampled_from(["<5", "12+", "None", "NA", "?", "1.0", "1", "007", "a,b", 'q"q', "Yes", "yes", "-", "5;6"])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-3, 3).map(float) | st.just(float("nan"))


@st.composite
def data_sets(draw):
    """Mixed or discrete data with gaps, no column empty or constant everywhere."""
    variables = tuple(draw(st.lists(st.sampled_from(["x", "y,z", "w;v", "8"]), min_size=2, max_size=4, unique=True)))
    named = draw(st.sets(st.sampled_from(variables), min_size=1))
    levels = {
        name: tuple(draw(st.lists(LABELS, min_size=2, max_size=5, unique=True))) for name in variables if name in named
    }
    kind = "discrete" if len(levels) == len(variables) else "mixed"
    tables = {}
    for silo in draw(st.lists(st.sampled_from(["a", "Zürich", "10"]), min_size=1, max_size=3, unique=True)):
        rows = draw(st.integers(3, 6))
        columns = []
        for name in variables:
            codes = st.integers(-1, len(levels[name]) - 1) if name in levels else NUMBERS
            column = np.array(draw(st.lists(codes, min_size=rows, max_size=rows)), dtype=float)
            column[:2] = (0, 1) if name in levels else (1.5, -2e-300)
            columns.append(np.where(column < 0, np.nan, column) if name in levels and kind == "mixed" else column)
        tables[silo] = np.stack(columns, axis=1)
        if kind == "discrete":
            tables[silo] = tables[silo].astype(np.int64)
    schema = Schema(variables, {silo: len(tables[silo]) for silo in sorted(tables)}, kind, levels)
    return FederatedData(with_gaps(schema, tables), tables, None, {}, {"seed": 3})


@given(data_sets(), st.sampled_from(["csv", "parquet"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_is_read_back_exactly(tmp_path_factory, data, form):
    folder = tmp_path_factory.mktemp("round") / "set"
    write_folder(folder, data, form)
    back = read_folder(folder)
    assert back.schema == data.schema == read_schema(folder)
    for silo, table in data.tables.items():
        assert back.tables[silo].dtype == table.dtype
        assert np.array_equal(back.tables[silo], table, equal_nan=table.dtype.kind == "f")
    assert not back.schema.aside


ROWS = (
    "id,sex,age,weight,smokes,note\n"
    "1,m,40,70.5,yes,\n2,f,50,,no,\n3,f,,61.25,yes,\n4,m,70,80,,\n5,f,35,55.5,no,\n6,m,41,77,Yes,\n"
)


def folder_of(tmp_path, about=None):
    folder = tmp_path / "hospital"
    folder.mkdir()
    head, *body = ROWS.splitlines()
    for silo, step in (("a", 0), ("b", 20), ("c", 40)):
        numbered = (
            f"{step + 6 * k + i + 1}{row[1:].replace('40', str(40 + step + k))}"
            for k in range(3)
            for i, row in enumerate(body)
        )
        (folder / f"{silo}.csv").write_text("\n".join([head, *numbered]) + "\n")
    if about:
        (folder / "about.json").write_text(json.dumps(about))
    return folder


READINGS = {
    "as it is": Reading(),
    "without": Reading(ignore=("weight",)),
    "only": Reading(only=("sex", "weight")),
    "complete rows": Reading(missing="complete-rows"),
}


@pytest.mark.parametrize("name", READINGS)
def test_both_engines_read_the_same(tmp_path, name):
    folder = folder_of(tmp_path, {"missing": {"age": ["70"]}})
    data = read_folder(folder, READINGS[name])
    silos = InProcessTransport({silo: SiloService(silo, path) for silo, path in silo_files(folder).items()})
    said = declarations(read_about(folder), READINGS[name])
    found = schema_from_descriptions(in_process_roster(silos, silos.present()), said)
    assert found.schema == data.schema == read_schema(folder, READINGS[name])
    assert found.notes == data.notes
    for silo, path in silo_files(folder).items():
        assert np.array_equal(read_rows(silo, path, found.schema, said), data.tables[silo], equal_nan=True)
    pooled = InProcessTransport({"pooled": SiloService("pooled", folder)})
    assert (
        schema_from_descriptions(in_process_roster(pooled, ("pooled",)), said).schema.variables == data.schema.variables
    )


def test_a_table_as_an_owner_has_it(tmp_path):
    data = read_folder(folder_of(tmp_path))
    schema = data.schema
    assert (schema.kind, schema.variables) == ("mixed", ("sex", "age", "weight", "smokes"))
    assert schema.levels == {"sex": ("f", "m"), "smokes": ("Yes", "no")}
    assert schema.aside == {"id": "row numbers or ids: all values are distinct", "note": "empty in every row"}
    assert schema.empty == dict.fromkeys("abc", (0, 3, 3, 3))
    assert data.tables["a"][:2].tolist()[0] == [1, 40, 70.5, 0]


def test_columns_are_left_out_and_chosen(tmp_path):
    folder = folder_of(tmp_path)
    assert read_schema(folder, Reading(ignore=("smokes", "note"))).variables == ("sex", "age", "weight")
    assert read_schema(folder, Reading(only=("sex", "age"))).variables == ("sex", "age")
    with pytest.raises(BadInput, match="--only: 'height' is not a column of the data"):
        read_schema(folder, Reading(only=("sex", "height")))
    with pytest.raises(BadInput, match="--ignore: 'height' is not a column of any silo"):
        read_schema(folder, Reading(ignore=("height",)))
    with pytest.raises(BadInput, match="--ignore and --only both name the column 'sex'"):
        Reading(ignore=("sex",), only=("sex",))
    (folder / "b.csv").write_text((folder / "b.csv").read_text().replace("weight", "height", 1))
    with pytest.raises(BadInput, match=r"b.csv: column 'weight' is missing; a.csv has it: --ignore weight leaves it"):
        read_schema(folder)
    assert read_schema(folder, Reading(ignore=("weight", "height"))).variables == ("sex", "age", "smokes")
    assert read_schema(folder, Reading(ignore=("weight", "height"))).aside["height"] == "left out by --ignore"


def test_rows_with_an_empty_cell_are_left_out_or_refused(tmp_path):
    folder = folder_of(tmp_path)
    data = read_folder(folder, Reading(missing="complete-rows"))
    assert (data.schema.rows, data.schema.empty) == (dict.fromkeys("abc", 9), {})
    assert data.schema.complete_rows
    assert not np.isnan(data.tables["a"]).any()
    with pytest.raises(BadInput, match=r"a.csv: line 3, column 'weight': the cell is empty, and --missing refuse"):
        read_folder(folder, Reading(missing="refuse"))
    whole = read_folder(folder, Reading(only=("sex",), missing="refuse"))
    assert not whole.schema.complete_rows


def test_columns_that_say_nothing_in_complete_rows_are_set_aside(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "a.csv").write_text("x,y,z\n1.5,2.5,0\n2.5,0.5,0\n0.5,,1\n4.5,1.5,0\n")
    schema = read_schema(folder, Reading(missing="complete-rows"))
    assert (schema.variables, schema.rows) == (("x", "y"), {"a": 3})
    assert schema.aside == {"z": "constant: every cell is '0'"}
    assert np.array_equal(read_rows("a", folder / "a.csv", schema), [[1.5, 2.5], [2.5, 0.5], [4.5, 1.5]])


@pytest.fixture
def hospitals(tmp_path):
    """The folder of the four hospitals of the heart disease data."""
    with gzip.open(SHARED / "heart_disease_4sites.csv.gz") as file:
        head, *rows = csv.reader(io.TextIOWrapper(file))
    for site in {row[0] for row in rows}:
        lines = [head[1:], *(row[1:] for row in rows if row[0] == site)]
        (tmp_path / f"{site}.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    return tmp_path


@needs_shared
def test_four_hospitals_are_read_as_a_cardiologist_would(hospitals):
    data = read_folder(hospitals)
    schema = data.schema
    numbers = [name for name in schema.variables if name not in schema.levels]
    assert (schema.kind, numbers) == ("mixed", ["age", "trestbps", "chol", "thalach", "oldpeak"])
    assert schema.levels["cp"] == ("1", "2", "3", "4")
    assert schema.levels["thal"] == ("3", "6", "7")
    assert not schema.aside
    assert schema.empty["Hungary"][schema.variables.index("ca")] == 291
    said = "chol: 0 is far from all other values (cells with 0: 49 at LongBeachVA, all 123 at Switzerland)"
    assert any(note.startswith(said) for note in data.notes)
    (hospitals / "about.json").write_text('{"missing": {"chol": ["0"], "trestbps": ["0"]}}')
    told = read_folder(hospitals)
    assert told.schema.empty["Switzerland"][schema.variables.index("chol")] == 123
    assert "chol: empty in every row of Switzerland" in told.notes
