"""Private and masked runs as users start them: through Prefect and Dask, and on the command line."""

import json
import shutil

import numpy as np
import pytest

from fedbnsl.data.folder.folder import read_folder, silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.learn import learn, learn_flow
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo.ledger import FileLedger, ledger_path
from tests.flows.commands import run
from tests.flows.owners import owners_of


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """A folder of four silos of 500 rows."""
    folder = tmp_path_factory.mktemp("data") / "four"
    write_folder(folder, homogeneous(variables=5, silos=4, rows=500, seed=2))
    return folder


def ledgers(folder):
    return {silo: FileLedger(ledger_path(path, silo)).charges() for silo, path in silo_files(folder).items()}


def test_both_engines_draw_the_same_noise_from_a_seed_and_say_that_it_is_not_private(server, four, tmp_path):
    given = {"algorithm": "secure-sum", "params": {"insecure_seed": 4}, "epsilon": 5.0}
    finished = learn(LearnSettings(data=str(four), out=str(tmp_path / "out"), **given))
    data = read_folder(four)
    alone = run_inline(job_inline(LearnSettings(data=str(four), **given), "alone", data), data)
    assert finished.result.structure.weights.tobytes() == alone.structure.weights.tobytes()
    assert finished.result.metrics["epsilon"] is None
    assert finished.result.metrics["privacy"] == "NOT PRIVATE: its noise is drawn from a known seed"
    assert "NOT PRIVATE" in (finished.folder / "report.html").read_text()
    shutil.rmtree(
        four / ".fedbnsl"
    )  # what a seeded run released stays charged, so the next test starts with a new folder


def test_what_is_said_to_be_spent_is_what_the_ledgers_say(server, four, tmp_path):
    import mlflow

    given = {"algorithm": "dp-covariance", "epsilon": 3.0, "delta": 1e-5}
    finished = learn(LearnSettings(data=str(four), name="private", out=str(tmp_path / "out"), **given))
    result, metrics = finished.result, json.loads((finished.folder / "metrics.json").read_text())
    assert 2.9 < metrics["epsilon"] <= 3.0
    assert metrics["delta"] == 1e-5
    assert metrics["adjacency"] == "replace-one"
    assert result.refit == {}  # residuals of the rows would be an uncharged release
    network = result.parameters.network  # computed from charged releases, without another request
    assert np.array_equal(network.structure.weights, result.structure.weights)
    assert not network.intercepts.any()
    assert result.metrics["parameter_bytes"] == 0
    assert {silo: len(charges) for silo, charges in ledgers(four).items()} == dict.fromkeys(result.schema.silos, 2)
    config = json.loads((finished.folder / "config.json").read_text())
    assert config["privacy"]["run"]["silo-1"] == metrics["epsilon"]
    assert "the number of rows of each silo, which is public" in config["privacy"]["not_covered"]
    report = (finished.folder / "report.html").read_text()
    assert "Not protected by ε" in report
    assert "second moments" in report
    found = mlflow.MlflowClient().search_runs(["1"], "attributes.run_name = 'private'")[0]
    assert found.data.metrics["epsilon"] == metrics["epsilon"]
    assert any(path.path == "privacy" for path in mlflow.MlflowClient().list_artifacts(found.info.run_id))


@pytest.mark.slow
def test_masks_over_dask_change_nothing_that_is_learned(server, four, tmp_path):
    given = {"algorithm": "fed-sparse", "params": {"rounds": 20}}
    finished = learn(LearnSettings(data=str(four), out=str(tmp_path / "out"), secure=True, **given))
    data = read_folder(four)
    plain = run_inline(job_inline(LearnSettings(data=str(four), **given), "plain", data), data)
    np.testing.assert_allclose(finished.result.structure.weights, plain.structure.weights, atol=1e-6)
    assert finished.result.secure
    assert finished.result.refit == {}  # errors by silo would be unmasked replies
    hidden, shown = finished.result.parameters.network, plain.parameters.network
    np.testing.assert_allclose(hidden.structure.weights, shown.structure.weights, atol=1e-5)
    np.testing.assert_allclose(hidden.variances, shown.variances, rtol=1e-4)


