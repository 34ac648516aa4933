"""One file with the rows of all silos: `--by COLUMN` gives the same result as one file for each silo."""

import json

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn, prepare
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches
from fedbnsl.data.folder.about import Reading, declarations
from fedbnsl.data.folder.folder import read_folder, silo_files
from fedbnsl.flows.cli.main import main
from fedbnsl.tasks.silo.guard import Guard
from fedbnsl.tasks.silo.policy import NotAllowed


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The same rows as a file for each of three unequal silos, and as one file in another order of rows."""
    home = tmp_path_factory.mktemp("by")
    data = prepare("homogeneous", home / "files", variables=4, silos=3, rows=240, seed=1005)
    frames = [pd.read_csv(path).iloc[: 40 + 15 * k] for k, path in enumerate(silo_files(home / "files").values())]
    (home / "files" / "about.json").write_text('{"kind": "continuous"}')
    for (silo, path), frame in zip(silo_files(home / "files").items(), frames, strict=True):
        frame.assign().to_csv(path, index=False)
        frame["hospital"] = silo
    (home / "one").mkdir()
    whole = pd.concat(frames).sort_values("hospital", kind="stable")
    order = np.argsort(np.concatenate([np.arange(len(frame)) for frame in frames]), kind="stable")
    whole.iloc[order].to_csv(home / "one" / "all.csv", index=False)
    (home / "one" / "truth.csv").write_text((home / "files" / "truth.csv").read_text())
    assert data.truth is not None
    return home


@pytest.mark.parametrize("algorithm", ["secure-linear", "fed-sparse", "notears"])
def test_one_file_gives_the_result_of_a_file_for_each_silo(study, algorithm):
    expected = learn(study / "files", algorithm)
    for data in (study / "one" / "all.csv", study / "one"):
        found = learn(data, algorithm, by="hospital")
        assert found.weights.equals(expected.weights)
        assert found.result.schema.rows == expected.result.schema.rows
        assert found.result.metrics["shd"] == expected.result.metrics["shd"], "the truth beside the file counts"
        if algorithm != "notears":
            assert found.result.schema.aside == {"hospital": "names the silo of each row (--by)"}


def run(*words, code=0):
    with pytest.raises(SystemExit) as done:
        main([*map(str, words)])
    assert (done.value.code or 0) == code


@pytest.mark.slow
def test_the_other_engine_and_later_commands_find_the_silos_again(study, tmp_path, capsys):
    out, file = tmp_path / "run", study / "one" / "all.csv"
    run("learn", file, "--by", "hospital", "-a", "secure-linear", "--secure", "--quiet", "--out", out)
    weights = learn(study / "files", "secure-linear").weights
    written = pd.read_csv(out / "structure.csv")
    assert len(written) == np.count_nonzero(weights)
    names, found = list(weights.columns), []
    learn(study / "files", "secure-linear", out=tmp_path / "apart")
    for home, data in ((out, file), (tmp_path / "apart", study / "files")):
        capsys.readouterr()
        run("effect", home, "--treatment", names[0], "--outcome", names[-1], "--data", data)
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]


def test_rows_of_one_large_file_are_read_in_passes(study, monkeypatch):
    expected = read_folder(study / "one", Reading(by="hospital"))
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 100)
    found = read_folder(study / "one", Reading(by="hospital"))
    assert found.schema.streamed == found.schema.silos
    for silo, table in found.tables.items():
        np.testing.assert_array_equal(np.concatenate([*table]), expected.tables[silo])


def test_an_error_names_the_line_in_the_whole_file(tmp_path):
    rows = [f"{k},{k * k},{'ab'[k % 2]}" for k in range(12)]
    rows[4], rows[7] = "ten,16,a", "ten,49,b"
    (tmp_path / "all.csv").write_text("\n".join(["x,y,site", *rows]))
    (tmp_path / "about.json").write_text('{"kind": "continuous"}')
    with pytest.raises(BadInput, match=r"all.csv: line 6, column 'x': 'ten' is not a number"):
        read_folder(tmp_path, Reading(by="site"))
    with pytest.raises(BadInput, match=r"all.csv: line 9, column 'x': 'ten' is not a number"):
        read_folder(tmp_path, Reading(by="site", silos=("b",)))
    (tmp_path / "all.csv").write_text("\n".join(["x,y,site", *rows[:3], "7,,a", "8,9,", *rows[9:]]))
    assert "left out: 1 row without a cell in site" in read_folder(tmp_path, Reading(by="site")).notes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "hospitl"}, "by: column 'hospitl' is missing; did you mean 'hospital'?"),
        ({}, r"name the column with the silo of each row: by hospital"),
        ({"by": "hospital", "epsilon": 5.0}, "by cannot be used with an ε"),
        ({"by": "hospital", "epsilon": 5.0}, "prepare split OUT --table FILE --by COLUMN`"),
        ({"by": "hospital", "ignore": ("hospital",)}, "by and ignore both name the column 'hospital'"),
        ({"by": "hospital", "silos": ("here",)}, "there is no silo 'here'; available: silo-1, silo-2, silo-3"),
    ],
)
def test_what_cannot_be_is_one_line(study, options, message):
    with pytest.raises(BadInput) as caught:
        learn(study / "one" / "all.csv", "secure-sum", **options)
    assert message in str(caught.value)


def test_a_coordinator_cannot_select_rows_of_another_owner():
    with pytest.raises(NotAllowed, match="cannot select rows by a column"):
        Guard(remote=True).declaration("clinic", declarations({}, Reading(by="diagnosis")))


def test_a_single_file_with_a_column_of_sites_is_offered_as_silos(study, capsys):
    (study / "one" / "about.json").write_text(json.dumps({"kind": "mixed"}))
    run("inspect", study / "one")
    assert "hospital may name the silo of each row: --by hospital" in " ".join(capsys.readouterr().out.split())
    run("inspect", study / "one", "--by", "hospital")
    text = " ".join(capsys.readouterr().out.split())
    assert "may name the silo" not in text
    assert "silo-3" in text


@pytest.mark.parametrize(
    ("cell", "fault"), [("abc", "'abc' is not a number"), ("inf", "'inf' is not finite"), ("1e400", "not finite")]
)
def test_a_bad_cell_names_its_silo(tmp_path, cell, fault):
    rows = ["site,x,y", *(f"{'lab' if i % 2 else 'ward'},{i * 7 % 11}.5,{i * 3 % 7}.25" for i in range(60))]
    rows[6] = f"lab,{cell},2.5"
    (tmp_path / "all.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(BadInput, match=rf"^silo lab: .*all\.csv: line 7, column 'x': .*{fault}"):
        read_folder(tmp_path / "all.csv", Reading(by="site"))
