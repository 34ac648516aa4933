"""First rows that are no names of columns, and text in UTF-16 without a mark."""

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.data.folder.header import header_fault, utf_16

ROWS = "".join(f"{k * 1.5},{k * k + 0.25},{'yes' if k % 3 else 'no'}\n" for k in range(30))


def write(folder, content, name="a.csv"):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def refused(folder):
    with pytest.raises(BadInput) as error:
        read_folder(folder)
    return str(error.value).replace(str(folder), "FOLDER")


def test_a_row_of_the_table_is_no_header_and_is_not_quoted(tmp_path):
    said = refused(write(tmp_path, ROWS))
    fault = "must name the columns, but looks like a row of the table: write a line of names above it"
    assert said == f"FOLDER/a.csv: line 1: {fault}"


@pytest.mark.parametrize("separator", [";", ",", "\t"])
def test_a_line_for_excel_is_named(tmp_path, separator):
    table = ("age,dose,smokes\n" + ROWS).replace(",", separator)
    assert "line 1: is a line for Excel, 'sep=': delete it" in refused(write(tmp_path, f"sep={separator}\n{table}"))


@pytest.mark.parametrize("title", ["Patients,,\n", "# exported in 2024\n", "\nPatients 2024\n"])
def test_a_title_is_named(tmp_path, title):
    said = refused(write(tmp_path, title + "age,dose,smokes\n" + ROWS))
    assert said.endswith("and no names of columns: if it is a title, delete it")


def test_a_merged_title_of_a_sheet_is_named(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["Patients", None, None])
    book.active.merge_cells("A1:C1")
    book.active.append(["age", "dose", "smokes"])
    for k in range(20):
        book.active.append([k * 1.5, k * 0.5, "yes" if k % 2 else "no"])
    book.save(tmp_path / "a.xlsx")
    said = "FOLDER/a.xlsx: row 1: has a single cell, 'Patients', and no names of columns: if it is a title, delete it"
    assert refused(tmp_path) == said


@pytest.mark.parametrize(
    "names",
    [
        ("age", "dose", "yes"),  # a label that is the name of another column
        ("1", "2", "3"),
        ("2019", "2020", "yes"),
        ("0.5", "dose", "smokes"),  # a share as a name
        ("x",),
    ],
)
def test_unusual_names_are_names(names):
    assert header_fault(names, [row.split(",")[: len(names)] for row in ROWS.splitlines()]) is None


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_read(tmp_path, encoding):
    content = "age,größe,smokes\n" + ROWS
    plain, coded = tmp_path / "plain", tmp_path / "coded"
    plain.mkdir()
    coded.mkdir()
    expected = read_folder(write(plain, content))
    found = read_folder(write(coded, content.encode(encoding)))
    assert found.schema == expected.schema
    assert (found.tables["a"] == expected.tables["a"]).all()
    assert utf_16(content.encode()) is None
    assert utf_16(b"a\0b") is None


def test_names_that_differ_in_capitals_are_named_together(tmp_path):
    write(tmp_path, "Age,dose,smokes\n" + ROWS)
    said = refused(write(tmp_path, "dose,age,smokes\n" + ROWS, "b.csv"))
    assert said == "FOLDER/b.csv: column 'age' differs from 'Age' of a.csv only in capitals: rename one of them"
