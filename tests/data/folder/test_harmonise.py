"""Declarations in about.json for one silo: recoded labels and other units, for every way of reading its rows."""

import json

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches
from fedbnsl.data.folder.about import Reading, declarations, read_about
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.tasks.silo.guard import Guard
from fedbnsl.tasks.silo.policy import NotAllowed, Policy
from fedbnsl.tasks.silo.service import SiloService

ABOUT = {
    "recode": {"clinic": {"smokes": {"Ja": "yes", "Nein": "no", "k.A.": None}}},
    "scale": {"clinic": {"weight": 0.5}},
    "missing": {"weight": ["99"]},
}


def frames(rows=60):
    rng = np.random.default_rng(7)
    weight, smokes = rng.uniform(50, 98, rows).round(2), rng.choice(["yes", "no"], rows)
    weight[5], smokes[6] = np.nan, np.nan
    mine = pd.DataFrame({"weight": weight, "smokes": smokes, "age": rng.normal(size=rows)})
    theirs = mine.assign(weight=2 * mine["weight"], smokes=mine["smokes"].map({"yes": "Ja", "no": " Nein"}))
    theirs = theirs.fillna({"weight": 99, "smokes": "k.A."})
    theirs.loc[7, "weight"] = 198  # 198 is halved to 99, which does not count as a missing-value mark
    mine.loc[7, "weight"] = 99.0
    return mine, theirs


@pytest.fixture
def folder(tmp_path):
    mine, theirs = frames()
    mine.loc[7, "weight"] = 99.5
    theirs.loc[7, "weight"] = 199
    mine.to_csv(tmp_path / "hospital.csv", index=False)
    theirs.to_csv(tmp_path / "clinic.csv", index=False)
    (tmp_path / "about.json").write_text(json.dumps(ABOUT))
    return tmp_path


def test_two_silos_are_read_alike_once_one_is_harmonised(folder):
    data = read_folder(folder)
    assert data.schema.levels == {"smokes": ("no", "yes")}
    np.testing.assert_allclose(data.tables["clinic"], data.tables["hospital"], rtol=1e-15)
    assert np.isnan(data.tables["clinic"][5, 0]), "a mark of a missing value is recognised before numbers are scaled"
    assert data.about["scale"] == ABOUT["scale"], "the run records it"


def test_a_scaled_number_is_no_mark(folder):
    _, theirs = frames()
    theirs.to_csv(folder / "clinic.csv", index=False)
    assert read_folder(folder).tables["clinic"][7, 0] == 99.0


def write_two(folder, about, mine, theirs):
    (folder / "about.json").write_text(json.dumps(about))
    for silo, frame in (("clinic", mine), ("hospital", theirs)):
        frame.to_csv(folder / f"{silo}.csv", index=False)
    return read_folder(folder)


@pytest.mark.parametrize("recode", [{}, {"clinic": {"weight": {"not weighed": None}}}])
def test_a_number_in_another_unit_keeps_all_its_digits(tmp_path, recode):
    """This also holds in a column that is read as text because some of its cells are replaced."""
    rng = np.random.default_rng(3)
    pounds = np.concatenate([rng.uniform(100, 200, 30), 1e9 + rng.uniform(0, 9, 10), 1e-9 * rng.uniform(1, 2, 10)])
    frame = pd.DataFrame({"weight": pounds, "age": rng.normal(size=50)})
    data = write_two(tmp_path, {"scale": {"clinic": {"weight": 0.45359237}}, "recode": recode}, frame, frame)
    np.testing.assert_allclose(data.tables["clinic"][:, 0], 0.45359237 * pounds, rtol=2e-16)
    assert (data.tables["hospital"][:, 0] == pounds).all()


def test_a_number_is_recoded_however_it_is_spelled(tmp_path):
    """2, 2.0 and 2.00 are the same label, in the table and in about.json."""
    spelled = ["1", "1.0", "2", "2.00", " 2 ", "2.0"] * 6
    mine = pd.DataFrame({"sex": spelled, "age": np.arange(36) + 0.5})
    theirs = pd.DataFrame({"sex": ["m", "m", "f", "f", "f", "f"] * 6, "age": np.arange(36) + 0.25})
    for first, second in (("1", "2"), ("1.0", "2.0")):
        about = {"recode": {"clinic": {"sex": {first: "m", second: "f"}}}}
        data = write_two(tmp_path, about, mine, theirs)
        assert data.schema.levels == {"sex": ("f", "m")}
        np.testing.assert_array_equal(data.tables["clinic"][:, 0], data.tables["hospital"][:, 0])


def test_rows_read_in_passes_are_harmonised_alike(folder, monkeypatch):
    expected = read_folder(folder)
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 100)
    found = read_folder(folder)
    assert found.schema.streamed == ("clinic", "hospital")
    assert found.schema.levels == expected.schema.levels
    for silo, table in found.tables.items():
        np.testing.assert_allclose(np.concatenate([*table]), expected.tables[silo], rtol=1e-15)


