"""Table formats of other programs: each gives the same data, the same errors, and one line for what is unsupported."""

import bz2
import gzip
import json
import lzma
import re
import sys
import zipfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Reading
from fedbnsl.data.folder.folder import read_folder, silo_files
from fedbnsl.data.folder.formats import FORMATS, LISTED, ending_of, has_query, kind_of
from fedbnsl.tasks.silo.service import SiloService

HEADER = ["age", "dose", "smokes"]
ROWS = [[40 + 3 * i, 0.25 * i if i != 4 else None, ("no", "yes", "no", "no")[i % 4]] for i in range(12)]


def text(separator=",", rows=ROWS):
    cells = [[("" if cell is None else str(cell)) for cell in row] for row in [HEADER, *rows]]
    return "".join(separator.join(row) + "\n" for row in cells).encode()


def excel(path, *sheets, rows=None):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, content in sheets or [("Data", [HEADER, *(ROWS if rows is None else rows)])]:
        sheet = book.create_sheet(title)
        for row in content:
            sheet.append(row)
    book.save(path)


def packed(path, content):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("__MACOSX/._table.csv", b"\0")
            archive.writestr("table.csv", content)
    elif path.suffix == ".zst":
        import pyarrow

        with pyarrow.CompressedOutputStream(str(path), "zstd") as file:
            file.write(content)
    else:
        squeeze = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
        path.write_bytes(squeeze(content))


