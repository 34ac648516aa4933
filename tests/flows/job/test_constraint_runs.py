"""Constraint-based runs as users start them: both engines agree, with masks, with noise, with a lost silo."""

import numpy as np
import pytest

from fedbnsl.data.folder.folder import read_folder, silo_files, write_folder
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.learn import learn, learn_flow
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo.ledger import ledger_path
from tests.flows.owners import owners_of


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """A folder of four silos of 500 rows over six discrete variables."""
    folder = tmp_path_factory.mktemp("data") / "four"
    write_folder(folder, discrete(variables=6, silos=4, rows=500, seed=2))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"secure": True}, {"epsilon": 5.0, "params": {"insecure_seed": 4}}])
def test_both_engines_learn_the_same(server, four, tmp_path, given):
    given = {"data": str(four), "algorithm": "fed-pc", **given}
    finished = learn(LearnSettings(out=str(tmp_path / "out"), **given))
    data = read_folder(four)
    alone = run_inline(job_inline(LearnSettings(**given), "alone", data), data)
    np.testing.assert_array_equal(finished.result.structure.weights, alone.structure.weights)
    assert finished.result.structure.kind == "cpdag"
    assert finished.result.structure.adjacency.any()
    assert [r["tests"] for r in finished.result.rounds] == [r["tests"] for r in alone.rounds]
    for path in silo_files(
        four
    ).values():  # what a seeded run released stays charged, so the next test starts with a new folder
        ledger_path(path, path.stem).unlink(missing_ok=True)


@pytest.mark.slow
def test_a_silo_that_dies_between_exchanges_costs_only_its_counts_and_the_run_says_so(server, four, tmp_path):
    with owners_of(silo_files(four), tmp_path / "federation") as owners:
        settings = {"data": str(four), "federation": str(owners.file), "silo_patience": 2}

        def stop(heard):
            if heard.round.number == 1:
                owners.kill("silo-4")

        finished = learn_flow(RunContext((stop,)))(
            LearnSettings(out=str(tmp_path / "out"), algorithm="fed-pc", **settings)
        )
    assert finished.result.outcome == "converged"
    assert finished.result.lost == ("silo-4",)
    assert finished.result.metrics["rounds"] > 1
    assert finished.result.metrics["shd_skeleton"] <= 2
    assert "Dropped out during the run: silo-4" in (finished.folder / "report.html").read_text()
