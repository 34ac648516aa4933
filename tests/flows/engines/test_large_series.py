"""Runs on series read in passes and on the same series in memory give the same result, on both engines."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn, load
from fedbnsl.algorithms.diagnosis import exchange, series_rows
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches
from fedbnsl.data.folder import table as silo_table
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.dynamic import dynamic


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two silos with series of several stretches, one in Parquet and one in CSV."""
    found = tmp_path_factory.mktemp("series") / "study"
    write_folder(found, dynamic(5, 2, 700, 3), "parquet")
    (found / "about.json").unlink()
    for name in ("silo-1", "silo-2"):
        rows = pd.read_parquet(found / f"{name}.parquet")
        rows["time"] += 2 * (rows["time"] >= 300)
        rows["series"] = np.where(rows["time"] >= 500, "late", "early")
        if name == "silo-2":
            (found / f"{name}.parquet").unlink()
            rows.to_csv(found / f"{name}.csv", index=False)
        else:
            rows.to_parquet(found / f"{name}.parquet", index=False)
    return found


@pytest.fixture
def in_passes(monkeypatch):
    """Nothing fits into memory, and chunks have a few rows."""

    def limit() -> None:
        monkeypatch.setenv(batches.LIMIT_VARIABLE, "0")  # for the processes of the other engine
        monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 0)
        monkeypatch.setattr(silo_table, "CHUNK_CELLS", 5 * 37)
        monkeypatch.setattr(silo_table, "MIN_CHUNK_ROWS", 37)

    return limit


def same(one, other) -> None:
    np.testing.assert_allclose(one.structure.weights, other.structure.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.structure.lagged, other.structure.lagged, rtol=1e-9, atol=1e-12)
    assert one.structure.lagged.any()
    assert [finding.message for finding in one.diagnosed.findings] == [f.message for f in other.diagnosed.findings]


@pytest.mark.parametrize("engine", ["inline", pytest.param("prefect", marks=pytest.mark.slow(60))])
def test_series_in_passes_give_what_they_give_in_memory(folder, in_passes, tmp_path, engine):
    """The runs are masked and include parameters and diagnosis.

    Workers inherit the environment variables of the program at its start, so Prefect and Dask run in a separate
    program.
    """
    whole = learn(folder, engine="inline", bootstrap=0, secure=True, out=tmp_path / "whole").result
    in_passes()
    assert read_folder(folder).schema.streamed == ("silo-1", "silo-2")
    if engine == "prefect":
        command = [
            sys.executable,
            "-m",
            "fedbnsl.flows.cli.main",
            "learn",
            folder,
            "--secure",
            "--out",
            tmp_path / "out",
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=100)
        found = load(tmp_path / "out").result
    else:
        found = learn(folder, engine=engine, secure=True, out=tmp_path / "out").result
    assert found.algorithm == "secure-linear"
    same(found, whole)
    np.testing.assert_allclose(found.parameters.network.intercepts, whole.parameters.network.intercepts, atol=1e-9)
    assert any("silo-1: it reads its series in passes" in note for note in found.notes)
    assert "reads its series in passes" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("algorithm", ["secure-sum", "var", "fdbnl"])
def test_learners_of_sums_read_series_in_passes(folder, in_passes, algorithm):
    whole = learn(folder, algorithm, engine="inline", bootstrap=0, diagnose=False).result
    in_passes()
    found = learn(folder, algorithm, engine="inline", bootstrap=0, diagnose=False).result
    np.testing.assert_allclose(found.structure.lagged, whole.structure.lagged, rtol=1e-6, atol=1e-9)
    assert found.structure.lagged.any()


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"algorithm": "fed-pc"}, "fed-pc needs every silo's rows in memory.*'silo-1' .* streams.*secure-linear"),
        ({"algorithm": "pfdbnl"}, "pfdbnl needs every silo's rows in memory"),
        ({"bootstrap": 5}, "^bootstrap: resamples need rows in memory"),
    ],
)
def test_what_needs_series_in_memory_is_refused_in_one_line(folder, in_passes, given, line):
    in_passes()
    with pytest.raises(BadInput, match=line) as refused:
        learn(folder, engine="inline", **given)
    assert "\n" not in str(refused.value)


def changing(folder):
    """Two silos of 3,000 rows in which the effect of x on y becomes smaller half way; silo-2 has outliers late."""
    folder.mkdir()
    rng = np.random.default_rng(5)
    for silo in ("silo-1", "silo-2"):
        x, n = np.zeros((3000, 3)), 3000
        for t in range(1, n):
            x[t, 0] = 0.4 * x[t - 1, 0] + rng.normal()
            x[t, 1] = (0.9 if t < n / 2 else 0.3) * x[t, 0] + 0.4 * x[t - 1, 1] + rng.normal()
            x[t, 2] = 0.5 * x[t, 1] - 0.4 * x[t - 1, 2] + rng.normal()
        if silo == "silo-2":
            x[n // 2 :, 2] += 40 * (rng.random(n // 2) < 0.03)
        pd.DataFrame(x, columns=["x", "y", "z"]).assign(time=np.arange(n)).to_csv(folder / f"{silo}.csv", index=False)
    return folder


def test_a_sample_of_the_windows_is_diagnosed(in_passes, monkeypatch, tmp_path):
    """What is only in the second half is found in few windows, too; the graph is that of all windows."""
    folder = changing(tmp_path / "data")
    whole = learn(folder, "secure-linear", engine="inline", bootstrap=0).result
    in_passes()
    monkeypatch.setattr(series_rows, "SAMPLE_CELLS", 0)
    monkeypatch.setattr(series_rows, "MIN_SAMPLE_ROWS", 1000)
    compared, sums = [], exchange.fluctuations
    monkeypatch.setattr(exchange, "fluctuations", lambda rows, *given: compared.append(len(rows)) or sums(rows, *given))
    found = learn(folder, "secure-linear", engine="inline").result
    lags, step = found.structure.lags, series_rows.spacing(3000 - found.structure.lags, 1000)
    assert compared == [-(-(3000 - lags) // step)] * 2
    assert compared[0] <= 1000
    assert {"weights change", "outliers"} <= {one.name for one in whole.diagnosed.findings}
    assert [f.name for f in found.diagnosed.findings] == [f.name for f in whole.diagnosed.findings]
    assert [f.silos for f in found.diagnosed.findings] == [f.silos for f in whole.diagnosed.findings]
    np.testing.assert_allclose(found.structure.lagged, whole.structure.lagged, rtol=1e-9, atol=1e-12)
