"""Time-series learners from end to end: files, both engines, errors, and statements on privacy."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms.parameters.network_json import network_as_json
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.flows.learn import learn
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tracking.outputs import FILES
from tests.flows.commands import run
from tests.flows.test_learn import inline, same


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """A folder of three silos with two series each, and structures of their own."""
    folder = tmp_path_factory.mktemp("data") / "series"
    write_folder(folder, dynamic(variables=4, silos=3, rows=60, series=2, own_structures=True, seed=2))
    return folder


@pytest.mark.parametrize(
    ("algorithm", "labels", "params"),
    [
        ("secure-boss", 0, {"weights": "own", "lags": 1}),
        pytest.param("secure-boss", 2, {"lags": "auto"}, marks=pytest.mark.slow),
        pytest.param("fed-pc", 0, {"lags": 1}, marks=pytest.mark.slow),
    ],
)
def test_learners_of_windows_are_the_same_on_both_engines(server, tmp_path, algorithm, labels, params):
    folder = tmp_path / "data"
    write_folder(folder, dynamic(variables=4, silos=3, rows=90, series=2, labels=labels, seed=2))
    settings = {"algorithm": algorithm, "params": params}
    finished = learn(LearnSettings(data=str(folder), out=str(tmp_path / "out"), seed=3, **settings))
    alone = inline(folder, **settings)
    # Messages with masks contain the run's id, so their bytes differ by its length.
    sent = [[row["bytes_up"] for row in one.rounds] for one in (finished.result, alone)]
    assert sent[0] == sent[1]
    assert finished.result.structure.weights.tobytes() == alone.structure.weights.tobytes()
    assert finished.result.structure.lagged.tobytes() == alone.structure.lagged.tobytes()
    assert finished.result.structure.lagged.any()
    assert network_as_json(finished.result.parameters.network) == network_as_json(alone.parameters.network)
    errors = [one.parameters.forecasts for one in (finished.result, alone)]
    assert errors[0].model.tobytes() == errors[1].model.tobytes()


@pytest.mark.usefixtures("rendered")
def test_a_run_leaves_all_its_files(series, capsys):
    code, out, err = run(
        capsys,
        *("learn", series, "-a", "pfdbnl", "-p", "lags=auto", "-p", "rounds=5", "--engine", "inline", "-v"),
        "--out",
        "r",
    )
    assert code == 0, err
    assert "the silos' own structures: " in out
    folder = Path("r")
    assert {path.name for path in folder.iterdir()} == {*FILES} - {
        *("model.bif", "averaged.csv", "changes.csv", "posterior.csv", "posterior_graphs.csv"),
        *("survival.csv", "survival.png"),
        *("intensities.csv", "delays.png"),  # of event sequences
        "targets.csv",  # of experiments whose targets are not known
    }
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["lags"] == json.loads((folder / "config.json").read_text())["params"]["lags"] >= 1
    assert metrics["outcome"] == "out of rounds"
    assert metrics["forecast_mse"] < metrics["persistence_mse"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "params"),
    [("fdbnl", {"lags": "auto"}), ("pfdbnl", {"rounds": 5, "participants": 2}), ("dynotears", {"rounds": 20})],
)
def test_prefect_and_dask_give_what_inline_gives_bit_for_bit(server, series, tmp_path, algorithm, params):
    settings = {"algorithm": algorithm, "params": params}
    finished = learn(LearnSettings(data=str(series), out=str(tmp_path / "out"), seed=3, **settings))
    alone = inline(series, **settings)
    assert same(finished.result, alone)
    assert finished.result.structure.lagged.tobytes() == alone.structure.lagged.tobytes()
    assert finished.result.averaged
    assert {silo: own.lagged.tobytes() for silo, own in finished.result.local_structures.items()} == {
        silo: own.lagged.tobytes() for silo, own in alone.local_structures.items()
    }
    if algorithm == "fdbnl":
        assert_tracked(finished)


def assert_tracked(finished):
    """Check the names of the figures in MLflow, and that the model it keeps forecasts."""
    from fedbnsl.tracking.mlflow.store import open_client, tracking_uri

    client = open_client(tracking_uri())
    run = client.get_run(finished.tracking_url.partition("?")[0].rpartition("/")[2])
    for name in ("lags", "spectral_radius", "forecast_mse", "persistence_mse", "shd", "lagged_shd"):
        assert run.data.metrics[name] == finished.result.metrics[name]
    first = client.list_artifacts(run.info.run_id, "rounds")[0]
    assert first.path == "rounds/structure-0001.json"


BAD = {
    "more lags than rows": (["-a", "fdbnl", "-p", "lags=40"], "silo silo-1: fewer rows than lags + 2"),
    "no lags": (["-a", "fdbnl", "-p", "lags=0"], "parameter lags is 0: it must be 1 or more"),
    "words for lags": (["-a", "fdbnl", "-p", "lags=many"], "many"),
    "too many participants": (["-a", "pfdbnl", "-p", "participants=4"], "participants is 4: there are 3 silos"),
    "learner of rows": (
        ["-a", "fed-sparse"],
        "fed-sparse learns from continuous data, and series is time-series: use secure-linear or pfdbnl or fdbnl",
    ),
    "not private": (["-a", "fdbnl", "--epsilon", "1"], "fdbnl is not private"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_refused_is_said_in_one_line(series, capsys, tmp_path, case):
    options, said = BAD[case]
    code, _, err = run(capsys, "learn", series, *options, "--engine", "inline", "--out", tmp_path / "out")
    assert code == 2
    assert said in err
    assert not (tmp_path / "out").exists()


def test_lags_cannot_be_chosen_on_series_too_short(capsys, tmp_path):
    folder = tmp_path / "short"
    folder.mkdir()
    for silo in ("a", "b"):
        (folder / f"{silo}.csv").write_text("series,time,x,y\n1,0,1,2\n1,1,2,1\n2,0,3,5\n2,1,5,4\n")
    for name in ("fdbnl", "pfdbnl", "var", "secure-sum"):
        code, _, err = run(
            capsys, *("learn", folder, "-a", name, "-p", "lags=auto", "--engine", "inline", "--out", tmp_path / "out")
        )
        assert code == 2
        assert "silo a: fewer rows than lags + 2" in err
        assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A folder of long series: enough for a private run."""
    folder = tmp_path_factory.mktemp("data") / "long"
    write_folder(folder, dynamic(variables=3, silos=3, rows=4000, seed=4))
    return folder