def write(path, rows=ROWS):
    """Write the rows in the format that the ending names."""
    frame = pd.DataFrame(rows, columns=HEADER)
    kind = kind_of(path)
    if kind == "spreadsheet":
        excel(path, rows=rows)
    elif kind == "labelled":
        pyreadstat = pytest.importorskip("pyreadstat")
        codes = frame.assign(smokes=frame["smokes"].map({"no": 1.0, "yes": 2.0}))
        labels = {"variable_value_labels": {"smokes": {1.0 if path.suffix != ".dta" else 1: "no", 2: "yes"}}}
        if path.suffix == ".dta":
            pyreadstat.write_dta(codes.astype({"smokes": int}), str(path), **labels)
        else:
            pyreadstat.write_sav(codes, str(path), compress=path.suffix == ".zsav", **labels)
    elif kind == "lines":
        path.write_text("".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\n" for row in rows))
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        packed(path, text("\t" if ".tsv" in path.name else ",", rows))


@pytest.mark.parametrize("ending", [one for one in FORMATS if one != ".sql"])
def test_every_format_is_read_alike_by_the_coordinator_and_by_a_silo(tmp_path, ending):
    packed(tmp_path / "graz.csv", text())
    path = tmp_path / f"ulm{ending}"
    write(path)
    data = read_folder(tmp_path)
    assert data.schema.variables == ("age", "dose", "smokes")
    assert data.schema.levels == {"smokes": ("no", "yes")}
    np.testing.assert_array_equal(data.tables["ulm"], data.tables["graz"])
    service = SiloService("ulm", path)
    try:
        assert service.describe().rows == 12
        assert service.describe().profile.columns["smokes"].labels == ("no", "yes")
    finally:
        service.close()


def place_of(tmp_path, ending):
    """The message on a cell that is no number, in the third row of a table."""
    rows = [list(row) for row in ROWS]
    rows[2][0] = "old"
    path = tmp_path / f"ulm{ending}"
    write(path, rows)
    (tmp_path / "about.json").write_text('{"columns": {"age": "continuous"}}')
    with pytest.raises(BadInput) as caught:
        read_folder(tmp_path)
    return str(caught.value).replace(f"{path}: ", "")


@pytest.mark.parametrize(
    ("ending", "place"),
    [(".csv.xz", "line 4"), (".zip", "line 4"), (".xlsx", "row 4"), (".jsonl", "line 3"), (".parquet", "row 3")],
)
def test_a_wrong_cell_is_named_as_its_program_counts(tmp_path, ending, place):
    if ending == ".parquet":
        pytest.skip("a Parquet column cannot have numbers and words")
    assert place_of(tmp_path, ending) == f"{place}, column 'age': 'old' is not a number"


def test_blank_rows_of_a_spreadsheet_count_for_the_places_of_others(tmp_path):
    content = [[None, None], ["age", "dose"], [1, 2.5], [None, None], [2, "much"], [3, 1.5]]
    excel(tmp_path / "ulm.xlsx", ("Data", content))
    (tmp_path / "about.json").write_text('{"kind": "continuous"}')
    with pytest.raises(BadInput, match=r"ulm.xlsx: row 5, column 'dose': 'much' is not a number"):
        read_folder(tmp_path)


def test_a_spreadsheet_with_several_sheets_needs_the_name_of_one(tmp_path):
    sheets = [("Read me", [["made in May"]]), ("Data", [HEADER, *ROWS]), ("Empty", [])]
    excel(tmp_path / "ulm.xlsx", *sheets)
    with pytest.raises(
        BadInput, match=r"it has 2 sheets, 'Read me', 'Data': declare .*\{\"sheet\": \{\"ulm\": \"Data\"\}\}"
    ):
        read_folder(tmp_path)
    (tmp_path / "about.json").write_text('{"sheet": {"ulm": "Data"}}')
    assert read_folder(tmp_path).schema.rows == {"ulm": 12}
    (tmp_path / "about.json").write_text('{"sheet": "Dada"}')
    with pytest.raises(BadInput, match=r"there is no sheet 'Dada'; available: 'Read me', 'Data', 'Empty'"):
        read_folder(tmp_path)


@pytest.mark.parametrize("ending", [".xlsx", ".csv", ".tsv"])
def test_empty_columns_without_a_name_are_dropped_and_the_user_is_told(tmp_path, ending):
    rows = [[*HEADER, None, None], *([*row, None, None] for row in ROWS)]
    if ending == ".xlsx":
        rows = [[*HEADER, None, ""], *([*row, None, ""] for row in ROWS)]
        excel(tmp_path / "ulm.xlsx", ("Data", rows))
    else:
        mark = "\t" if ending == ".tsv" else ","
        lines = (mark.join("" if cell is None else str(cell) for cell in row) for row in rows)
        (tmp_path / f"ulm{ending}").write_text("\n".join(lines))
    data = read_folder(tmp_path)
    assert data.schema.variables == tuple(HEADER)
    assert "ulm: 2 empty columns without a name are left out" in data.notes


def test_a_nameless_spreadsheet_column_between_others_is_dropped_with_a_note(tmp_path):
    excel(tmp_path / "ulm.xlsx", ("Data", [["a", None, "b"], *([i, None, i * i / 4] for i in range(9))]))
    data = read_folder(tmp_path)
    assert data.schema.variables == ("a", "b")
    assert "ulm: 1 empty column without a name is left out" in data.notes


def test_a_nameless_column_with_a_cell_is_refused(tmp_path):
    (tmp_path / "ulm.csv").write_text("a,b,\n1,2,\n3,4,x\n")
    with pytest.raises(BadInput, match=r"column 3 has no name"):
        read_folder(tmp_path)
    (tmp_path / "ulm.csv").unlink()
    excel(tmp_path / "ulm.xlsx", ("Data", [["a", "b"], [1, 2], [3, 4, "x"]]))
    with pytest.raises(BadInput, match=r"column 3 has no name"):
        read_folder(tmp_path)


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_names_that_occur_twice_can_be_ignored(tmp_path, ending):
    content = [["a", "x", "b", "x"], *([i, i % 3, i * i / 4, "word"] for i in range(9))]
    if ending == ".xlsx":
        excel(tmp_path / "ulm.xlsx", ("Data", content))
    else:
        (tmp_path / "ulm.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in content))
    with pytest.raises(BadInput, match=r"columns 2 and 4 have the same name 'x': .*both out with --ignore x"):
        read_folder(tmp_path)
    data = read_folder(tmp_path, Reading(ignore=("x",)))
    assert data.schema.variables == ("a", "b")
    assert data.schema.aside == {"x": "left out by --ignore"}
    np.testing.assert_array_equal(data.tables["ulm"][:3], [[0, 0], [1, 0.25], [2, 1]])
    if ending == ".csv":
        assert read_folder(tmp_path, Reading(only=("a", "b"))).schema.variables == ("a", "b")


def test_labels_that_do_not_cover_a_column_are_not_used(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pd.DataFrame({"age": [float(20 + i * i % 37) for i in range(30)], "sex": [1.0, 2.0] * 15})
    frame.loc[3, "age"] = -9.0
    labels = {"age": {-9.0: "refused"}, "sex": {1.0: "male", 2.0: "female", 3.0: "other"}}
    pyreadstat.write_sav(frame, str(tmp_path / "ulm.sav"), variable_value_labels=labels)
    data = read_folder(tmp_path)
    assert data.schema.levels == {"sex": ("female", "male")}
    assert data.tables["ulm"][3, 0] == -9.0
    assert any("age: not every value has a distinct label in the file" in one for one in data.notes)
    pyreadstat.write_sav(frame, str(tmp_path / "ulm.sav"), missing_ranges={"age": [{"lo": -9.0, "hi": -9.0}]})
    assert np.isnan(read_folder(tmp_path).tables["ulm"][3, 0]), "what the file declares as missing is empty"


def test_dates_of_a_spreadsheet_are_dates(tmp_path):
    content = [["born", "a"], *([datetime(1950 + i, 1 + i % 12, 3), i * i / 4] for i in range(60))]
    excel(tmp_path / "ulm.xlsx", ("Data", content))
    data = read_folder(tmp_path, Reading(dates="days"))
    assert data.schema.dates["born"][1] == "1950-01-03"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"a": 1}\n{"a": 2\n', "line 2: not JSON"),
        ('{"a": 1}\n\n[1, 2]\n', "line 3: not an object with a cell for each column"),
        ('{"a": 1, "b": 2}\n{"a": {"c": 2}}\n', "line 2, column 'a': a list or an object is not a cell"),
        ('{"a": 1, "a": 2}\n', "line 1: the column 'a' occurs twice"),
        ('{"a": 1}\n{"a": Infinity}\n', "line 2, column 'a': inf is not finite"),
        ("\n", "the file is empty"),
    ],
)
def test_a_fault_of_json_lines(tmp_path, lines, message):
    (tmp_path / "ulm.jsonl").write_text(lines)
    with pytest.raises(BadInput, match=re.escape(f"ulm.jsonl: {message}")):
        read_folder(tmp_path)


def test_a_key_that_a_line_lacks_is_an_empty_cell(tmp_path):
    (tmp_path / "ulm.jsonl").write_text('{"a": 1, "b": 2.5}\n{"b": 3}\n{"a": null, "b": 4}\n{"a": 7, "b": 5}\n')
    np.testing.assert_array_equal(read_folder(tmp_path).tables["ulm"][:, 0], [1, np.nan, np.nan, 7])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ulm.xlsx", b"rows", "ulm.xlsx: not a readable Excel file: "),
        ("ulm.sav", b"rows", "ulm.sav: not a readable .sav file: "),
        ("ulm.dta", b"rows", "ulm.dta: not a readable .dta file: "),
        ("ulm.csv.xz", b"rows", "ulm.csv.xz: cannot be read: "),
        ("ulm.csv.bz2", b"rows", "ulm.csv.bz2: cannot be read: "),
        ("ulm.csv.zst", b"rows", "ulm.csv.zst: cannot be read: "),
        ("ulm.zip", b"rows", "ulm.zip: cannot be read: "),
    ],
)
def test_a_broken_file_is_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        read_folder(tmp_path)
    assert "\n" not in str(caught.value)


