"""Runs with intervention targets, from a folder to the run's files: both engines, masks, errors, marks."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fedbnsl
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.resampling.bootstrap import SamplingScheme, resample, resampled_schema
from fedbnsl.data.folder.about import Reading
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.interventions import interventions
from fedbnsl.flows.api.loading import load
from fedbnsl.flows.job.run import rounds_row
from fedbnsl.flows.learn import learn
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.start import learn_inline, precheck
from tests.algorithms.score.test_experiments import LEVELS, NAMES, TARGETS, draw
from tests.flows.commands import assert_same_files, run, stop_and_resume


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experiments") / "study"
    write_folder(folder, interventions(6, 5, 900, 1002, "inhibiting", targeted_silos=3, edges=8, strength=0.5))
    return folder


def settings(study, out, **options):
    return LearnSettings(data=str(study), out=str(out), **options).named()


def rows(folder):
    with (folder / "structure.csv").open() as file:
        return list(csv.DictReader(file))


def test_auto_learns_the_interventional_class_and_marks_what_rests_on_experiments(study, tmp_path):
    done = learn_inline(settings(study, tmp_path / "run"), precheck(settings(study, tmp_path / "run")))
    assert (done.result.algorithm, done.result.metrics["shd"]) == ("secure-linear", 0)
    marks = {(row["source"], row["target"]): row["experiment"] for row in rows(tmp_path / "run")}
    found = done.result.experimental
    assert {arc: mark for arc, mark in marks.items() if mark} == found
    assert "target" in found.values()
    page = (tmp_path / "run" / "report.html").read_text()
    (said,) = re.findall(r"Directions that rest on experiments: .*\((\d+)\)", page)
    assert int(said) == list(found.values()).count("target")
    again = load(tmp_path / "run").result
    assert (again.targets, again.experimental) == (done.result.targets, found)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["targets"] == {silo: [list(*own)] for silo, own in done.result.schema.targets.items()}


def test_without_targets_it_is_another_graph(study, tmp_path):
    options = settings(study, tmp_path / "run", targets="none", algorithm="secure-boss")
    done = learn_inline(options, precheck(options))
    assert "experiment" not in rows(tmp_path / "run")[0]
    assert not done.result.targets
    asked = settings(study, tmp_path / "with", algorithm="secure-boss")
    found = learn_inline(asked, precheck(asked)).result.structure.adjacency
    assert not np.array_equal(done.result.structure.adjacency, found)


def test_parameters_of_a_target_are_those_of_the_rows_in_which_it_was_not_set(study, tmp_path):
    done = learn_inline(settings(study, tmp_path / "run"), precheck(settings(study, tmp_path / "run")))
    fitted, truth = done.result.parameters.network.structure, precheck(settings(study, tmp_path / "x")).truth
    targets = [fitted.variables.index(name) for name in done.result.targets]
    learned = fitted.weights[:, targets] != 0
    np.testing.assert_allclose(fitted.weights[:, targets][learned], truth.weights[:, targets][learned], atol=0.12)
    assert learned.any()


REFUSED = {
    "a learner that cannot use them": ({"algorithm": "fed-pc"}, "fed-pc does not use the targets of experiments: use"),
    "an ε": ({"epsilon": 5.0}, "secure-sum with an ε does not use the targets of experiments"),
    "weights of each silo's own": (
        {"algorithm": "secure-boss", "params": {"weights": "own"}},
        "weights=own does not use targets of experiments",
    ),
    "outliers set aside": ({"outliers": "set-aside"}, "targets of experiments need complete tables"),
}


@pytest.mark.parametrize(("options", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_use_targets_refuses_them_in_one_line(study, tmp_path, options, reason):
    asked = settings(study, tmp_path / "run", **options)
    with pytest.raises(BadInput, match=reason) as refusal:
        learn_inline(asked, precheck(asked))
    assert "\n" not in str(refusal.value)
    assert "--targets none" in str(refusal.value)


@pytest.mark.slow
def test_both_engines_agree_and_masks_change_nothing(study, tmp_path, server):
    one = learn_inline(settings(study, tmp_path / "one"), precheck(settings(study, tmp_path / "one")))
    other = learn(settings(study, tmp_path / "other", secure=True))
    np.testing.assert_array_equal(one.result.structure.weights, other.result.structure.weights)


def test_effects_from_rows_that_experiments_have_set_are_refused(study, tmp_path, capsys):
    learn_inline(settings(study, tmp_path / "run"), precheck(settings(study, tmp_path / "run")))
    edge = rows(tmp_path / "run")[0]
    words = ["effect", tmp_path / "run", "--treatment", edge["source"], "--outcome", edge["target"]]
    assert run(capsys, *words)[0] == 0
    code, _, err = run(capsys, *words, "--data", study)
    assert code == 2
    assert "in some rows, so sums over all rows mix mechanisms: omit --data" in err


def test_data_in_memory_take_targets_from_a_file(study, tmp_path):
    data = read_folder(study)
    plain = replace(data, schema=replace(data.schema, targets={}))
    lines = (f"{silo},{name}" for silo, (own,) in data.schema.targets.items() for name in own)
    (tmp_path / "targets.csv").write_text("\n".join(["silo,variable", *lines]))
    found = fedbnsl.learn(plain, targets=str(tmp_path / "targets.csv"), seed=0)
    assert found.result.schema.targets == data.schema.targets
    assert not fedbnsl.learn(plain, seed=0).result.schema.has_targets


@pytest.mark.parametrize("algorithm", ["secure-boss", "secure-ges"])
def test_tables_of_labels_come_from_the_rows_in_which_a_variable_was_not_set(tmp_path, algorithm):
    rng, folder = np.random.default_rng(3), tmp_path / "labels"
    folder.mkdir()
    for silo, factor in (("plain", 1.0), ("set", 0.0), ("other", 1.0)):
        a = rng.integers(2, size=4000)
        b = np.where(rng.random(4000) < 0.8 * factor, a, rng.integers(2, size=4000))
        lines = (f"{['no', 'yes'][x]},{['high', 'low'][y]}" for x, y in zip(a, b, strict=True))
        (folder / f"{silo}.csv").write_text("\n".join(["a,b", *lines]))
    (folder / "about.json").write_text('{"targets": {"set": ["b"]}}')
    options = settings(folder, tmp_path / "run", algorithm=algorithm)
    result = learn_inline(options, precheck(options)).result
    assert result.experimental == {("a", "b"): "target"}
    np.testing.assert_allclose(result.parameters.network.tables["b"], [[0.9, 0.1], [0.1, 0.9]], atol=0.02)


@pytest.fixture(scope="module")
def laboratories(study, tmp_path_factory):
    """The rows of the study in two files, each with a part of every condition, and in one file for each part."""
    data = read_folder(study)
    apart, together = tmp_path_factory.mktemp("apart"), tmp_path_factory.mktemp("together")
    parts, targets = {"north": [], "south": []}, {}
    for silo, table in data.tables.items():
        frame = pd.DataFrame(table, columns=data.schema.variables)
        for laboratory, rows in (("north", frame[::3]), ("south", frame.drop(index=frame.index[::3]))):
            rows.to_csv(apart / f"{laboratory}_{silo}.csv", index=False)
            parts[laboratory].append(rows.assign(drug=silo))
            targets[f"{laboratory}_{silo}"] = list(data.schema.targets.get(silo, ((),))[0])
    for laboratory, each in parts.items():
        pd.concat(each).sample(frac=1, random_state=1).to_csv(together / f"{laboratory}.csv", index=False)
    by_drug = {silo: list(own) for silo, (own,) in data.schema.targets.items()}
    (apart / "about.json").write_text(json.dumps({"targets": targets}))
    (together / "about.json").write_text(json.dumps({"targets": by_drug}))
    return apart, together


@pytest.mark.parametrize("algorithm", ["secure-linear", "secure-boss", "secure-ges"])
def test_conditions_within_silos_are_as_good_as_a_silo_for_each(laboratories, tmp_path, algorithm):
    apart, together = laboratories
    each = settings(apart, tmp_path / "apart", algorithm=algorithm)
    one = settings(together, tmp_path / "one", algorithm=algorithm, condition="drug")
    expected, found = (learn_inline(options, precheck(options)).result for options in (each, one))
    np.testing.assert_array_equal(found.structure.adjacency, expected.structure.adjacency)
    np.testing.assert_allclose(found.structure.weights, expected.structure.weights, atol=1e-6)
    learned = [one.parameters.network.structure.weights for one in (found, expected)]
    np.testing.assert_allclose(*learned, atol=1e-6)
    assert found.experimental == expected.experimental


def test_conditions_are_masked_and_the_same_on_both_engines_and_after_a_restart(laboratories, tmp_path, server):
    options = {"secure": True, "condition": "drug", "algorithm": "secure-boss"}
    one = learn_inline(*(lambda s: (s, precheck(s)))(settings(laboratories[1], tmp_path / "one", **options)))
    other = learn(settings(laboratories[1], tmp_path / "other", **options))
    np.testing.assert_array_equal(one.result.structure.weights, other.result.structure.weights)
    again = load(tmp_path / "one").result
    assert (again.targets, again.experimental) == (one.result.targets, one.result.experimental)
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    assert list(config["conditions"]["north"]) == list(one.result.schema.condition_names["north"])
    assert sum(config["conditions"]["north"].values()) == config["rows"]["north"]
    page = (tmp_path / "one" / "report.html").read_text()
    assert "<th>condition" in page.replace(' scope="col"', "")


def test_resamples_draw_from_each_condition(laboratories, tmp_path):
    schema = read_folder(laboratories[1], Reading(condition="drug")).schema
    half = resampled_schema(schema, SamplingScheme())
    assert half.stretches["north"] == tuple(n - n // 2 for n in schema.stretches["north"])
    table = np.repeat(np.arange(len(schema.stretches["north"])), schema.stretches["north"])[:, None]
    drawn = resample(table, schema, "north", SamplingScheme(), np.random.default_rng(1))
    np.testing.assert_array_equal(
        drawn[:, 0], np.repeat(np.arange(len(half.stretches["north"])), half.stretches["north"])
    )
    options = settings(laboratories[1], tmp_path / "run", condition="drug", bootstrap=5)
    assert learn_inline(options, precheck(options)).result.bootstrap


def test_one_file_with_columns_of_silos_and_of_conditions(laboratories, tmp_path):
    frames = [pd.read_csv(path).assign(lab=path.stem) for path in sorted(laboratories[1].glob("*.csv"))]
    about = json.loads((laboratories[1] / "about.json").read_text())
    found = fedbnsl.learn(pd.concat(frames), by="lab", condition="drug", about=about, seed=0).result
    expected = fedbnsl.learn(laboratories[1], condition="drug", seed=0).result
    assert found.schema.targets == expected.schema.targets
    np.testing.assert_array_equal(found.structure.weights, expected.structure.weights)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Two laboratories whose labels are of five drugs each, with the targets of the drugs."""
    folder, tables = tmp_path_factory.mktemp("labels") / "study", draw(400, TARGETS, 7, "discrete")
    folder.mkdir()
    for number in range(2):
        halves = {drug: np.array_split(tables[drug], 2)[number] for drug in sorted(tables)}
        frames = (pd.DataFrame(X, columns=NAMES).replace(dict(enumerate(LEVELS))) for X in halves.values())
        joined = pd.concat([one.assign(drug=drug) for drug, one in zip(halves, frames, strict=True)])
        joined.to_csv(folder / f"lab-{number}.csv", index=False)
    about = {"condition": "drug", "targets": {drug: list(own[0]) for drug, own in TARGETS.items()}}
    (folder / "about.json").write_text(json.dumps(about))
    return folder


@pytest.mark.slow
def test_a_run_with_conditions_resumed_between_its_rounds_gives_the_same(
    labelled, tmp_path, server, monkeypatch, capsys
):
    words = ["learn", labelled, "--algorithm", "secure-boss", "-p", "exact=0"]
    code, _, err = run(capsys, *words, "--engine", "inline", "--out", tmp_path / "whole")
    assert code == 0, err
    finished = []

    def crash(algorithm, last):
        finished.append(last.number)
        if last.number == 2:
            raise RuntimeError("the coordinator stopped")
        return rounds_row(algorithm, last)

    stop_and_resume(capsys, monkeypatch, "fedbnsl.flows.job.run.rounds_row", words, tmp_path / "out", crash)
    assert finished == [1, 2]
    assert_same_files(tmp_path / "out", tmp_path / "whole", ("structure.csv", "model.bif"))
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["conditions"]["lab-0"].keys() == set("pqrst")
    assert "target" in {row["experiment"] for row in rows(tmp_path / "out")}