def test_a_run_with_an_epsilon_harmonises_declared_rows(folder):
    about = ABOUT | {"columns": {"weight": "continuous", "age": "continuous"}, "levels": {"smokes": ["no", "yes"]}}
    (folder / "about.json").write_text(json.dumps(about | {"kind": "mixed"}))
    data = read_folder(folder, Reading(private=True))
    filled = [row for row in range(60) if row not in (5, 6)]
    np.testing.assert_allclose(data.tables["clinic"][filled], data.tables["hospital"][filled], rtol=1e-15)
    assert data.tables["clinic"][5, 0] == 0, "an empty cell counts as 0"


def test_an_error_names_the_line_of_the_cell_that_was_recoded(folder):
    (folder / "about.json").write_text(
        json.dumps(ABOUT | {"levels": {"smokes": ["yes"]}, "columns": {"age": "continuous"}})
    )
    line = next(n for n, cell in enumerate(pd.read_csv(folder / "clinic.csv")["smokes"], start=2) if "Nein" in cell)
    with pytest.raises(BadInput, match=rf"clinic.csv: line {line}, column 'smokes': 'no' is not one of the levels yes"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        (
            {"recode": {"clinik": {"smokes": {"Ja": "yes"}}}},
            "recode: there is no silo 'clinik'; did you mean 'clinic'?",
        ),
        ({"recode": {"clinic": {"smoke": {"Ja": "yes"}}}}, "recode: 'smoke' is not a column of the file; did you mean"),
        ({"scale": {"clinic": {"wheight": 2}}}, "scale: 'wheight' is not a column of the file; did you mean 'weight'?"),
        ({"scale": {"clinic": {"weight": 0}}}, "scale: 'clinic': 'weight': '0' is not a positive number"),
        ({"scale": {"clinic": {"smokes": 2}}}, "scale: 'smokes' has no number, but 'Ja'"),
        ({"scale": {"clinic": 2}}, "scale: 'clinic': '2' is not a JSON object, such as"),
        ({"scale": {"clinic": {"smokes": 2}}, "levels": {"smokes": ["a"]}}, "'smokes' has labels: only numbers"),
        (
            {"recode": {"clinic": {"smokes": {"Ja": True}}}},
            '\'Ja\': \'True\' is not text or a number, such as {"clinic": {"smokes": {"Ja": "yes", "?": null}}}',
        ),
        (
            {"recode": {"clinic": {"smokes": ["Ja"]}}},
            "recode: 'clinic': 'smokes': \"['Ja']\" is not a JSON object, such as",
        ),
        ({"levls": {}}, "unknown key 'levls'; did you mean 'levels'?"),
        ({"zzz": 1}, "unknown key 'zzz'; remarks have the key 'comment'"),
        ({"sheet": 3}, 'sheet: \'3\' is not text or a JSON object, such as {"clinic": "Data"}'),
    ],
)
def test_a_declaration_that_fits_nothing_is_one_line(folder, about, message):
    (folder / "about.json").write_text(json.dumps(about))
    with pytest.raises(BadInput) as caught:
        read_folder(folder)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def described(folder, asked, policy=None):
    """A remote owner's description of the clinic's rows: the owner and the coordinator each have an about.json."""
    own = declarations(read_about(folder))
    guard = Guard(policy or Policy(), own, remote=True, log=lambda line: None)
    service = SiloService("clinic", folder / "clinic.csv", policy or Policy(), guard)
    try:
        return service.describe(declarations(asked)).profile.columns
    finally:
        service.close()


def test_an_owner_declares_its_own_recoding_and_units(folder):
    columns = described(folder, {"missing": ABOUT["missing"]})
    assert columns["smokes"].labels == ("no", "yes")
    assert columns["weight"].size == round(np.log10(75), 1)
    with pytest.raises(NotAllowed, match="refuses the declared recode"):
        described(folder, {"recode": {"clinic": {"smokes": {"Ja": "JA"}}}, "missing": ABOUT["missing"]})


def test_under_a_policy_a_coordinator_recodes_only_as_the_owner_declares(folder):
    policy = Policy(rows=20)
    assert described(folder, ABOUT, policy)["smokes"].labels == ("no", "yes")
    elsewhere = ABOUT | {"scale": {"clinic": {"weight": 0.5}, "hospital": {"age": 3.0}}}
    assert described(folder, elsewhere, policy)["smokes"].labels == ("no", "yes"), "other silos are not its concern"
    with pytest.raises(NotAllowed, match="refuses the declared recode"):
        described(folder, ABOUT | {"recode": {"clinic": {"smokes": {"Ja": "JA"}}}}, policy)
