"""Runs with `--targets unknown`: files, both engines, masks, lost silos, resuming, policies, refusals."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

import fedbnsl
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.interventions import interventions
from fedbnsl.flows.api.loading import load
from fedbnsl.flows.job.check import create_job
from fedbnsl.flows.job.unknown_targets import check_unknown_targets
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo.gate import Gate
from fedbnsl.tasks.silo.policy import NotAllowed, Policy
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.transport.federation import SiloFederation
from tests.flows.commands import assert_same_files, run, stop_and_resume

WRITTEN = ("structure.csv", "targets.csv", "model.json")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Six silos, of which four have soft experiments; `about.json` does not name the targets."""
    folder = tmp_path_factory.mktemp("unknown") / "study"
    write_folder(folder, interventions(6, 6, 900, 1002, "soft", targeted_silos=4, edges=8))
    about = json.loads((folder / "about.json").read_text())
    given = about.pop("targets")
    (folder / "about.json").write_text(json.dumps(about))
    return folder, {(silo, name) for silo, own in given.items() for name in own}


@pytest.fixture(scope="module")
def whole(study, tmp_path_factory):
    """The files of a run in one process."""
    out = tmp_path_factory.mktemp("whole") / "run"
    fedbnsl.learn(study[0], targets="unknown", seed=0, engine="inline", out=out)
    return out


