"""Partitions give every row to one silo, and a user's own table is split as asked."""

import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData, discrete
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.networks.lucas import lucas
from fedbnsl.data.splitting.partition import (
    by_column,
    by_hidden_child,
    by_sizes,
    dirichlet,
    equal,
    label_skew,
    split_table,
)

NAME_IT = (
    "it must be UTF-8 text without / \\ : or line breaks, must not start or end with a space, and must not start with "
    "a dot"
)


def covers(parts, rows):
    return sorted(np.concatenate(list(parts)).tolist()) == list(range(rows))


@given(st.integers(1, 9), st.integers(0, 60), st.floats(1e-3, 1e3), st.integers(0, 99))
@settings(deadline=None)
def test_every_row_goes_to_one_silo(silos, more, concentration, seed):
    rows = 2 * silos + more
    rng = np.random.default_rng(seed)
    alike = equal(rows, silos, rng)
    skewed = dirichlet(rows, silos, concentration, rng)
    sizes = [len(part) for part in skewed]
    given_sizes = by_sizes(rows, sizes, rng)
    labels = label_skew(rng.integers(0, 3, rows), silos, concentration, rng)
    assert covers(alike, rows)
    assert covers(skewed, rows)
    assert covers(given_sizes, rows)
    assert covers(labels, rows)
    assert min(map(len, labels)) >= 2
    assert max(map(len, alike)) - min(map(len, alike)) <= 1
    assert min(sizes) >= 2
    assert [len(part) for part in given_sizes] == sizes


@given(st.lists(st.sampled_from(["a", "b", "10", "9"]), min_size=1))
def test_by_column_keeps_the_order_of_rows(labels):
    parts = by_column(labels)
    assert list(parts) == sorted(set(labels))
    assert covers(parts.values(), len(labels))
    for label, rows in parts.items():
        assert {labels[row] for row in rows} == {label}
        assert (np.diff(rows) > 0).all()


def test_a_small_concentration_skews_the_sizes():
    rng = np.random.default_rng(0)

    def spread(concentration):
        return np.mean([np.std([len(part) for part in dirichlet(10_000, 5, concentration, rng)]) for _ in range(200)])

    assert spread(0.1) > 2.5 * spread(3) > 6 * spread(300)
    # each share has variance (P−1) / (P²(Pc+1))
    sizes = np.array([[len(part) for part in dirichlet(10_000, 5, 1.0, rng)] for _ in range(400)])
    assert abs(sizes.var() / (10_000**2 * 4 / (25 * 6)) - 1) < 0.15


