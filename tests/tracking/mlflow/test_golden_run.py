"""The golden runs in a real MLflow store: parameters, figures of rounds and runs, tags, files and the model."""

import json

import pytest

from fedbnsl.tracking.mlflow.run import RoundEvent, RunStart, ending_of, open_run
from fedbnsl.tracking.mlflow.saved_model import TrackedData
from fedbnsl.tracking.outputs import write_outputs
from fedbnsl.tracking.report.files import flat_metrics
from tests.tracking import expected
from tests.tracking.golden import LEARNED, RUNS

NAMES = ("weighted", "dynamic", "private")


@pytest.fixture(scope="module")
def runs(uri, tmp_path_factory):
    """Log three of the golden runs; return the client, and for each the MLflow run and the folder of its artifacts."""
    from fedbnsl.tracking import outputs

    found = {}
    for name in NAMES:
        run, folder = RUNS[name], tmp_path_factory.mktemp(name)
        data = TrackedData(run.dataset, run.about, run.schema)
        log = open_run(RunStart(run.name, run.params, {"algorithm": run.algorithm}, data, uri))
        log.rounds([RoundEvent(row, run.structure) for row in run.rounds[:2]])
        log.rounds([RoundEvent(run.rounds[2], run.structure)])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fedbnsl.tracking.report.drawings.as_png", lambda figure: b"\x89PNG")
            patch.setattr(outputs, "report_html", lambda result: "")
            write_outputs(run, folder)
        log.finish(ending_of(run), folder)
        kept = tmp_path_factory.mktemp(f"{name}-kept")
        log.client.download_artifacts(log.run_id, "", str(kept))
        found[name] = (log.client, log.client.get_run(log.run_id), kept)
    return found


def test_runs_are_logged_as_expected(runs):
    """Everything is compared except ids, times and versions of programs; figures of a run are compared by name."""
    found = {}
    for name, (client, run, kept) in runs.items():
        tags = {key: value for key, value in run.data.tags.items() if not key.startswith(("mlflow.", "git"))}
        tags.pop("model", None)
        figures = {key: value for key, value in flat_metrics(RUNS[name]).items() if isinstance(value, int | float)}
        figures = {key: float(value) for key, value in figures.items()}
        figures["megabytes"] = (figures["bytes_up"] + figures["bytes_down"]) / 1e6
        of_rounds = {key for key in run.data.metrics if key.startswith("round/")}
        assert {key: run.data.metrics[key] for key in run.data.metrics.keys() - of_rounds} == pytest.approx(figures)
        history = {key: client.get_metric_history(run.info.run_id, key) for key in sorted(of_rounds)}
        files = sorted(path.relative_to(kept) for path in kept.rglob("*") if path.suffix in (".csv", ".json"))
        found[name] = {
            "run": f"{run.info.run_name}: {run.info.status}",
            "params": "\n".join(f"{key} = {value}" for key, value in sorted(run.data.params.items())),
            "tags": "\n".join(f"{key} = {value}" for key, value in sorted(tags.items())),
            "rounds": "\n".join(f"{k} = {[(one.step, round(one.value, 9)) for one in history[k]]}" for k in history),
            "files": "\n".join(map(str, files)),
        }
    expected.check("mlflow", found)


def test_the_structure_of_a_round_has_sources_and_targets_in_place(runs):
    _, _, kept = runs["weighted"]
    content = json.loads((kept / "rounds" / "structure-0003.json").read_text())
    assert {(one["source"], one["target"]): one["weight"] for one in content["edges"]} == LEARNED
    assert content["round"] == 3
    _, _, kept = runs["dynamic"]
    edges = json.loads((kept / "rounds" / "structure-0001.json").read_text())["edges"]
    structure = RUNS["dynamic"].structure
    for one in edges:
        i, j = structure.variables.index(one["source"]), structure.variables.index(one["target"])
        assert one["weight"] == (structure.lagged[one["lag"] - 1, i, j] if one["lag"] else structure.weights[i, j])


def test_the_ledger_is_kept_by_silo(runs):
    _, run, kept = runs["private"]
    ledger = json.loads((kept / "privacy" / "ledger.json").read_text())
    assert ledger["run"] == {"south": 2.61, "north": 1.43}
    assert ledger["ever"] == {"south": 5.87, "north": 7.19}
    assert (run.data.tags["outcome"], run.data.tags["lost"]) == ("silo lost", "north")


def test_the_model_is_that_of_the_run(runs):
    from fedbnsl.tracking.mlflow.saved_model import load_pgmpy

    client, run, _ = runs["weighted"]
    model = client.get_logged_model(run.data.tags["model"].removeprefix("models:/"))
    network = load_pgmpy(model.artifact_location)
    wanted = RUNS["weighted"].parameters.network
    for name in wanted.structure.variables:
        cpd, j = network.get_cpds(name), wanted.structure.variables.index(name)
        weights = {one: LEARNED[one, name] for one in cpd.evidence}
        assert list(cpd.beta) == pytest.approx([wanted.intercepts[j], *weights.values()])
        assert {(one, name) for one in cpd.evidence} == {edge for edge in LEARNED if edge[1] == name}