@pytest.mark.slow
def test_a_silo_that_dies_between_two_sums_costs_only_its_rows(server, four, tmp_path):
    with owners_of(silo_files(four), tmp_path / "federation") as owners:
        settings = {"data": str(four), "federation": str(owners.file), "silo_patience": 2, "epsilon": 8.0}

        def stop(heard):
            if heard.round.number == 1:
                owners.kill("silo-4")

        finished = learn_flow(RunContext((stop,)))(
            LearnSettings(out=str(tmp_path / "out"), algorithm="secure-sum", **settings)
        )
    result = finished.result
    assert result.outcome == "converged"
    assert result.lost == ("silo-4",)
    assert result.rounds[-1]["rows"] == 1500
    assert result.metrics["shd"] <= 2
    assert result.metrics["epsilon"] <= 8.0
    assert "Dropped out during the run: silo-4" in (finished.folder / "report.html").read_text()


def test_a_spent_budget_is_one_line_and_nothing_is_written(capsys, four, tmp_path):
    words = ["learn", four, "-a", "dp-covariance", "--engine", "inline", "--epsilon", "2"]
    before = ledgers(four)
    code, _, err = run(capsys, *words, "--budget", "0.5", "--out", tmp_path / "refused")
    assert code == 2
    assert "above the budget of 0.5: refused before any noise was drawn" in err.splitlines()[-1]
    assert not (tmp_path / "refused").exists()
    assert ledgers(four) == before


REFUSED = {
    "epsilon of an exact algorithm": (["-a", "fed-sparse", "--epsilon", "1"], "fed-sparse is not private"),
    "epsilon of zero": (["-a", "secure-sum", "--epsilon", "0"], "epsilon"),
    "epsilon below zero": (["-a", "dp-covariance", "-p", "epsilon=-1"], "epsilon is -1"),
    "delta of one": (["-a", "secure-sum", "--epsilon", "1", "--delta", "1"], "delta"),
    "budget without noise": (["-a", "fed-sparse", "--budget", "3"], "fed-sparse with these settings is not private"),
    "masks for a vote": (["-a", "notears-voting", "--secure"], "needs each silo's reply"),
    "masks for pooled rows": (["-a", "notears", "--secure"], "all rows in one place"),
    "noise without epsilon": (["-a", "secure-sum", "-p", "noise=shares"], "set epsilon"),
    "too many colluders": (["-a", "secure-sum", "--epsilon", "1", "-p", "colluders=3"], "none would remain"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_private_is_refused_in_one_line(capsys, four, tmp_path, words, said):
    code, out, err = run(capsys, "learn", four, "--engine", "inline", "--out", tmp_path / "out", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_plan_spends_nothing_and_the_ledger_shows_what_was_spent(capsys, four, tmp_path):
    words = ["learn", four, "-a", "secure-sum", "--epsilon", "4", "--engine", "inline", "--out", tmp_path / "out"]
    assert run(capsys, *words)[0] == 0
    before = ledgers(four)
    code, out, _ = run(capsys, "privacy", "plan", four, "--epsilon", "2")
    assert code == 0
    assert "--algorithm secure-sum" in out
    assert all(name in out for name in ("secure-sum", "dp-covariance", "dp-fed-sparse"))
    assert "Not covered by ε" in out
    assert ledgers(four) == before
    code, out, _ = run(capsys, "privacy", "ledger", four)
    assert code == 0
    assert "all runs" in out
    assert "bucket counts, second moments" in out
    code, _, err = run(capsys, "privacy", "plan", four, "--epsilon", "-2")
    assert code == 2
    assert "epsilon is -2" in err


def test_the_attack_succeeds_on_plain_replies_and_fails_otherwise(capsys, four):
    code, out, _ = run(capsys, "attack", "reconstruct", four, "--epsilon", "3")
    assert code == 0
    assert out.count("succeeds") == 1
    assert out.count("fails") == 2


def test_levels_that_are_read_off_the_rows_are_no_part_of_a_private_run(capsys, tmp_path):
    """A label of a single record would be disclosed for any ε, so levels must be declared."""
    folder = tmp_path / "words"
    folder.mkdir()
    for silo in ("north", "south"):
        rows = [("yes", "low"), ("no", "high"), ("yes", "high"), ("no", "low")] * 50
        (folder / f"{silo}.csv").write_text("smokes,risk\n" + "".join(f"{a},{b}\n" for a, b in rows))
    asked = (
        "learn",
        folder,
        "--algorithm",
        "fed-pc",
        "--epsilon",
        "5",
        "--engine",
        "inline",
        "--out",
        tmp_path / "out",
    )
    code, _, err = run(capsys, *asked)
    assert code == 2
    assert "column 'smokes': a run with an ε takes the kind of every column from about.json" in err
    assert not any(ledgers(folder).values())
    (folder / "about.json").write_text(json.dumps({"levels": {"smokes": ["no", "yes"], "risk": ["low", "high"]}}))
    code, out, _ = run(capsys, *asked)
    assert code == 0
    assert "privacy: ε" in out