def test_rows_are_shuffled_under_the_seed():
    one, again, other = (equal(100, 4, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert one[0].tolist() != list(range(25))


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["x", "y", "z"])
    frame.insert(1, "site", ["Basel", "NA", "10"] * 20)
    frame.to_csv(tmp_path / "my.csv", index=False)
    return tmp_path / "my.csv", frame


def without_site(path, frame):
    frame.drop(columns="site").to_csv(path, index=False)
    return path


def test_split_by_a_column_drops_it(table, tmp_path):
    path, frame = table
    data = split_table(path, 0, by="site")
    assert data.schema.variables == ("x", "y", "z")
    assert data.schema.rows == {"10": 20, "Basel": 20, "NA": 20}
    assert np.array_equal(data.tables["NA"], frame[frame["site"] == "NA"][["x", "y", "z"]].to_numpy())
    assert data.truth is None
    assert data.about["parameters"] == {"table": "my.csv", "by": "site"}
    write_folder(tmp_path / "set", data)
    assert read_folder(tmp_path / "set").schema == data.schema


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet"])
def test_split_from_any_form(table, tmp_path, form):
    _, frame = table
    path = tmp_path / f"t.{form}"
    if form == "parquet":
        frame.assign(site=[1.0, 2.0, 3.0] * 20).to_parquet(path)
        expected = ["1", "2", "3"]
    else:
        content = frame.to_csv(index=False).encode()
        path.write_bytes(gzip.compress(content) if form == "csv.gz" else content)
        expected = ["10", "Basel", "NA"]
    data = split_table(path, 0, by="site")
    assert sorted(data.tables) == expected
    assert np.array_equal(
        data.tables[expected[1]], frame[["x", "y", "z"]].to_numpy()[{"2": 1, "Basel": 0}[expected[1]] :: 3]
    )


def test_split_in_parts(table, tmp_path):
    _, frame = table
    path = without_site(tmp_path / "t.csv", frame)
    assert split_table(path, 0, silos=7).schema.rows == {f"silo-{i}": 9 if i <= 4 else 8 for i in range(1, 8)}
    assert list(split_table(path, 0, sizes=[50, 4, 6]).schema.rows.values()) == [50, 4, 6]
    skewed = split_table(path, 3, silos=4, concentration=0.2)
    assert sum(skewed.schema.rows.values()) == 60
    rows = np.concatenate(list(skewed.tables.values()))
    assert np.array_equal(rows[np.argsort(rows[:, 0])], frame.sort_values("x")[["x", "y", "z"]].to_numpy())
    assert skewed.about["seed"] == 3
    assert skewed.about["parameters"] == {"table": "t.csv", "silos": 4, "concentration": 0.2}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "split: give one of silos, sizes, or by; concentration, skew and surrogate only with silos"),
        (
            {"silos": 2, "sizes": [30, 30]},
            "split: give one of silos, sizes, or by; concentration, skew and surrogate only with silos",
        ),
        (
            {"sizes": [30, 30], "concentration": 1.0},
            "split: give one of silos, sizes, or by; concentration, skew and surrogate only with silos",
        ),
        ({"silos": 0}, "silos: 0 is less than 1"),
        ({"silos": 31}, "silos: 31 silos of at least 2 rows need 62 rows, the table has 60"),
        ({"silos": 31, "concentration": 1.0}, "silos: 31 silos of at least 2 rows need 62 rows, the table has 60"),
        ({"silos": 3, "concentration": 0.0}, "concentration: 0.0 is not a positive number"),
        ({"sizes": [59, 1]}, "sizes: 1 is less than 2 rows"),
        ({"sizes": [30, 40]}, "sizes: 30+40 = 70, but the table has 60 rows"),
        ({"sizes": []}, "sizes: 0 = 0, but the table has 60 rows"),
        ({"silos": 3, "seed": -1}, "seed: -1 is less than 0"),
        ({"by": "hospital"}, "PATH: column 'hospital' is missing; available: x, y, z"),
    ],
)
def test_a_choice_that_makes_no_sense(table, tmp_path, how, message):
    path = without_site(tmp_path / "t.csv", table[1])
    with pytest.raises(BadInput) as caught:
        split_table(path, **{"seed": 0} | how)
    assert str(caught.value).replace(str(path), "PATH") == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("s,x\na,1\nb,2\n,3\n", "PATH: column 's': no silo has 2 rows or more"),
        (
            "s,x\na/b,1\na/b,2\n",
            "PATH: column 's': 'a/b' cannot name a silo, because its file has that name: " + NAME_IT,
        ),
        ("s\na\nb\n", "PATH: no column besides 's'"),
    ],
)
def test_a_table_that_cannot_be_split_by_its_column(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(BadInput) as caught:
        split_table(path, 0, by="s")
    assert str(caught.value).replace(str(path), "PATH") == message


def test_a_column_of_words_among_numbers_is_split_with_them(table):
    path, _ = table
    assert split_table(path, 0, silos=3).schema.kind == "mixed"


@pytest.mark.parametrize("seed", range(5))
def test_skewed_sizes_are_the_shares_rounded_by_largest_remainder(seed):
    """Two rows each, then Hamilton's method: the silos with the largest fractions get the remaining rows."""
    sizes = [len(part) - 2 for part in dirichlet(103, 6, 1.0, np.random.default_rng(seed))]
    shares = np.random.default_rng(seed).dirichlet(np.ones(6)) * (103 - 12)
    expected = np.floor(shares)
    expected[np.argsort(shares - expected)[6 - round(91 - expected.sum()) :]] += 1
    assert sizes == expected.tolist()


def test_skewed_labels_have_dirichlet_shares_of_their_own():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], 5000)
    shares = []
    for _ in range(400):
        owner = np.empty(len(codes), dtype=int)
        for silo, rows in enumerate(label_skew(codes, 4, 1.0, rng)):
            owner[rows] = silo
        shares.append([np.bincount(owner[codes == level], minlength=4) / 5000 for level in (0, 1)])
    shares = np.array(shares)
    assert np.allclose(shares.mean(axis=0), 0.25, atol=0.03)
    assert np.allclose(shares.var(axis=0), 3 / (16 * 5), rtol=0.25), "Dirichlet(1, 1, 1, 1)"
    assert abs(np.corrcoef(shares[:, 0, 0], shares[:, 1, 0])[0, 1]) < 0.15, "the two levels are dealt independently"


def test_large_concentrations_leave_the_labels_as_they_are():
    codes = np.random.default_rng(0).integers(0, 3, 9000)
    parts = label_skew(codes, 3, 1e6, np.random.default_rng(1))
    assert all(abs(np.bincount(codes[rows]) / len(rows) - 1 / 3).max() < 0.02 for rows in parts)


