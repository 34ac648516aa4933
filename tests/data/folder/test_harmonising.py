"""Silos that name columns and labels differently, and measure in other units: `rename`, and the draft of about.json."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches
from fedbnsl.data.folder.about import Reading
from fedbnsl.data.folder.draft import concept_of, harmonised
from fedbnsl.data.folder.folder import read_folder, silo_files
from fedbnsl.flows.cli.inspect import app

FIELD = Path(__file__).resolve().parents[4] / "shared" / "field" / "20-three-exports"


def frames(seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for silo, rows in {"north": 300, "south": 200, "west": 120}.items():
        age = rng.normal(60, 12, rows).round()
        frame = {
            "age": age,
            "sex": rng.choice(["female", "male"], rows, p=[0.35, 0.65]),
            "smoking": rng.choice(["never", "former", "current"], rows, p=[0.6, 0.25, 0.15]),
            "diabetes": np.where(rng.random(rows) < 0.2, "yes", "no"),
            "chol": (180 + 0.5 * age + rng.normal(0, 30, rows)).round(1),
            "height": rng.normal(170, 9, rows).round(1),
            "nyha": rng.choice(["1", "2", "3", "4"], rows, p=[0.5, 0.3, 0.15, 0.05]),
        }
        found[silo] = pd.DataFrame(frame)
    return found


SOUTH = {
    **{"age": "Alter", "sex": "Geschlecht", "smoking": "Raucher", "diabetes": "DM", "chol": "Cholesterin"},
    **{"height": "Körpergröße", "nyha": "NYHA_Stadium"},
}
WEST = {
    "age": "age_years",
    "sex": "SEX",
    "smoking": "smoker",
    "chol": "chol_mmol",
    "height": "HGT",
    "nyha": "nyha_class",
}
GERMAN = {
    "Geschlecht": {"female": "w", "male": "m"},
    "Raucher": {"never": "nie", "former": "ex", "current": "aktiv"},
    "DM": {"yes": "ja", "no": "nein"},
    "NYHA_Stadium": {"1": "I", "2": "II", "3": "III", "4": "IV"},
}


def exports(folder, seed=0):
    """Write three exports of one study, and return the tables before."""
    found = frames(seed)
    north, south, west = found["north"], found["south"].rename(columns=SOUTH), found["west"].rename(columns=WEST)
    for name, words in GERMAN.items():
        south[name] = south[name].map(words)
    west["SEX"] = west["SEX"].map({"female": 2, "male": 1})
    west["diabetes"] = west["diabetes"].map({"yes": 1, "no": 0})
    west["chol_mmol"] = west["chol_mmol"] / 38.67
    west["HGT"] = west["HGT"] / 100
    folder.mkdir(exist_ok=True)
    for name, frame in {"north": north.assign(ward="a"), "south": south, "west": west}.items():
        frame.sample(frac=1, axis=1, random_state=seed).to_csv(folder / f"{name}.csv", index=False)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_draft_makes_one_table_of_three_exports(tmp_path, seed):
    found = exports(tmp_path / "set", seed)
    with pytest.raises(BadInput, match="`fedbnsl inspect FOLDER --write` drafts common names"):
        read_folder(tmp_path / "set")
    assert CliRunner().invoke(app, [str(tmp_path / "set"), "--write"]).exit_code == 0
    data = read_folder(tmp_path / "set")
    assert set(data.schema.variables) == set(found["north"])
    assert data.schema.aside == {"ward": "left out by --ignore"}
    for silo, table in data.tables.items():
        for v, name in enumerate(data.schema.variables):
            levels = data.schema.levels.get(name)
            cells = table[:, v] if levels is None else np.array(levels)[table[:, v].astype(int)]
            expected = found[silo][name].astype(float if levels is None else str)
            assert np.allclose(cells, expected) if levels is None else (cells == expected).all(), (silo, name)
    assert data.schema.unit_of == {"age": "years", "chol": "mg/dl"}


def test_every_proposal_has_a_line(tmp_path):
    exports(tmp_path / "set")
    about, lines = harmonised(silo_files(tmp_path / "set"), {}, Reading())
    for silo, columns in about["recode"].items():
        for name in columns:
            assert any(line.startswith(f"{name} at {silo}: ") for line in lines)
    for name in {new for columns in about["rename"].values() for new in columns.values()}:
        assert any(line.startswith(f"{name}: one column under several names: ") for line in lines)
    assert any(line.startswith("ward: no column of the other silos matches it") for line in lines)
    assert any("as from mmol/l to mg/dl" in line for line in lines)


def test_what_is_declared_is_kept(tmp_path):
    exports(tmp_path / "set")
    own = {"rename": {"south": {"Alter": "years"}}, "recode": {"south": {"Geschlecht": {"w": "F"}}}}
    about, _ = harmonised(silo_files(tmp_path / "set"), {"rename": own["rename"]}, Reading())
    assert about["rename"]["south"]["Alter"] == "years"
    assert "age" not in about["rename"]["south"].values()


def test_harmonised_tables_need_no_draft(tmp_path):
    for silo, frame in frames().items():
        frame.to_csv(tmp_path / f"{silo}.csv", index=False)
    about, lines = harmonised(silo_files(tmp_path), {}, Reading())
    assert not set(about) & {"rename", "recode", "scale", "ignore"}
    assert not lines


@pytest.mark.parametrize("limit", [1, 1 << 28])
@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("private", [False, True])
def test_a_renamed_column_is_the_column(tmp_path, monkeypatch, form, limit, private):
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", limit)
    names = {"x": "Größe", "y": "x", "z": "label"}
    rng = np.random.default_rng(0)
    tables = {
        silo: pd.DataFrame(rng.normal(size=(40, 2)), columns=["x", "y"]).assign(z=["a", "b"] * 20) for silo in "ab"
    }
    about = {"kind": "mixed", "levels": {"z": ["a", "b"]}, "columns": {"x": "continuous", "y": "continuous"}}
    read = []
    for folder, given in (("plain", {}), ("renamed", {new: old for old, new in names.items()})):
        (tmp_path / folder).mkdir()
        for silo, table in tables.items():
            own = table.rename(columns=names) if given and silo == "b" else table
            write = own.to_csv if form == "csv" else own.to_parquet
            write(tmp_path / folder / f"{silo}.{form}", index=False)
        declared = about | ({"rename": {"b": given}} if given else {})
        (tmp_path / folder / "about.json").write_text(json.dumps(declared))
        data = read_folder(tmp_path / folder, Reading(private=private))
        read.append(
            (
                data.schema,
                [
                    np.concatenate([*np.atleast_3d([one])])
                    if isinstance(one, np.ndarray)
                    else np.concatenate(list(one))
                    for one in data.tables.values()
                ],
            )
        )
    assert read[0][0] == read[1][0]
    for one, other in zip(read[0][1], read[1][1], strict=True):
        assert np.array_equal(one.reshape(-1), other.reshape(-1))


@pytest.mark.parametrize(
    ("rename", "fault"),
    [
        ({"a": {"w": "v"}}, r"a\.csv: about\.json: rename: 'w' is not a column of the file"),
        ({"a": {"x": "y"}}, "rename: two columns would have the name 'y'"),
        ({"a": {"x": "v", "y": "v"}}, "rename: 'a': two columns would be 'v'"),
        ({"c": {"x": "v"}}, "rename: there is no silo 'c'"),
        ({"a": {"x": "v\n"}}, "rename: 'a': 'x': the column has a name with"),
    ],
)
def test_a_bad_renaming_is_one_line(tmp_path, rename, fault):
    for silo in "ab":
        (tmp_path / f"{silo}.csv").write_text("x,y\n1,2\n3,5\n2,2\n")
    (tmp_path / "about.json").write_text(json.dumps({"rename": rename}))
    with pytest.raises(BadInput, match=fault):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "concept"),
    [
        ("ALTER", "age"),
        ("AgeYears", "age"),
        ("RR_syst", "sbp"),
        ("Körpergröße [cm]", "height"),
        ("los_days", "los"),
        ("Date of birth", "birthdate"),
        ("NTproBNP", "bnp"),
        ("LVEF", "lvef"),
        ("x1", None),
        ("temperatur", "temperature"),
    ],
)
def test_the_meaning_of_a_name(name, concept):
    assert concept_of(name) == concept


@pytest.mark.parametrize(("own", "refused"), [("Ja Nein Ja", True), ("Ja Nein no", False), ("Ja Ja Ja", False)])
def test_labels_that_no_other_silo_has_are_refused(tmp_path, own, refused):
    for silo, labels in {"a": "yes no yes", "b": "no yes no", "c": own}.items():
        rows = [f"{label},{k}.5" for k, label in enumerate(labels.split())]
        (tmp_path / f"{silo}.csv").write_text("\n".join(["y,x", *rows, ""]))
    if refused:
        with pytest.raises(BadInput, match=r"c\.csv: column 'y': no other silo has one of its labels"):
            read_folder(tmp_path)
    else:
        assert "y" in read_folder(tmp_path).schema.levels


@pytest.mark.skipif(not FIELD.exists(), reason="the shared exports are not there")
def test_three_exports_of_hospitals(tmp_path):
    for path in FIELD.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert CliRunner().invoke(app, [str(tmp_path), "--write"]).exit_code == 0
    data = read_folder(tmp_path)
    truth = pd.read_csv(FIELD / "truth_after_renaming.csv")
    assert set(truth["source"]) | set(truth["target"]) == set(data.schema.variables)
    assert data.schema.levels["smoking"] == ("current", "former", "never")
    assert "scale" in data.about
    assert data.about["missing"]["chol"] == ["999"]
