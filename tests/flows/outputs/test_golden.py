"""The golden runs in the terminal, in a notebook, in Prefect's log and among its artifacts."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fedbnsl.algorithms.diagnosis.findings import Finding
from fedbnsl.flows.api.learned import headline, notebook_html
from fedbnsl.flows.engines import artifacts
from fedbnsl.flows.engines.artifacts import markdown, publish
from fedbnsl.flows.engines.flow_run_log import result_lines
from fedbnsl.flows.terminal.summary import SUMMARY_LINES, as_document, show_edges, show_result
from fedbnsl.tracking.report.files import flat_metrics, json_text
from fedbnsl.tracking.report.sections import privacy_lines, small_cell_warnings
from fedbnsl.tracking.result import CompletedRun, series_warnings
from tests.tracking import expected
from tests.tracking.golden import ARROWS, FINDINGS, LEARNED, LINES, RESAMPLES, RUNS

LINK = "http://127.0.0.1:5000/#/experiments/3/runs/ab"

pytestmark = pytest.mark.usefixtures("rendered")


def finished(name):
    """The run with its results in the folder /runs/NAME."""
    folder = Path("/runs") / name
    files = {file: folder / file for file in ("report.html", "model.json", "structure.csv")}
    return CompletedRun(RUNS[name], folder, files, LINK)


def printed(capsys, name, *, details=True):
    show_result(finished(name), details=details)
    return capsys.readouterr().out


def summary(capsys, finished):
    """The lines after the edges and the scores, without details."""
    show_result(finished)
    return re.split(r"\n *\n", capsys.readouterr().out)[-1].splitlines()


def test_terminal_log_and_notebook_show_what_is_expected(capsys):
    found = {}
    for name in ("weighted", "cpdag", "pag", "dynamic", "private", "broken"):
        edges, scores, notes = (part.rstrip() for part in re.split(r"\n *\n", printed(capsys, name)))
        page = re.sub(r'src="data:[^"]*"', "", notebook_html(RUNS[name])).replace("><", ">\n<")
        log = "\n".join(result_lines(finished(name)))
        found[name] = {"edges": edges, "scores": scores, "notes": notes, "log": log, "notebook": page}
        found[name]["summary"] = "\n".join(summary(capsys, finished(name)))
    expected.check("shown", found)


@pytest.mark.parametrize("findings", [0, 1, 2, 5, 40])
@pytest.mark.parametrize("name", RUNS)
def test_the_summary_fits_on_a_screen_and_leaves_no_warning_out(capsys, name, findings):
    many = tuple(Finding(f"finding {k}", f"Message {k}.", f"Advice {k}.") for k in range(findings))
    run = replace(RUNS[name], diagnosed=replace(RUNS[name].diagnosed, findings=many))
    lines = summary(capsys, replace(finished(name), result=run))
    assert len(lines) <= SUMMARY_LINES
    shown = [line for line in lines if line.startswith("! ")]
    more = [line for line in shown if "more finding" in line]
    told = len(shown) - len(more)
    assert told + sum(int(re.search(r"\d+", line).group()) for line in more) == findings
    assert told >= min(findings, 1)
    text = "\n".join(lines)
    assert all(word in text for word in (*series_warnings(run), *small_cell_warnings(run), *privacy_lines(run)))
    assert ("report: " in text, "MLflow: " in text) == (True, True)


@pytest.mark.parametrize("name", RUNS)
def test_the_document_for_programs_has_paths_privacy_and_all_metrics(name):
    run, document = RUNS[name], json.loads(as_document(finished(name)))
    assert document.pop("metrics") == json.loads(json_text(flat_metrics(run)))
    assert set(document.pop("files").values()) == {str(path) for path in finished(name).files.values()}
    assert (document.pop("privacy") is None) == (run.privacy is None)
    assert document == {
        "name": run.name,
        "algorithm": run.algorithm,
        "dataset": run.dataset,
        "outcome": run.outcome,
        "folder": f"/runs/{name}",
        "mlflow": LINK,
    }


def edges_in(text):
    """The printed edges as {(cause, symbol, target): the rest of the line}."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and words[1] in ("→", "—", "↔", "o→", "o—", "—o", "o—o"):
            found[words[0], words[1], words[2]] = " ".join(words[3:])
    return found


def test_edges_are_printed_from_cause_to_effect_with_their_weights(capsys):
    found = edges_in(printed(capsys, "weighted"))
    doubt = {"age": " doubtful direction"}  # nothing can cause an age
    assert found == {
        (source, "→", target): f"{weight:+.3f}{doubt.get(target, '')}" for (source, target), weight in LEARNED.items()
    }
    weights = [abs(float(line.split()[0])) for line in found.values()]
    assert weights == sorted(weights, reverse=True)


def test_the_strongest_edges_are_printed_first_whatever_their_sign(capsys):
    show_edges(RUNS["weighted"].edges, most=4)
    said = capsys.readouterr().out
    assert list(edges_in(said)) == [
        ("blood", "→", "dose"),
        ("dose", "→", "pain"),
        ("blood", "→", "fever"),
        ("pain", "→", "age"),
    ]
    assert "9 edges, the 4 strongest:" in said