@pytest.fixture
def labels(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sick": rng.choice(["yes", "no"], 90), "dose": rng.integers(0, 4, 90)})
    frame["site"] = rng.permutation(np.repeat(["Basel", "NA", "10"], 30))
    frame.to_csv(tmp_path / "my.csv", index=False)
    return tmp_path / "my.csv", frame


HOW = {
    "equal": {"silos": 4},
    "sizes": {"sizes": [50, 38, 2]},
    "dirichlet": {"silos": 4, "concentration": 0.3},
    "skewed labels": {"silos": 4, "skew": "sick", "concentration": 0.2},
    "by a column": {"by": "site"},
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_of_labels_is_split_in_every_way(labels, tmp_path, how, form):
    path, frame = labels
    frame = frame if how == "by a column" else frame.drop(columns="site")
    path = tmp_path / f"t.{form}"
    frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
    data = split_table(path, 0, **HOW[how])
    assert data.schema.variables == ("sick", "dose")
    assert data.schema.levels == {"sick": ("no", "yes"), "dose": ("0", "1", "2", "3")}
    rows = np.concatenate(list(data.tables.values()))
    expected = np.column_stack([frame["sick"] == "yes", frame["dose"]]).astype(int)
    assert np.array_equal(rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)])
    if how == "by a column":
        assert np.array_equal(data.tables["NA"], expected[frame["site"] == "NA"])
    write_folder(tmp_path / "set", data)
    assert read_folder(tmp_path / "set").schema == data.schema


def test_whole_numbers_are_levels_if_one_says_so(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n0,1\n1,0\n0,1\n2,0\n")
    assert split_table(path, 0, silos=1).schema.kind == "continuous"
    data = split_table(path, 0, silos=2, kind="discrete")
    assert data.schema.levels == {"x": ("0", "1", "2"), "y": ("0", "1")}
    path.write_text("x,y\nred,1\nblue,0\n")
    with pytest.raises(BadInput, match="line 2, column 'x': 'red' is not a number"):
        split_table(path, 0, silos=1, kind="continuous")


def test_levels_of_a_data_set_that_a_silo_lacks_stay_if_the_kind_is_given(tmp_path):
    levels, rng = {"x": ("0", "1", "2"), "y": ("0", "1")}, np.random.default_rng(1)
    tables = {"a": rng.integers(0, 2, (40, 2)), "b": rng.integers(0, (3, 2), (40, 2))}
    write_folder(tmp_path / "set", FederatedData(discrete(tables, ("x", "y"), levels), tables))
    assert split_table(tmp_path / "set" / "a.csv", 0, silos=2, kind="discrete").schema.levels == levels


def test_a_silo_of_a_data_set_is_split_with_its_levels_and_the_truth_one_names(tmp_path):
    write_folder(tmp_path / "set", lucas("0", 1, 50, 0))
    data = split_table(tmp_path / "set" / "silo-1.csv", 0, silos=5, truth=tmp_path / "set" / "truth.csv")
    assert data.schema.levels == dict.fromkeys(data.schema.variables, ("0", "1"))
    assert data.truth.adjacency.sum() == 12
    (tmp_path / "set" / "new.csv").write_text("x,y\n1,2\n3,5\n")
    assert split_table(tmp_path / "set" / "new.csv", 0, silos=1).schema.kind == "continuous", (
        "about.json does not name it"
    )


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"silos": 2, "skew": "dose2"}, "skew: PATH has no column of labels 'dose2'; it has sick, dose, site"),
        (
            {"sizes": [45, 45], "skew": "sick"},
            "split: give one of silos, sizes, or by; concentration, skew and surrogate only with silos",
        ),
        ({"silos": 2, "skew": "sick", "concentration": 0.0}, "concentration: 0.0 is not a positive number"),
        ({"silos": 46, "skew": "sick"}, "silos: 46 silos of at least 2 rows need 92 rows, the table has 90"),
        ({"silos": 2, "kind": "audio"}, "kind: 'audio' is not one of continuous, discrete"),
        ({"by": "hospital"}, "PATH: column 'hospital' is missing; available: sick, dose, site"),
    ],
)
def test_a_choice_that_makes_no_sense_for_labels(labels, how, message):
    path, frame = labels
    frame.replace({"site": {"NA": "Bern"}}).to_csv(path, index=False)
    with pytest.raises(BadInput) as caught:
        split_table(path, **{"seed": 0} | how)
    assert str(caught.value).replace(str(path), "PATH") == message


def test_numbers_have_no_labels_to_skew(table, labels, tmp_path):
    mixed, frame = labels
    frame.assign(height=np.arange(len(frame)) / 7).to_csv(mixed, index=False)
    with pytest.raises(BadInput, match="has no column of labels 'height'; it has sick, dose"):
        split_table(mixed, 0, silos=2, skew="height")
    path = without_site(tmp_path / "t.csv", table[1])
    with pytest.raises(BadInput, match="has no column of labels, and only labels can be skewed"):
        split_table(path, 0, silos=2, skew="x")


