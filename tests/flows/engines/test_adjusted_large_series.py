"""Advice on series that are read in passes: its options work there, and give what they give in memory."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn, load
from fedbnsl.algorithms.diagnosis import findings
from fedbnsl.algorithms.diagnosis.findings import ADD_ROWS, COMPARE_SILOS, WEIGHTS_DIFFER
from fedbnsl.algorithms.diagnosis.series_findings import CHANGE, COMPARE_HALVES, UNIT_ROOT
from fedbnsl.data.folder import batches
from fedbnsl.data.folder import table as silo_table
from fedbnsl.flows.cli.main import main

ADVISED = re.compile(r"--(detrend|difference|deseasonalise)(?: (\d+))?")
PAST = 60


def drawn(rng, n, slope=0.5, later=None):
    """Series of x → y → z, each with an effect of its own past; the effect of x may change half way."""
    x = np.zeros((n, 3))
    for t in range(1, n):
        weight = slope if later is None or t < n / 2 else later
        x[t, 0] = 0.4 * x[t - 1, 0] + rng.normal()
        x[t, 1] = weight * x[t, 0] + 0.4 * x[t - 1, 1] + rng.normal()
        x[t, 2] = 0.5 * x[t, 1] - 0.4 * x[t - 1, 2] + rng.normal()
    return x + rng.normal(0, 5, 3)


def frame(table):
    """The rows with a gap in time and a further series of 30 rows, of which a season of 24 rows has one period."""
    n, time = len(table), np.arange(len(table))
    time = time + 3 * (time > n // 4)
    made = pd.DataFrame(table, columns=["x", "y", "z"]).assign(series="long", time=time)
    short = made.iloc[: min(n // 2, 30)].assign(series="short", time=np.arange(min(n // 2, 30)))
    return pd.concat([made, short], ignore_index=True)[["series", "time", "x", "y", "z"]]


def rising(rng, n, silo):
    return drawn(rng, n) + np.linspace(0, 9, n)[:, None] * [1, 0, -1]


def seasonal(rng, n, silo):
    return drawn(rng, n) + 3 * np.sin(2 * np.pi * np.arange(n) / 24)[:, None] * [1, 1, 0]


def walking(rng, n, silo):
    return np.cumsum(drawn(rng, n), axis=0)


def changing(rng, n, silo):
    return drawn(rng, n, 0.9, 0.1)


def differing(rng, n, silo):
    return drawn(rng, n, 0.7 if silo else -0.2)


REMOVED = {"trend": rising, "season": seasonal, UNIT_ROOT: walking}
KEPT = {
    (CHANGE,): (changing, 1500, COMPARE_HALVES),
    WEIGHTS_DIFFER: (differing, 900, COMPARE_SILOS),
    ("few rows",): (lambda rng, n, silo: drawn(rng, n), 200, ADD_ROWS),
}


def written(folder, make, rows=900):
    folder.mkdir()
    rng = np.random.default_rng(5)
    for silo in range(2):
        made = frame(make(rng, rows, silo))
        if silo:
            made.to_csv(folder / "silo-1.csv", index=False)
        else:
            made.to_parquet(folder / "silo-0.parquet", index=False)
    return folder


@pytest.fixture
def in_passes(monkeypatch):
    """Nothing fits into memory, and chunks have 37 rows."""

    def limit() -> None:
        monkeypatch.setenv(batches.LIMIT_VARIABLE, "0")  # for the processes of the other engine
        monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 0)
        monkeypatch.setattr(silo_table, "CHUNK_CELLS", 3 * 37)
        monkeypatch.setattr(silo_table, "MIN_CHUNK_ROWS", 37)

    return limit


def run(folder, out, *options):
    """A run by the command line in this process."""
    with pytest.raises(SystemExit) as left:
        main(["learn", str(folder), "--engine", "inline", "--bootstrap", "0", "--out", str(out), *options])
    assert left.value.code == 0
    return load(out).result


def advised(found, name):
    """The options in the advice of the finding of this name."""
    (advice,) = [one.advice for one in found.diagnosed.findings if one.name == name]
    options = [[f"--{option}", value] for option, value in ADVISED.findall(advice)]
    assert options, advice
    return [word for option in options for word in option if word]


@pytest.mark.parametrize("name", REMOVED)
def test_advised_options_work_in_passes_as_in_memory(name, in_passes, tmp_path):
    folder = written(tmp_path / "data", REMOVED[name])
    keep = ("--deseasonalise", "0")
    options = advised(run(folder, tmp_path / "memory", *keep), name)
    whole = run(folder, tmp_path / "memory-again", "--secure", *options)
    in_passes()
    first = run(folder, tmp_path / "first", *keep)
    assert any("reads its series in passes" in note for note in first.notes)
    assert advised(first, name) == options
    found = run(folder, tmp_path / "again", "--secure", *options)
    assert name not in [one.name for one in found.diagnosed.findings]
    same(found, whole)
    if name == "season":  # which is subtracted without an option, too
        same(run(folder, tmp_path / "default", "--secure"), whole)


def same(found, whole):
    np.testing.assert_allclose(found.structure.weights, whole.structure.weights, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.structure.lagged, whole.structure.lagged, rtol=0, atol=1e-9)
    assert found.structure.lagged.any()
    assert [one.message for one in found.diagnosed.findings] == [one.message for one in whole.diagnosed.findings]
    models = [one.parameters.network for one in (found, whole)]
    assert models[0].adjustment == models[1].adjustment
    assert models[0].adjustment
    past = drawn(np.random.default_rng(8), PAST)
    np.testing.assert_allclose(*(model.forecast(past) for model in models), atol=1e-8)


@pytest.mark.slow(60)
def test_the_other_engine_adjusts_series_in_passes_too(in_passes, tmp_path):
    """Workers have the surroundings of the program at its start, so Prefect and Dask run in a program of their own."""
    folder = written(tmp_path / "data", seasonal)
    options = ["--detrend", "--secure"]  # the season is found
    whole = run(folder, tmp_path / "memory", *options)
    in_passes()
    command = [sys.executable, "-m", "fedbnsl.flows.cli.main", "learn", folder, "--bootstrap", "0", *options]
    subprocess.run([*command, "--out", tmp_path / "out"], check=True, capture_output=True, timeout=100)
    found = load(tmp_path / "out").result
    assert any("reads its series in passes" in note for note in found.notes)
    same(found, whole)
    assert "seasons of 24 rows subtracted in each series" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("names", KEPT)
def test_no_advice_names_an_option_that_series_in_passes_refuse(names, in_passes, tmp_path, monkeypatch):
    make, rows, instead = KEPT[names]
    folder = written(tmp_path / "data", make, rows)
    if names == ("few rows",):
        monkeypatch.setattr(findings, "ROWS_PER_PARAMETER", 1e6)
    in_passes()
    for algorithm in ("secure-linear", "auto"):
        run(folder, tmp_path / algorithm, "--algorithm", algorithm)
        said = json.loads((tmp_path / algorithm / "config.json").read_text())["findings"]
        (advice,) = [one["advice"] for one in said if one["name"] in names]
        assert advice == instead
        assert "--" not in advice


def test_the_options_in_python_are_in_the_basis_of_the_result(in_passes, tmp_path):
    folder = written(tmp_path / "data", seasonal)
    in_passes()
    found = learn(folder, engine="inline", deseasonalise=24, difference=True).result
    assert found.structure.lagged.any()
    assert "differences of consecutive rows" in found.parameters.how


def test_advice_keeps_what_was_removed_and_leaves_out_silos_with_short_series(in_passes, tmp_path):
    """A further silo has 40 rows: not two periods of 24."""
    folder = written(tmp_path / "data", lambda rng, n, silo: rising(rng, n, silo) + seasonal(rng, n, silo))
    frame(drawn(np.random.default_rng(6), 40)).query("series == 'long'").to_csv(folder / "silo-2.csv", index=False)
    in_passes()
    options, seen = [], []
    for attempt in range(3):
        found = run(folder, tmp_path / str(attempt), *options)
        advice = {one.name: one.advice for one in found.diagnosed.findings if ADVISED.search(one.advice)}
        if not advice:
            break
        said = advice["season" if "season" in advice else "trend"].removeprefix("Learn again with ")
        seen.append(said.partition(". The series of all other silos are too short for it.")[0].rstrip("."))
        options += seen[-1].split()
    assert seen == ["--deseasonalise 24 --silos silo-0,silo-1", "--detrend --deseasonalise 24"]
    assert not advice
