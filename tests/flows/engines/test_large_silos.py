"""Runs on silos read in passes and on the same rows in memory give the same result, on both engines."""

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn as learn_here
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.learn import learn
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo import service
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService


def in_parts(folder, data: FederatedData, name: str) -> None:
    """Put a folder of Parquet parts in the place of the file of one silo."""
    write_folder(folder, data, "parquet")
    whole = pd.read_parquet(folder / f"{name}.parquet")
    (folder / f"{name}.parquet").unlink()
    (folder / "about.json").unlink()
    (folder / name).mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(whole)), 4)):
        whole.iloc[rows].to_parquet(folder / name / f"{number}.parquet", index=False)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """Data of three silos in memory, and a folder of them with one silo in parts."""
    data = homogeneous(variables=6, silos=3, rows=300, seed=4)
    folder = tmp_path_factory.mktemp("large") / "numbers"
    in_parts(folder, data, "silo-2")
    return data, folder


def run(data, **given):
    settings = LearnSettings(data="here", **given)
    return run_inline(job_inline(settings, "alone", data), data)


def same(one, other) -> None:
    np.testing.assert_allclose(one.structure.weights, other.structure.weights, rtol=1e-9, atol=1e-12)
    assert one.structure.adjacency.any()
    assert [finding.name for finding in one.diagnosed.findings] == [f.name for f in other.diagnosed.findings]
    if one.structure.kind == "dag":
        for name in ("intercepts", "variances"):
            mine, whole = (np.asarray(getattr(r.parameters.network, name)) for r in (one, other))
            np.testing.assert_allclose(mine, whole, rtol=1e-9)


def test_a_run_with_parts_gives_what_it_gives_in_memory(numbers):
    data, folder = numbers
    read = read_folder(folder)
    assert read.schema.streamed == ("silo-2",)
    same(run(read), run(data))


@pytest.mark.slow
def test_both_engines_learn_the_same_from_parts(server, numbers, tmp_path):
    data, folder = numbers
    finished = learn(LearnSettings(data=str(folder), out=str(tmp_path / "out")))
    alone = run(read_folder(folder))
    np.testing.assert_array_equal(finished.result.structure.weights, alone.structure.weights)
    same(finished.result, run(data))


@pytest.mark.parametrize("algorithm", ["secure-boss", "fed-pc"])
def test_labels_in_parts_give_what_they_give_in_memory(tmp_path, algorithm):
    data = discrete(variables=5, silos=2, rows=800, seed=3)
    in_parts(tmp_path / "labels", data, "silo-1")
    found, whole = run(read_folder(tmp_path / "labels"), algorithm=algorithm), run(data, algorithm=algorithm)
    np.testing.assert_array_equal(found.structure.weights, whole.structure.weights)
    assert found.structure.adjacency.any()
    assert [finding.name for finding in found.diagnosed.findings] == [f.name for f in whole.diagnosed.findings]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"algorithm": "fed-sparse"},
            "fed-sparse needs every silo's rows in memory.*'silo-2' .* streams.*secure-linear",
        ),
        ({"bootstrap": 5}, "^bootstrap: resamples need rows in memory.*silo 'silo-2'"),
        ({"algorithm": "notears"}, "in memory"),
    ],
)
def test_what_needs_the_rows_in_memory_is_refused_in_one_line(numbers, given, line):
    with pytest.raises(BadInput, match=line) as refused:
        learn_here(str(numbers[1]), engine="inline", **given)
    assert "\n" not in str(refused.value)


def test_columns_are_held_against_masked_sums_once(numbers, monkeypatch):
    _, folder = numbers
    schema = read_folder(folder).schema
    checked = []
    monkeypatch.setattr(service.masked_round, "check_range", lambda *given: checked.append(given))
    silo = SiloService("silo-2", folder / "silo-2")
    terms = RunTerms("run", registry.pack(registry.specify("secure-linear", {})), schema, 0)
    for _ in range(2):
        silo._check_range(terms.algorithm(), terms)
    assert len(checked) == 1


@pytest.mark.parametrize("engine", ["inline", pytest.param("prefect", marks=pytest.mark.slow)])
def test_series_in_parts_give_what_one_file_gives_on_both_engines(tmp_path, engine):
    """The runs are masked and include diagnosis and resamples."""
    data = dynamic(4, 2, 120, 3)
    write_folder(tmp_path / "whole", data, "parquet")
    in_parts(tmp_path / "parts", data, "silo-2")
    found = [
        learn_here(tmp_path / name, engine=engine, bootstrap=4, secure=True, out=tmp_path / f"{name}-run").result
        for name in ("whole", "parts")
    ]
    for one in found:
        assert one.algorithm == "secure-linear"
    np.testing.assert_array_equal(found[0].structure.lagged, found[1].structure.lagged)
    np.testing.assert_array_equal(found[0].structure.weights, found[1].structure.weights)
    assert found[0].diagnosed == found[1].diagnosed
