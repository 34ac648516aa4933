"""Numbers with other marks beside them: units, currencies, percent signs, marks between thousands, detection limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches
from fedbnsl.data.folder.cells import quantity_of
from fedbnsl.data.folder.folder import read_folder

UNITS = ["kg", "mmHg", "%", "€", "mg/dl", "°C", "µg/l", "kg/m²"]


@given(
    st.integers(0, 10**9),
    st.sampled_from(["{}", "{} kg", "{}kg", "{} %", "${}", "{} €", "€ {}", "{} mmHg", "{} mg/dl", "-{} °C"]),
    st.sampled_from([",", "'", "\u202f", " "]),
)
def test_a_number_is_read_whatever_is_written_beside_it(whole, form, mark):
    written = f"{whole:,}.25".replace(",", mark)
    found = quantity_of(form.format(written))
    assert found is not None
    assert not found.limit
    assert found.number == (whole + 0.25) * (-1 if form.startswith("-") else 1)
    assert found.unit == form.replace("{}", "").strip(" -")


@pytest.mark.parametrize(
    "cell", ["<18 - 65", "12-15", "kg", "a4", "12 13", "1,23,4", "5 kg 3", "3+", "$5 €", "2020-01-31"]
)
def test_other_words_are_no_numbers(cell):
    assert quantity_of(cell) is None


def test_a_limit_is_half_of_an_upper_limit_and_a_lower_limit_itself():
    limits = {cell: quantity_of(cell) for cell in ("<0.5", "≤ 4", ">10 000", "<-3")}
    assert {cell: one.number for cell, one in limits.items()} == {"<0.5": 0.25, "≤ 4": 2, ">10 000": 10_000, "<-3": -3}
    assert all(one.limit for one in limits.values())


def write(folder, cells, name="a"):
    rows = [f'"{cell}",{k * 0.37:.2f}' for k, cell in enumerate(cells)]
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.csv").write_text("\n".join(["x,y", *rows, ""]))
    return folder


VALUES = np.random.default_rng(0).normal(70, 10, 60).round(1) + 1000


@pytest.mark.parametrize("limit", [1, 1 << 28])
@pytest.mark.parametrize("unit", UNITS)
def test_a_column_with_a_unit_is_read_as_without(tmp_path, monkeypatch, unit, limit):
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", limit)
    plain = read_folder(write(tmp_path / "plain", [f"{x:.1f}" for x in VALUES]))
    read = read_folder(write(tmp_path / "unit", [f"{x:,.1f} {unit}" for x in VALUES]))
    rows = [np.concatenate(list(data.tables["a"])) if limit == 1 else data.tables["a"] for data in (plain, read)]
    assert np.array_equal(rows[0], rows[1])
    assert read.schema.unit_of == {"x": unit}
    assert read.schema.kind == "continuous"
    assert f"numbers with their unit in the cells: x ({unit})" in read.notes


def test_decimal_commas_have_points_between_thousands(tmp_path):
    cells = [f"{x:,.1f} €".translate(str.maketrans(",.", ".,")) for x in VALUES]
    (tmp_path / "a.csv").write_text("\n".join(["x;y", *(f"{cell};{k},5" for k, cell in enumerate(cells)), ""]))
    assert np.array_equal(read_folder(tmp_path).tables["a"][:, 0], VALUES)


def test_limits_beside_numbers_are_read_and_said(tmp_path):
    data = read_folder(write(tmp_path / "set", ["<5", *(f"{x}" for x in VALUES)]))
    assert data.tables["a"][0, 0] == 2.5
    assert any(note.startswith("x: limits such as <5 and >100 are in 1-5 % of its cells") for note in data.notes)


@pytest.mark.parametrize("cells", [["<18", "18-65", ">65"] * 20, ["<18", ">=18"] * 20, ["5 mg", "7 kg"] * 30])
def test_ages_in_groups_and_mixed_units_stay_labels(tmp_path, cells):
    assert read_folder(write(tmp_path / "set", cells)).schema.levels["x"] == tuple(sorted(set(cells)))


def test_a_typing_error_is_no_unit(tmp_path):
    cells = [*(f"{x}" for x in VALUES), "4x"]
    with pytest.raises(BadInput, match="line 62, column 'x': '4x' is not a number"):
        read_folder(write(tmp_path / "set", cells))


def test_silos_with_other_units_are_refused_until_one_is_converted(tmp_path):
    folder = write(tmp_path / "set", [f"{x} kg" for x in VALUES])
    write(folder, [f"{x} lb" for x in VALUES], "b")
    with pytest.raises(BadInput, match=r'several units \(kg at a, lb at b\).*\{"scale": \{"b": \{"x": FACTOR\}\}\}'):
        read_folder(folder)
    (folder / "about.json").write_text('{"scale": {"b": {"x": 0.5}}}')
    data = read_folder(folder)
    assert np.allclose(data.tables["b"][:, 0], VALUES / 2)
    assert np.array_equal(data.tables["a"][:, 0], VALUES)
    (folder / "about.json").write_text('{"unit": {"x": "kg"}}')
    with pytest.raises(BadInput, match=r"b\.csv: line 2, column 'x': '.* lb' is not a number"):
        read_folder(folder)