def test_strength_and_direction_stand_beside_their_edge(capsys):
    found = edges_in(printed(capsys, "cpdag"))
    for (source, symbol, target), said in found.items():
        there, back = ARROWS.get((source, target), 0), ARROWS.get((target, source), 0)
        line = LINES.get((source, target), 0) + LINES.get((target, source), 0)
        joined = there + back + line
        wanted = f"strength {joined / RESAMPLES:.2f}"
        if symbol == "→" and joined:
            wanted += f" direction {(there + line / 2) / joined:.2f}"
        wanted += " doubtful direction" * ((symbol, target) == ("→", "age"))
        assert said == wanted


@pytest.mark.parametrize("name", RUNS)
def test_basis_and_findings_are_told_at_every_place(capsys, name):
    run, said = RUNS[name], printed(capsys, name)
    page, log = notebook_html(run), result_lines(finished(name))
    for one in run.basis:
        assert one in said.splitlines()
        assert one in page
    for one in run.diagnosed.findings:
        assert f"! {one.message} {one.advice}" in said.splitlines()
        assert f"<li>{one.message} {one.advice}</li>" in page
        assert f"{one.message} {one.advice}" in log
    assert bool(run.diagnosed.findings) == (FINDINGS[0].message in said)


def test_both_budgets_are_printed_and_not_exchanged(capsys):
    said = printed(capsys, "private")
    assert "ε = 2.61, at most 2.17 by tight accounting, of 2.9 spent at δ = 3.7e-06" in said
    assert said.index("ε = 2.61") < said.index("all runs on these rows: ε = 7.19")
    assert "silo lost after 3 rounds (lost: north)" in said
    assert "NOT PRIVATE: the silo south was pooled" in printed(capsys, "broken")
    document = json.loads(as_document(finished("private")))
    assert document["privacy"] == {"epsilon": 2.61, "delta": 3.7e-06, "all_runs": 7.19}
    assert "NOT PRIVATE" in headline(RUNS["broken"])
    assert "ε = 2.61 spent" in headline(RUNS["private"])


@pytest.fixture
def published(monkeypatch):
    """A function that publishes a run and returns its artifacts by key."""
    made = {}
    for kind in ("image", "table", "link"):
        take = lambda key, **given: made.update({key: given})  # noqa: E731
        monkeypatch.setattr(artifacts, f"create_{kind}_artifact", take)

    def publishing(name, picture=None):
        run = finished(name)
        files = run.files | ({"structure.png": picture} if picture else {})
        publish(CompletedRun(run.result, run.folder, files, run.tracking_url))
        return dict(made)

    return publishing


def test_the_table_of_edges_leads_from_source_to_target(published):
    made = published("weighted")
    assert {(row["source"], row["edge"], row["target"]): row["weight"] for row in made["structure"]["table"]} == {
        (source, "→", target): weight for (source, target), weight in LEARNED.items()
    }
    assert made["structure"]["description"] == "9 edges; all files: /runs/weighted"
    assert (made["mlflow"]["link"], made["mlflow"]["link_text"]) == (LINK, "MLflow run")
    over_time = {(row["source"], row["target"]): row["weight"] for row in published("dynamic")["structure"]["table"]}
    assert over_time["water[t-1]", "soil"] == -0.38
    assert over_time["soil[t-1]", "water"] == 0.16
    assert over_time["soil", "air"] == -0.63
    marked = {(row["source"], row["target"]): row["edge"] for row in published("pag")["structure"]["table"]}
    assert marked == {
        ("age", "dose"): "→",
        ("pain", "age"): "→",
        ("dose", "sleep"): "o→",
        ("fever", "pain"): "o→",
        ("sleep", "fever"): "↔",
        ("fever", "blood"): "o—o",
        ("dose", "blood"): "o—",
    }
    assert not any("weight" in row for row in published("pag")["structure"]["table"])


@pytest.mark.parametrize("name", ["weighted", "dynamic", "private"])
def test_the_table_of_scores_has_every_figure_beside_its_name(published, name):
    metrics = RUNS[name].metrics
    made = published(name)["scores"]
    assert {row["score"]: row["value"] for row in made["table"]} == {
        key: value for key, value in metrics.items() if value is not None
    }
    assert made["description"] == f"{RUNS[name].algorithm} on {RUNS[name].dataset}; all files: /runs/{name}"


def test_the_picture_is_the_file(published, tmp_path):
    (tmp_path / "picture.png").write_bytes(b"\x89PNG 17")
    url = published("weighted", tmp_path / "picture.png")["picture"]["image_url"]
    assert base64.b64decode(url.partition(",")[2]) == b"\x89PNG 17"


def test_what_has_changed_is_told_edge_by_edge():
    said = markdown(RUNS["weighted"].changes)
    parts = dict(re.findall(r"\*\*(\w[\w ]*)\*\*\n\n((?:- .*\n?)+)", said))
    named = {fate: set(re.findall(r"`(.*?)`", lines)) for fate, lines in parts.items()}
    assert named == {
        "gained": {"blood → fever", "pain → fever", "dose → sleep", "blood → sleep"},
        "lost": {"dose → fever", "age → blood"},
        "turned": {"pain → age"},
    }
    assert "4 gained, 2 lost, 1 turned, 4 kept; parameter drift 0.152 nats per row" in said
