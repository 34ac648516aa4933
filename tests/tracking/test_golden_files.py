"""The files of the golden runs, read back: every figure in its own row and column, and whole files as expected."""

import csv
import json
from io import StringIO

import pytest

from fedbnsl.algorithms.parameters.bif import parse_bif
from fedbnsl.algorithms.parameters.network_json import network_from_json
from fedbnsl.data.folder.truth import read_structure
from fedbnsl.flows.engines.run_comparison import read_run
from fedbnsl.tracking.outputs import OUTPUTS, write_outputs
from fedbnsl.tracking.report.explore import graph_data
from fedbnsl.tracking.report.files import flat_metrics
from tests.tracking import expected
from tests.tracking.golden import ARROWS, EARLIER, LEARNED, LINES, RESAMPLES, ROUNDS, RUNS, tables

CONFIGURED = ("weighted", "dynamic", "private")


class Folders(dict):
    """The folder of every run's files: each is written when it is first asked for, without its pictures and report."""

    def __init__(self, where):
        super().__init__()
        self.where = where

    def __missing__(self, name):
        self[name] = self.where / name
        write_outputs(RUNS[name], self[name])
        return self[name]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    from fedbnsl.tracking import outputs

    with pytest.MonkeyPatch.context() as patch:  # pictures and reports have tests of their own, and take longest
        patch.setattr("fedbnsl.tracking.report.drawings.as_png", lambda figure: b"")
        patch.setattr(outputs, "report_html", lambda result: "")
        yield Folders(tmp_path_factory.mktemp("golden"))


def rows(folder, name):
    return list(csv.DictReader(StringIO((folder / name).read_text("utf-8"))))


def test_every_file_is_as_expected(folders):
    """Metrics and models have tests of their own below, and the settings are those of runs of every kind."""
    found = {}
    for name in RUNS:
        there = sorted(path.name for path in folders[name].iterdir())
        assert set(OUTPUTS) <= set(there)
        found[name] = {file: (folders[name] / file).read_text("utf-8") for file in there if file.endswith(".csv")}
        found[name]["files"] = " ".join(there)
        if name in CONFIGURED:
            config = json.loads((folders[name] / "config.json").read_text("utf-8"))
            assert set(config.pop("versions")) == {"python", "fedbnsl", "numpy"}
            found[name]["config.json"] = lines_of(config)
    expected.check("files", found)


def lines_of(content):
    """One line of JSON for each entry."""
    return "\n".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in content.items())


def test_an_edge_stands_with_its_source_before_its_target(folders):
    found = {(row["source"], row["target"]): float(row["weight"]) for row in rows(folders["weighted"], "structure.csv")}
    assert found == LEARNED
    imposed = [row["source"] for row in rows(folders["weighted"], "structure.csv") if row["imposed"] == "1"]
    assert imposed == ["dose"]


def test_a_lagged_edge_stands_with_its_lag(folders):
    found = {
        (row["source"], row["target"], int(row["lag"])): float(row["weight"])
        for row in rows(folders["dynamic"], "structure.csv")
    }
    structure = RUNS["dynamic"].structure
    for (source, target, lag), weight in found.items():
        i, j = structure.variables.index(source), structure.variables.index(target)
        assert weight == (structure.lagged[lag - 1, i, j] if lag else structure.weights[i, j])
    assert len(found) == 8
    strengths = {(row["source"], row["target"], row["lag"]): row for row in rows(folders["dynamic"], "structure.csv")}
    assert float(strengths["soil", "air", "0"]["strength"]) == 28 / RESAMPLES
    assert float(strengths["soil", "air", "0"]["direction"]) == 25 / 28


def test_the_averaged_network_has_strengths_of_its_own_edges(folders):
    found = rows(folders["cpdag"], "averaged.csv")
    assert [(row["source"], row["target"], row["type"]) for row in found] == [
        ("age", "pain", "undirected"),
        ("sleep", "age", "directed"),
        ("dose", "pain", "directed"),
        ("dose", "blood", "undirected"),
        ("blood", "fever", "directed"),
    ]
    for row in found:
        there, back = ARROWS.get((row["source"], row["target"]), 0), ARROWS.get((row["target"], row["source"]), 0)
        line = LINES.get((row["source"], row["target"]), 0) + LINES.get((row["target"], row["source"]), 0)
        assert float(row["strength"]) == (there + back + line) / RESAMPLES
        assert float(row["direction"]) == pytest.approx((there + line / 2) / (there + back + line))


def test_changes_have_before_and_after_in_this_order(folders):
    found = {(row["source"], row["target"]): row for row in rows(folders["weighted"], "changes.csv")}
    for edge, now in LEARNED.items():
        before = EARLIER.get(edge, EARLIER.get(edge[::-1]))
        assert found[edge]["before"] == ("" if before is None else str(before))
        assert found[edge]["after"] == str(now)
        assert float(found[edge]["moved"]) == pytest.approx(abs(now - (before or 0)))
    drift = {row["source"]: float(row["drift"]) for row in rows(folders["weighted"], "changes.csv") if row["drift"]}
    assert drift == RUNS["weighted"].changes.drift.by_variable


