"""Runs with `--cluster`: the effective number of rows in scores, tests, intervals, resamples, findings and files."""

import json

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.diagnosis import findings
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import declarations
from fedbnsl.data.folder.folder import silo_files
from fedbnsl.flows.api.loading import load
from fedbnsl.flows.inference.effects import effects
from fedbnsl.flows.job.run import rounds_row
from fedbnsl.tasks.silo.guard import Guard
from fedbnsl.tasks.silo.policy import NotAllowed, Policy
from fedbnsl.tasks.silo.rows import describe_rows
from tests.flows.commands import assert_same_files, run, stop_and_resume
from tests.flows.owners import owners_of

D = 8
NAMES = [f"x{j}" for j in range(D)]


def frames(seed, kind="numbers", patients=300, visits=5, icc=0.5, name="patient"):
    """Three silos of independent columns, in which a patient has several rows; of labels, numbers, or both."""
    rng, found = np.random.default_rng(seed), {}
    for number, silo in enumerate(("clinic", "lab", "ward")):
        k = patients // 3
        clusters = rng.permutation(np.repeat(np.arange(k), visits))
        X = np.sqrt(icc) * rng.normal(size=(k, D))[clusters] + np.sqrt(1 - icc) * rng.normal(size=(k * visits, D))
        frame = pd.DataFrame((X + number) * 10.0 ** (np.arange(D) % 3) if kind == "numbers" else X, columns=NAMES)
        labelled = {"numbers": [], "labels": NAMES, "mixed": NAMES[:4]}[kind]
        for column in labelled:
            frame[column] = np.array(["low", "mid", "top"])[np.digitize(frame[column], (-0.5, 0.5))]
        found[silo] = frame.assign(**{name: clusters * 7 + 1000 * number})
    return found


def edges(result):
    found = result.structure.adjacency
    return int(np.triu(found | found.T).sum())


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        ("numbers", "auto"),
        ("numbers", "secure-boss"),
        ("numbers", "secure-additive"),
        ("numbers", "fed-pc"),
        ("numbers", "fed-bfci"),
        ("labels", "auto"),
        ("labels", "fed-pc"),
        ("labels", "secure-ges"),
        ("mixed", "auto"),
        ("mixed", "fed-fci"),
    ],
)
def test_repeated_rows_are_one_row(kind, algorithm):
    """Of rows that occur five times, the graph is about that of each row once; as independent rows, edges are false."""
    options = {"bootstrap": 0, "diagnose": False, "parameters": False}
    false = {"clustered": 0, "once": 0, "all": 0}
    for seed in range(4):
        once = frames(seed, kind, visits=1, name="number")
        copies = {silo: pd.concat([frame] * 5) for silo, frame in once.items()}
        clustered = learn(copies, algorithm, cluster="number", **options).result
        assert clustered.metrics["design_effect"] == pytest.approx(5, rel=0.01)
        false["clustered"] += edges(clustered)
        false["once"] += edges(learn(once, algorithm, ignore=("number",), **options).result)
        false["all"] += edges(learn(copies, algorithm, ignore=("number",), **options).result)
    assert abs(false["clustered"] - false["once"]) <= 2
    if algorithm != "auto" or kind != "numbers":  # auto finds that no sparse DAG fits such rows, and joins fewer
        assert false["all"] > false["once"] + 8


def test_the_result_names_the_design_effect_and_its_files_are_read_again(tmp_path):
    data = frames(1)
    done = learn(data, cluster="patient", out=tmp_path / "run", engine="inline", bootstrap=5, posterior=100)
    result = done.result
    assert result.metrics["design_effect"] == pytest.approx(2, abs=0.15)
    assert result.metrics["cluster_bytes"] > 0
    assert result.independent_share == pytest.approx(1 / result.metrics["design_effect"], rel=0.01)
    (sentence,) = (line for line in result.basis if "design effect" in line)
    assert sentence.startswith("Rows of one cluster (patient) depend on each other: with a design effect of 2.0")
    assert findings.ROWS_DEPEND not in [one.name for one in result.diagnosed.findings]
    assert sentence in (tmp_path / "run" / "report.html").read_text()
    assert load(tmp_path / "run").result.independent_share == result.independent_share
    assert "independent complete rows" in result.graph_posterior.how
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["design_effect"] == pytest.approx(2, abs=0.15)