@pytest.mark.parametrize(("unit", "said"), [("window", "one window of lags + 1 rows"), ("row", "one row of a series")])
def test_what_one_record_is_stands_with_every_epsilon(long, capsys, tmp_path, unit, said):
    options = ("--epsilon", "9", "-p", f"protect={unit}", "-p", "known_scale=2", "--engine", "inline")
    code, out, err = run(capsys, "learn", long, "-a", "secure-sum", *options, "--out", tmp_path / "out")
    assert code == 0, err
    assert f"one record is {said}" in " ".join(out.split())
    assert f"one record is {said}" in (tmp_path / "out" / "report.html").read_text()


def test_the_plan_counts_windows_and_the_attack_is_refused(long, capsys):
    code, out, _ = run(capsys, "privacy", "plan", long, "--epsilon", "5")
    assert code == 0
    assert "one record is one window of lags + 1 rows" in out
    assert "dp-fed-sparse" not in out.partition("Noise:")[0]
    code, _, err = run(capsys, "attack", "reconstruct", long)
    assert code == 2
    assert "continuous data with independent rows, not time-series" in err


def test_a_pooled_baseline_keeps_the_truths_of_the_silos(series):
    data = read_folder(series)
    result = inline(series, algorithm="dynotears", params={"rounds": 3})
    assert result.averaged
    assert result.metrics["true_edges"] == np.mean([np.count_nonzero(own[0]) for own in data.silo_weights.values()])
