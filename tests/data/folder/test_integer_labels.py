"""Which integers are labels: the type of a column says so, or the dependence of the columns on each other."""

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.data.folder.schema_inference import depend_as_labels
from fedbnsl.data.folder.tally import dependence
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.linear import homogeneous


def grades(seed, levels, silos=4, rows=600):
    """Tables of grades: numbers of a linear model, cut into `levels` steps of equal width."""
    tables = homogeneous(8, silos, rows, seed).tables.values()
    scaled = [(table - table.mean(0)) / table.std(0) for table in tables]
    return [np.clip(np.floor(z * levels / 5 + levels / 2), 0, levels - 1) for z in scaled]


def write(folder, tables, names=None):
    folder.mkdir()
    for k, table in enumerate(tables):
        columns = names or [f"x{v}" for v in range(table.shape[1])]
        pd.DataFrame(table, columns=columns).to_csv(folder / f"silo-{k}.csv", index=False)
    return folder


@pytest.mark.parametrize("seed", range(6))
def test_codes_are_labels_and_give_what_letters_give(seed, tmp_path):
    data = discrete(8, 4, 1000, seed)
    codes = [table.astype(int) for table in data.tables.values()]
    letters = [np.char.add("l", table.astype(str)) for table in codes]
    found = {
        name: learn(read_folder(write(tmp_path / name, tables)), "fed-pc", parameters=False, diagnose=False)
        for name, tables in (("codes", codes), ("letters", letters))
    }
    assert found["codes"].result.schema.kind == "discrete"
    np.testing.assert_array_equal(found["codes"].result.structure.weights, found["letters"].result.structure.weights)


@pytest.mark.parametrize("levels", [3, 4, 5, 7, 10])
def test_grades_are_numbers(levels, tmp_path):
    for seed in range(4):
        data = read_folder(write(tmp_path / str(seed), grades(seed, levels)))
        assert data.schema.kind == "continuous"
        assert any("integers with few values" in note for note in data.notes)


def test_columns_of_two_values_are_labels(tmp_path):
    rng = np.random.default_rng(1)
    data = read_folder(write(tmp_path / "data", [rng.integers(0, 2, (40, 4)) for _ in range(2)]))
    assert data.schema.kind == "discrete"
    assert any("as they depend on each other as labels do, or have two values" in note for note in data.notes)


def test_independent_integers_are_numbers_however_many_columns_there_are():
    for levels, rows, columns, silos in ((6, 100, 30, 64), (4, 60, 10, 64), (9, 200, 20, 20)):
        rng = np.random.default_rng(levels)
        assert not depend_as_labels(
            [dependence(rng.integers(0, levels, (rows, columns)).astype(float)) for _ in range(silos)]
        )


def test_dependence_is_the_gain_of_likelihood_beyond_chance():
    """Of two columns with known counts, n times the mutual information by its definition."""
    counts = np.array([[30, 5, 5], [5, 30, 5], [2, 8, 30]])
    rows = np.array([(i, j) for i in range(3) for j in range(3) for _ in range(counts[i, j])], float)
    share = counts / counts.sum()
    expected = counts.sum() * (share * np.log(share / np.outer(share.sum(1), share.sum(0)))).sum()
    labels, numbers, chance = dependence(rows)
    assert labels + chance == pytest.approx(expected, abs=1.0)
    assert chance == 2
    assert numbers == round(-0.5 * len(rows) * np.log(1 - np.corrcoef(rows.T)[0, 1] ** 2) - 0.5)


@pytest.mark.parametrize("kind", ["category", "string"])
def test_the_type_of_a_column_is_a_declaration(kind, tmp_path):
    rng = np.random.default_rng(0)
    frames = {
        silo: pd.DataFrame({"age": rng.normal(50, 10, 90), "ward": rng.integers(1, 25, 90)}) for silo in ("a", "b")
    }
    typed = {silo: frame.assign(ward=frame.ward.astype(kind)) for silo, frame in frames.items()}
    assert learn(frames, parameters=False, diagnose=False).result.schema.kind == "continuous"
    levels = learn(typed, parameters=False, diagnose=False).result.schema.levels
    assert set(levels) == {"ward"}
    (tmp_path / "data").mkdir()
    for silo, frame in typed.items():
        frame.to_parquet(tmp_path / "data" / f"{silo}.parquet", index=False)
    assert read_folder(tmp_path / "data").schema.levels == levels


def test_python_is_warned_as_the_command_line_is():
    rng = np.random.default_rng(0)
    frames = {silo: pd.DataFrame({"x": rng.normal(size=60), "code": rng.integers(0, 3, 60)}) for silo in ("a", "b")}
    with pytest.warns(UserWarning, match="few distinct integers in code are read as labels"):
        learn(frames, parameters=False, diagnose=False)


def test_labels_for_another_reason_are_not_said_to_depend_on_each_other(tmp_path):
    rng = np.random.default_rng(2)
    tables = [rng.integers(0, 3, (60, 3)) for _ in range(2)]
    folder = write(tmp_path / "data", tables)
    (folder / "about.json").write_text('{"columns": {"x0": "discrete"}}')
    (note,) = (one for one in read_folder(folder).notes if one.startswith("codes: "))
    assert "in x1, x2 are read as labels; if one is a quantity" in note
    for silo in folder.glob("*.csv"):
        pd.read_csv(silo).astype("category").to_parquet(silo.with_suffix(".parquet"), index=False)
        silo.unlink()
    (folder / "about.json").unlink()
    assert not [one for one in read_folder(folder).notes if one.startswith("codes: ")]