def test_without_the_option_ids_that_recur_have_a_finding_whose_command_works(tmp_path):
    for kind, words in (("numbers", False), ("mixed", False), ("mixed", True)):
        data = frames(2, kind, name="patient_id")
        for frame in data.values():
            frame["patient_id"] = "p" * words + frame["patient_id"].astype(str)
        result = learn(data_in(tmp_path / f"{kind}-{words}", data), engine="inline", bootstrap=0).result
        assert result.schema.aside["patient_id"].startswith("ids that recur" + " (5 rows each)" * (not words))
        (found,) = (one for one in result.diagnosed.findings if one.name == findings.ROWS_DEPEND)
        assert "Rows with the same patient_id resemble each other: the design effect is 2" in found.message
        assert found.advice == "Learn again with --cluster patient_id."
    apart = frames(2, icc=0.0, name="patient_id")
    result = learn(data_in(tmp_path / "apart", apart), engine="inline", bootstrap=0).result
    assert findings.ROWS_DEPEND not in [one.name for one in result.diagnosed.findings]


def data_in(folder, data):
    folder.mkdir()
    for silo, frame in data.items():
        frame.to_csv(folder / f"{silo}.csv", index=False)
    return folder


def test_rows_in_the_order_of_ids_have_one_finding(tmp_path):
    data = {silo: frame.sort_values("patient_id") for silo, frame in frames(3, name="patient_id").items()}
    result = learn(data_in(tmp_path / "study", data), engine="inline", bootstrap=0).result
    (found,) = (one for one in result.diagnosed.findings if one.name == findings.ROWS_DEPEND)
    assert "Rows resemble the rows before them" in found.message
    assert found.advice == "Learn again with --cluster patient_id."


def test_effects_have_intervals_of_clusters(tmp_path):
    """The model's interval has the design effect, that of the rows a sandwich; doubly robust effects have neither."""
    data = frames(4)
    for frame in data.values():
        frame["x1"] += frame["x0"] * 0.5
    folder = data_in(tmp_path / "study", data)
    widths = {}
    for name, options in {"all": {"ignore": ("patient",)}, "clusters": {"cluster": "patient"}}.items():
        result = learn(folder, engine="inline", bootstrap=0, required_arcs="x0->x1", **options).result
        for source in (None, folder):
            (found,) = effects(result, ["x0"], "x1", data=source).effects
            low, high = found.candidates[0].estimate.interval
            by_sandwich = name == "clusters" and source is not None
            assert (found.candidates[0].estimate.degrees is None) == by_sandwich
            widths[name, source] = high - low
    for source in (None, folder):
        ratio = (widths["clusters", source] / widths["all", source]) ** 2
        assert ratio == pytest.approx(2, abs=0.5)
    labelled = {
        silo: frame.assign(x0=np.where(frame["x0"] > frame["x0"].mean(), "b", "a")) for silo, frame in data.items()
    }
    folder = data_in(tmp_path / "labelled", labelled)
    result = learn(folder, engine="inline", bootstrap=0, cluster="patient", required_arcs="x0->x1").result
    with pytest.raises(BadInput, match=r"doubly.robust counts all rows of a cluster \(patient\)"):
        effects(result, ["x0"], "x1", data=folder, doubly_robust=True)