def test_an_archive_must_have_one_table(tmp_path):
    with zipfile.ZipFile(tmp_path / "ulm.zip", "w") as archive:
        archive.writestr("a.csv", "x\n1\n")
        archive.writestr("b.csv", "x\n1\n")
    with pytest.raises(BadInput, match=r"must have exactly one .csv or .tsv file, but it has 'a.csv', 'b.csv'"):
        read_folder(tmp_path)


@pytest.mark.parametrize(("ending", "package"), [(".xlsx", "openpyxl"), (".sav", "pyreadstat"), (".dta", "pyreadstat")])
def test_without_its_package_one_line_says_what_to_install(tmp_path, ending, package, monkeypatch):
    (tmp_path / f"ulm{ending}").write_bytes(b"rows")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BadInput, match=rf"ulm{ending}: {ending} files need the package {package}: pip .*tables\]'$"):
        read_folder(tmp_path)


@pytest.mark.parametrize("ending", [".xlsx", ".jsonl"])
def test_a_run_with_an_epsilon_refuses_formats_whose_cells_could_make_it_fail(tmp_path, ending):
    write(tmp_path / f"ulm{ending}")
    with pytest.raises(BadInput, match=r"a run with an ε reads only CSV and Parquet files"):
        read_folder(tmp_path, Reading(private=True))


def test_files_beside_a_spreadsheet_that_is_open_are_no_silos(tmp_path):
    write(tmp_path / "ulm.csv")
    for name in ("~$ulm.xlsx", "_draft.xlsx"):
        (tmp_path / name).write_bytes(b"lock")
    assert set(silo_files(tmp_path)) == {"ulm"}


def test_a_change_of_a_spreadsheet_is_read(tmp_path):
    path = tmp_path / "ulm.xlsx"
    write(path)
    service = SiloService("ulm", path)
    try:
        assert service.describe().rows == 12
        write(path, ROWS[:7])
        assert service.describe().rows == 7
    finally:
        service.close()


def test_the_longest_ending_names_the_format(tmp_path):
    assert [ending_of(tmp_path / name) for name in ("a.csv.zip", "a.zip", "a.CSV.GZ", "a.xls")] == [
        ".csv.zip",
        ".zip",
        ".csv.gz",
        None,
    ]


def test_the_page_on_data_names_every_ending():
    page = (Path(__file__).parents[3] / "docs" / "data-formats.md").read_text("utf-8")
    named = set(re.findall(r"`(?:<silo>)?(\.[a-z.]+[a-z0-9])`", page))
    compressed = {one for one in FORMATS if one.count(".") == 2 and one.startswith(".tsv")}
    assert set(FORMATS) - compressed <= named, "compressed text is described once, for .csv"


def test_messages_list_the_formats():
    for name in (".xlsx", ".sav", ".dta", ".jsonl"):
        assert name in FORMATS
        assert name in LISTED


def test_a_database_reads_the_rows_of_a_query_and_of_a_folder_with_one(tmp_path):
    (tmp_path / "a.csv").touch()
    assert not has_query(tmp_path)
    (tmp_path / "b.sql").touch()
    assert [has_query(one) for one in (tmp_path, tmp_path / "a.csv", tmp_path / "b.sql")] == [True, False, True]
