"""`fedbnsl features`: the neighbours of a target as a table and as a file; an invalid target gives one line."""

import pytest

from fedbnsl import learn as learn_api
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.networks.lucas import TARGET, lucas
from tests.flows.commands import run


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "study"
    write_folder(folder, lucas("0", 4, 500, 2))
    return folder


TRUE = {"Smoking", "Genetics", "Coughing", "Fatigue", "Allergy"}


def test_the_features_of_lung_cancer(capsys, study, tmp_path):
    out = tmp_path / "out"
    code, said, err = run(capsys, "features", study, "--target", TARGET, "--engine", "inline", "--out", out, "--secure")
    assert code == 0, err
    assert "5 of 11 variables" in said
    rows = [line.split(",") for line in (out / "features.csv").read_text().splitlines()]
    assert rows[0] == ["variable", "role"]
    assert {name for name, _ in rows[1:]} == TRUE
    assert dict(map(tuple, rows[1:]))["Allergy"] == "spouse"
    assert all(f"{name}" in said for name in TRUE)
    assert (out / "structure.csv").exists()
    assert not (out / "model.bif").exists()
    assert "conditioning sets of 1" in err  # a line a level
    assert set(learn_api(study, "fed-pc").features(TARGET).all) == TRUE


@pytest.mark.slow
def test_over_dask_they_are_the_same(capsys, server, study, tmp_path):
    code, said, _ = run(capsys, "features", study, "--target", TARGET, "--out", tmp_path / "out")
    assert code == 0
    assert all(name in said for name in TRUE)


WRONG = {
    "target": (["--target", "Lung"], "there is no variable 'Lung': available: Smoking, "),
    "target not given": ([], "--target"),
    "algorithm without parents": (["--target", TARGET, "-a", "fed-fci"], "a PAG does not distinguish parents"),
    "algorithm without tests": (
        ["--target", TARGET, "-a", "fed-sparse", "--alpha", "0.1"],
        "--alpha is 0.1, but fed-sparse makes no independence tests",
    ),
    "alpha": (["--target", TARGET, "--alpha", "1.5"], "alpha is 1.5"),
    "kind of data": (["--target", TARGET, "-a", "fed-sparse"], "learns from continuous data"),
}


@pytest.mark.parametrize("engine", ["inline", "prefect"])
@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_line_and_nothing_is_written(capsys, study, tmp_path, words, said, engine):
    code, out, err = run(capsys, "features", study, *words, "--engine", engine, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