REFUSED = {
    "a learner that counts all rows": (
        {"algorithm": "fed-sparse"},
        "fed-sparse counts all rows, also those of one cluster",
    ),
    "an epsilon": ({"epsilon": 1.0}, "cluster cannot be used with an ε, which protects single rows"),
    "a condition": ({"condition": "x0"}, "cluster cannot be used with condition"),
    "an ignored column": ({"ignore": ("patient",)}, "cluster and ignore both name the column 'patient'"),
    "no such column": ({"cluster": "person"}, "cluster: there is no column 'person'"),
    "targets": ({"targets": "targets.csv"}, "cluster cannot be used with targets of experiments"),
    "unknown targets": ({"targets": "unknown"}, "cluster cannot be used with targets of experiments"),
    "a series": ({"time": "order"}, "cluster is for tables, and study is time-series"),
    "random projections": (
        {"algorithm": "fed-pc", "mode": "projection", "kind": "labels"},
        "mode is projection, whose tests count all rows",
    ),
    "scores by configuration": (
        {"algorithm": "secure-boss", "mixed_score": "conditional-gaussian", "kind": "mixed"},
        "the conditional Gaussian score counts all rows",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_clusters_cannot_have_is_refused_in_one_line(case, tmp_path, monkeypatch):
    options, message = REFUSED[case]
    kind = options.get("kind", "numbers")
    folder = data_in(tmp_path / "study", frames(5, kind, patients=60))
    (tmp_path / "targets.csv").write_text("silo,variable\nlab,x0\n")
    monkeypatch.chdir(tmp_path)
    if "time" in options:
        for path in folder.glob("*.csv"):
            pd.read_csv(path).assign(order=range(100)).to_csv(path, index=False)
    given = {"cluster": "patient"} | {name: value for name, value in options.items() if name != "kind"}
    with pytest.raises(BadInput, match=message):
        learn(folder, engine="inline", **given)


def test_an_empty_id_is_refused_with_its_place(tmp_path):
    data = frames(6, patients=60)
    data["lab"]["patient"] = [*data["lab"]["patient"][:-1], None]
    folder, place = data_in(tmp_path / "study", data), r"lab\.csv: line 101, column 'patient': .*empty"
    with pytest.raises(BadInput, match=place):
        learn(folder, cluster="patient", engine="inline")
    with pytest.raises(BadInput, match=place):  # a silo of another owner sees it before round 1
        describe_rows("lab", folder / "lab.csv", declarations({"cluster": "patient"}))


def test_about_json_declares_the_column_and_rows_with_an_empty_cell_are_dropped_with_their_ids(tmp_path):
    data = frames(7, icc=1.0, patients=150)
    data["lab"].iloc[3:40, 2] = np.nan
    folder = data_in(tmp_path / "study", data)
    (folder / "about.json").write_text(json.dumps({"cluster": "patient"}))
    result = learn(folder, engine="inline", missing="complete-rows").result
    assert result.schema.rows["lab"] == 250 - 37
    assert result.metrics["design_effect"] == pytest.approx(4.8, abs=0.1)  # some clusters have lost rows
    modelled = learn(folder, engine="inline").result
    assert modelled.metrics["design_effect"] == pytest.approx(5, abs=0.1)


def test_a_coordinator_cannot_choose_the_column_of_clusters():
    """The owner and the coordinator name the same column, or none: the column would be a further sum of the rows."""
    about = {"kind": "continuous"}
    for own, asked in ((None, "x"), ("patient", None), ("patient", "x")):
        guard = Guard(remote=True, declared=declarations(about | ({"cluster": own} if own else {})))
        request = declarations(about | ({"cluster": asked} if asked else {}))
        with pytest.raises(NotAllowed, match=r"column of clusters.* agree on one about\.json"):
            guard.declaration("lab", request)
    guard = Guard(remote=True, declared=declarations(about | {"cluster": "patient"}))
    assert guard.declaration("lab", declarations(about | {"cluster": "patient"})).reading.cluster == "patient"


@pytest.mark.slow
def test_masks_change_nothing_and_both_engines_agree(tmp_path, server):
    folder = data_in(tmp_path / "study", frames(8))
    options = {"cluster": "patient", "algorithm": "secure-boss", "bootstrap": 3}
    one = learn(folder, engine="inline", out=tmp_path / "one", **options).result
    other = learn(folder, engine="prefect", secure=True, out=tmp_path / "other", **options).result
    assert one.metrics["design_effect"] == pytest.approx(other.metrics["design_effect"], abs=1e-6)
    np.testing.assert_allclose(one.structure.weights, other.structure.weights, atol=1e-6)
    np.testing.assert_allclose(one.confidence.strengths.strength, other.confidence.strengths.strength, atol=1e-6)


@pytest.mark.slow
def test_a_run_with_clusters_resumed_between_its_rounds_gives_the_same(tmp_path, server, monkeypatch, capsys):
    words = ["learn", data_in(tmp_path / "study", frames(9, "labels")), "--algorithm", "secure-boss", "-p", "exact=0"]
    words += ["--cluster", "patient"]
    code, _, err = run(capsys, *words, "--engine", "inline", "--out", tmp_path / "whole")
    assert code == 0, err

    def crash(algorithm, last):
        if last.number == 2:
            raise RuntimeError("the coordinator stopped")
        return rounds_row(algorithm, last)

    stop_and_resume(capsys, monkeypatch, "fedbnsl.flows.job.run.rounds_row", words, tmp_path / "out", crash)
    assert_same_files(tmp_path / "out", tmp_path / "whole", ("structure.csv", "model.bif"))
    shares = [load(tmp_path / name).result.independent_share for name in ("out", "whole")]
    assert shares[0] == shares[1] < 0.9


@pytest.mark.slow
def test_owners_who_demand_masks_find_the_design_effect_together(tmp_path, server):
    """Each owner declares the column, and so does the coordinator, who has no rows."""
    folder = data_in(tmp_path / "study", frames(10))
    expected = learn(folder, engine="inline", cluster="patient", algorithm="secure-boss").result
    policies = dict.fromkeys(silo_files(folder), Policy(masked=True, silos=2))
    about = {"cluster": "patient"}
    with owners_of(silo_files(folder), tmp_path / "federation", policies, about) as owners:
        (owners.file.parent / "about.json").write_text(json.dumps(about))
        options = {"federation": str(owners.file), "algorithm": "secure-boss", "engine": "prefect", "silo_patience": 2}
        found = learn(owners.file.parent, out=tmp_path / "out", **options).result
        np.testing.assert_array_equal(found.structure.weights, expected.structure.weights)
        assert found.independent_share == expected.independent_share
        (sent,) = {one.statistic for one in found.disclosed["lab"] if one.part == "clusters"}
        assert sent == "moments"