def evidence(folder):
    with (folder / "targets.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_targets_are_found_written_and_told_from_given_ones(study, whole):
    assert {(row["silo"], row["variable"]) for row in evidence(whole)} == study[1]
    assert all(float(row["p_value"]) < 0.001 and float(row["statistic"]) > 20 for row in evidence(whole))
    result = load(whole).result
    assert len(result.found_targets.changes) == result.metrics["changed_mechanisms"] == len(study[1])
    assert {name for _, name in study[1]} == set(result.targets)
    assert "target" in result.experimental.values()
    assert result.basis[0].startswith("Mechanisms of ")
    assert "the run compared 6 silos and found these targets" in result.basis[0]
    page = (whole / "report.html").read_text()
    assert "The run found these targets" in page
    assert "likelihood ratio" in page
    assert "with changed mechanisms" in page


def with_targets(study):
    """The data with the targets as they were drawn."""
    data, targets = read_folder(study[0]), {}
    for silo, name in sorted(study[1]):
        targets.setdefault(silo, []).append(name)
    return replace(data, schema=replace(data.schema, targets={silo: (tuple(own),) for silo, own in targets.items()}))


def test_the_graph_is_that_of_given_targets(study, whole):
    given = fedbnsl.learn(with_targets(study), seed=0, engine="inline").result
    found = load(whole).result
    np.testing.assert_allclose(found.structure.weights, given.structure.weights)
    assert found.experimental == given.experimental
    assert given.found_targets is None


@pytest.mark.parametrize("algorithm", ["secure-linear", "secure-boss", "secure-ges"])
def test_learners_that_use_targets_find_them(study, algorithm):
    found = fedbnsl.learn(study[0], algorithm=algorithm, targets="unknown", seed=0, engine="inline").result
    assert {(one.condition, one.variable) for one in found.found_targets.changes} == study[1]
    given = fedbnsl.learn(with_targets(study), algorithm=algorithm, seed=0, engine="inline").result
    np.testing.assert_allclose(found.structure.weights, given.structure.weights)


@pytest.mark.slow
def test_both_engines_agree_and_masks_change_nothing(study, whole, server, tmp_path, capsys):
    words = ["learn", study[0], "--targets", "unknown", "--secure", "--out", tmp_path / "out"]
    code, _, err = run(capsys, *words)
    assert code == 0, err
    assert_same_files(tmp_path / "out", whole, ("structure.csv", "targets.csv"))


@pytest.mark.slow
def test_a_run_resumed_after_its_targets_were_found_gives_the_same(study, whole, server, tmp_path, monkeypatch, capsys):
    words = ["learn", study[0], "--targets", "unknown"]
    stop_and_resume(capsys, monkeypatch, "fedbnsl.flows.job.run.parameters", words, tmp_path / "out")
    assert_same_files(tmp_path / "out", whole, WRITTEN)


def test_a_silo_lost_before_the_targets_are_found_ends_the_run(study, monkeypatch):
    exchange = SiloFederation.exchange

    def lost(self, *given):
        if self.terms.run_id.endswith("-targets"):
            raise SiloLost(("silo-2",), "gone")
        return exchange(self, *given)

    monkeypatch.setattr(SiloFederation, "exchange", lost)
    with pytest.raises(BadInput, match="silo-2 did not respond while the targets of experiments were found"):
        fedbnsl.learn(study[0], targets="unknown", seed=0, engine="inline")


def test_conditions_of_several_laboratories_are_compared_by_name(study, tmp_path):
    data = read_folder(study[0])
    names = data.schema.variables
    for number in range(2):
        lines = [",".join((*names, "drug"))]
        for silo in data.schema.silos:
            half = np.array_split(data.tables[silo], 2)[number]
            lines += [",".join((*map(repr, map(float, row)), silo.replace("silo", "drug"))) for row in half]
        (tmp_path / f"lab-{number}.csv").write_text("\n".join(lines) + "\n")
    found = fedbnsl.learn(tmp_path, targets="unknown", condition="drug", seed=0, engine="inline").result
    assert found.found_targets.by == "condition"
    assert {(one.condition.replace("drug", "silo"), one.variable) for one in found.found_targets.changes} == study[1]
    assert found.schema.targets["lab-0"] == found.schema.targets["lab-1"]


def test_without_experiments_nothing_is_found_and_the_result_says_so(tmp_path):
    data = interventions(6, 5, 600, 1004, "soft", targeted_silos=0, edges=8)
    options = {"seed": 0, "engine": "inline", "bootstrap": 0}
    found = fedbnsl.learn(data, targets="unknown", out=tmp_path / "run", **options).result
    assert found.basis[0].startswith(
        "No mechanism differs between silos: the run compared 5 silos and found no targets"
    )
    assert not found.targets
    assert not evidence(tmp_path / "run")
    plain = fedbnsl.learn(data, **options).result
    np.testing.assert_array_equal(found.structure.weights, plain.structure.weights)


REFUSED = {
    "an ε": ({"epsilon": 5.0}, "secure-sum with an ε does not use the targets of experiments"),
    "another learner": ({"algorithm": "fed-pc"}, "fed-pc does not use the targets of experiments: use"),
}


@pytest.mark.parametrize(("options", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_find_targets_refuses_in_one_line(study, options, reason):
    with pytest.raises(BadInput, match=reason) as refusal:
        fedbnsl.learn(study[0], targets="unknown", engine="inline", **options)
    assert "\n" not in str(refusal.value)


def test_tables_of_numbers_and_labels_are_refused(study):
    schema = replace(read_folder(study[0]).schema, kind="mixed", levels={"x1": ("a", "b")})
    job = create_job(LearnSettings(data=str(study[0]), targets="unknown"), "run", "inline", schema, {}, None, {})
    with pytest.raises(BadInput, match=r"compares tables of numbers or of labels, and .* has both: select columns of"):
        check_unknown_targets(job, schema)


def test_two_silos_are_refused():
    with pytest.raises(BadInput, match="compares 3 silos or conditions at least, and there are 2"):
        fedbnsl.learn(interventions(4, 2, 50, 1, "soft", targeted_silos=0), targets="unknown", engine="inline")


def test_an_owner_who_demands_masks_refuses_sums_of_one_silo_or_condition(study):
    schema = replace(read_folder(study[0]).schema, compares_conditions=True)
    spec = registry.specify("secure-boss", {})

    def check(policy, asked):
        Gate("silo-1", policy, guarded=True).check_sums(RunTerms("run", registry.pack(spec), asked, 0), asked.silos)

    for policy in (Policy(rows=5), Policy(masked=True, experiments=True)):
        check(policy, schema)
    with pytest.raises(NotAllowed, match="a combination is over silo-1 alone: the minimum is 2 silos"):
        check(Policy(masked=True), schema)
    names, halves = (
        dict.fromkeys(schema.rows, ("a", "b", "c")),
        {silo: (9, 9, n - 18) for silo, n in schema.rows.items()},
    )
    within = replace(schema, condition_names=names, stretches=halves)
    check(Policy(masked=True, silos=6), within)
    with pytest.raises(NotAllowed, match="silo-6 alone: the minimum is 7"):
        check(Policy(masked=True, silos=7), within)
