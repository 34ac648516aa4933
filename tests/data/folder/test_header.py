"""First rows that are no names of columns, and text in UTF-16 without a mark."""

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.data.folder.text import header_fault, utf_16

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


def columns_of(*columns):
    return [list(map(str, row)) for row in zip(*columns, strict=True)]


LEVELS = columns_of(*([(k * step) % 4 for k in range(1, 40)] for step in (1, 3, 5, 7, 9)))
COUNTS = columns_of(*([20 + (k * step) % 90 for k in range(40)] for step in (7, 11, 13)))


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        ("400.5 402 403.5 405 406.5", LEVELS),  # wavelengths
        ("3 1 0 2 4", LEVELS),  # numbers of columns in another order
        ("2 5 9", COUNTS),
        ("2019 2030 2024", COUNTS),  # years
        ("asthma cough fever", columns_of(*(["", name, name] for name in ("asthma", "cough", "fever")))),
        ("id 21 30", columns_of(["p1", "p2"], [20, 25], [30, 40])),
    ],
)
def test_numbers_and_answers_that_are_names(names, rows):
    assert header_fault(names.split(), rows) is None


@pytest.mark.parametrize(
    ("first", "rows"),
    [
        ("64 21 95", COUNTS),
        ("48 20 7", columns_of([50, 60, 70], [21, 25, 30], [8, 9, 7])),  # just below what is in the columns
        ("72 31 10", columns_of([50, 60, 70], [21, 25, 30], [8, 9, 7])),  # just above
        ("64 yes 21", columns_of([50, 60, 70], ["no", "yes", "no"], [20, 21, 30])),
        ("yes mild", columns_of(["no", "yes", "no"], ["mild", "severe", "mild"])),
        ("400.5 402 403.5 401 406.5", LEVELS),
    ],
)
def test_rows_without_a_fraction_among_numbers_are_rows(first, rows):
    assert header_fault(first.split(), rows) is not None


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
    assert (
        said == "FOLDER/b.csv: column 'age' differs from 'Age' of a.csv only in capitals: "
        "`fedbnsl inspect FOLDER --write` drafts a common name"
    )