@pytest.fixture
def patients(tmp_path):
    """The path of a table of numbers and labels with empty cells."""
    rng = np.random.default_rng(100)
    made = pd.DataFrame({"age": rng.normal(60, 10, 400), "sex": rng.choice(["m", "f"], 400)})
    made["ward"] = list("abcd" * 100)
    made["age"] = made["age"].mask(rng.random(400) < 0.2)
    made["sex"] = made["sex"].mask(rng.random(400) < 0.1)
    made.to_csv(tmp_path / "patients.csv", index=False)
    return tmp_path / "patients.csv"


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    "how",
    [
        {"by": "ward"},
        {"sizes": [100, 300]},
        {"silos": 4, "concentration": 2.0},
        {"silos": 3, "skew": "sex"},
        {"silos": 3, "surrogate": 2, "concentration": 1.0},
    ],
    ids=["by", "sizes", "dirichlet", "skew", "surrogate"],
)
def test_a_table_of_both_kinds_keeps_its_kinds_and_its_gaps(patients, tmp_path, how, form):
    data = split_table(patients, 1, **how)
    assert data.schema.kind == "mixed"
    table = pd.read_csv(patients)
    assert sum(data.schema.rows.values()) == 400
    empty = dict(zip(data.schema.variables, np.sum(list(data.schema.empty.values()), axis=0), strict=True))
    assert {name: int(count) for name, count in empty.items() if count} == {
        name: int(count) for name, count in table.isna().sum().items() if count
    }
    write_folder(tmp_path / "dealt", data, form)
    again = read_folder(tmp_path / "dealt")
    assert again.schema.levels == data.schema.levels
    for silo, rows in data.tables.items():
        assert np.array_equal(again.tables[silo], rows, equal_nan=True)


def codes_of(patients):
    """The codes of age, sex and ward by hand: of age, 1 if it is above the median and else 0; -1 if a cell is empty."""
    table = pd.read_csv(patients)
    age = (table["age"] > table["age"].median()).astype(int).mask(table["age"].isna(), -1)
    return np.column_stack(
        [age, table["sex"].map({"f": 0, "m": 1}).fillna(-1), table["ward"].map("abcd".index)]
    ).astype(int)


def owned(data, patients, parts):
    """Whether the silos of `data` have these `parts` of the rows, by age and ward."""
    table = pd.read_csv(patients)
    values = np.column_stack([table["age"], table["ward"].map("abcd".index)])
    columns = [data.schema.variables.index(name) for name in ("age", "ward")]
    own = [rows[:, columns] for rows in data.tables.values()]
    return [np.array_equal(one, values[part], equal_nan=True) for one, part in zip(own, parts, strict=True)]


def test_empty_cells_are_dealt_as_a_level_of_their_own_in_skewed_labels(patients):
    sex = codes_of(patients)[:, 1]
    assert set(sex) == {-1, 0, 1}
    parts = label_skew(sex, 3, 0.5, np.random.default_rng(4))
    assert all(owned(split_table(patients, 4, silos=3, skew="sex"), patients, parts))


def test_a_hidden_child_tells_empty_cells_from_numbers_below_the_median(patients):
    codes, rng = codes_of(patients), np.random.default_rng(4)
    assert set(codes[:, 0]) == {-1, 0, 1}
    rng.choice(3, size=3, replace=False)  # all three columns are chosen
    parts = by_hidden_child(codes, 3, 0.5, rng)
    assert all(owned(split_table(patients, 4, silos=3, surrogate=3), patients, parts))


def test_a_hidden_child_of_columns_biases_the_silos(patients):
    def share(data, name):
        column = data.schema.variables.index(name)
        return [np.nanmean(rows[:, column] > 60) for rows in data.tables.values()]

    shares = [
        np.ptp(share(split_table(patients, seed, silos=2, surrogate=3, concentration=0.3), "age")) for seed in range(8)
    ]
    fair = [np.ptp(share(split_table(patients, seed, silos=2), "age")) for seed in range(8)]
    assert np.mean(shares) > 2 * np.mean(fair)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"silos": 2, "surrogate": 9}, "surrogate: 9 is not between 1 and 3"),
        ({"sizes": [200, 200], "surrogate": 1}, "give one of silos"),
        ({"silos": 2, "surrogate": 1, "skew": "sex"}, "skew or surrogate, not both"),
        ({"silos": 199, "surrogate": 3}, "a silo needs 2: give fewer silos"),
    ],
)
def test_a_hidden_child_that_makes_no_sense(patients, how, message):
    with pytest.raises(BadInput, match=message):
        split_table(patients, 1, **how)