def test_rounds_have_their_figures_below_their_names(folders):
    found = rows(folders["weighted"], "rounds.csv")
    assert [{name: float(value) for name, value in row.items()} for row in found] == list(ROUNDS)


@pytest.mark.parametrize("name", RUNS)
def test_metrics_are_those_of_the_run(folders, name):
    found = json.loads((folders[name] / "metrics.json").read_text())
    run = RUNS[name]
    assert found == flat_metrics(run)
    assert run.metrics.items() <= found.items()
    config = json.loads((folders[name] / "config.json").read_text())
    assert config["rows"] == run.schema.rows
    assert config["basis"] == list(run.basis)
    assert config["notes"] == list(run.notes)
    assert [one["advice"] for one in config["findings"]] == [one.advice for one in run.diagnosed.findings]
    assert (config["seed"], config["lost"], config["asked"]) == (run.seed, list(run.lost), run.asked)
    if run.privacy:
        assert config["privacy"]["run"] == run.privacy.run
        assert config["privacy"]["ever"] == run.privacy.ever


def test_scores_of_silos_stand_with_their_silo(folders):
    for name in ("dynamic", "personal"):
        found = {row.pop("silo"): row for row in rows(folders[name], "silos.csv")}
        assert {silo: {key: float(value) for key, value in row.items()} for silo, row in found.items()} == RUNS[
            name
        ].silo_scores


def test_structures_of_silos_have_their_own_weights(folders):
    own = RUNS["dynamic"].local_structures
    found = rows(folders["dynamic"], "silo_structures.csv")
    assert {row["silo"] for row in found} == set(own)
    for row in found:
        structure, lag = own[row["silo"]], int(row["lag"])
        i, j = structure.variables.index(row["source"]), structure.variables.index(row["target"])
        assert float(row["weight"]) == (structure.lagged[lag - 1, i, j] if lag else structure.weights[i, j])
    for row in rows(folders["dynamic"], "silo_edges.csv"):
        weights = {
            silo: (one.lagged[int(row["lag"]) - 1] if int(row["lag"]) else one.weights)[
                one.variables.index(row["source"]), one.variables.index(row["target"])
            ]
            for silo, one in own.items()
        }
        known = [weight for weight in weights.values() if weight]
        assert {silo: row[f"weight:{silo}"] for silo in own} == {
            silo: str(weight) if weight else "" for silo, weight in weights.items()
        }
        assert int(row["silos"]) == len(known)
        assert float(row["mean_weight"]) == pytest.approx(sum(known) / len(known))


def test_models_read_back_are_those_of_the_run(folders):
    """All probabilities and weights differ, so a transposed table or matrix would be noticed."""
    read = parse_bif((folders["cpdag"] / "model.bif").read_text("utf-8"), "model.bif")
    wanted = tables()
    assert read.levels == wanted.levels
    for name in wanted.variables:
        order = [read.parents[name].index(one) for one in wanted.parents[name]] + [len(wanted.parents[name])]
        assert read.tables[name].transpose(order) == pytest.approx(wanted.tables[name], abs=1e-9)
    for name in ("weighted", "dynamic", "mixed"):
        read = network_from_json(json.loads((folders[name] / "model.json").read_text("utf-8")), "model.json")
        assert type(read) is type(RUNS[name].parameters.network)
    network = RUNS["weighted"].parameters.network
    read = network_from_json(json.loads((folders["weighted"] / "model.json").read_text("utf-8")), "model.json")
    assert read.structure.weights == pytest.approx(network.structure.weights)
    assert read.intercepts == pytest.approx(network.intercepts)
    assert read.variances == pytest.approx(network.variances)
    network = RUNS["dynamic"].parameters.network
    read = network_from_json(json.loads((folders["dynamic"] / "model.json").read_text("utf-8")), "model.json")
    assert read.structure.weights == pytest.approx(network.structure.weights)
    assert read.lagged == pytest.approx(network.lagged)
    assert (read.means, read.spreads) == (pytest.approx(network.means), pytest.approx(network.spreads))
    assert (read.intercepts, read.variances) == (pytest.approx(network.intercepts), pytest.approx(network.variances))


def test_a_finished_run_is_read_back_from_its_folder(folders):
    for name in ("weighted", "dynamic", "cpdag", "pag"):
        past = read_run(folders[name])
        assert past.name == RUNS[name].name
        assert past.structure.weights == pytest.approx(RUNS[name].structure.weights)
        assert (past.network is None) == (RUNS[name].parameters.network is None)
    again = read_structure(folders["dynamic"] / "structure.csv")
    assert again.reordered(RUNS["dynamic"].structure.variables).lagged == pytest.approx(
        RUNS["dynamic"].structure.lagged
    )


def test_what_can_be_explored_is_as_expected():
    found = {}
    for name in ("weighted", "pag", "dynamic", "mixed"):
        data = rounded(graph_data(RUNS[name]))
        lists = {part: data.pop(part) for part in ("nodes", "edges")}
        found[name] = {part: "\n".join(json.dumps(one, ensure_ascii=False) for one in lists[part]) for part in lists}
        found[name]["graph"] = lines_of(data)
    expected.check("explore", found)


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return round(value, 2) if isinstance(value, float) else value
