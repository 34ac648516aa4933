"""Hazard ratios and risks of survival outcomes, from the model of a run and from its rows."""

import json

import numpy as np
import pytest

import fedbnsl
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.api.loading import load
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.inference.effects import effects
from fedbnsl.flows.inference.queries import query
from fedbnsl.flows.inference.rescore import rescore
from fedbnsl.flows.inference.survival_effects import survival_node
from tests.flows.registries import write_registry

TIERS = "age<smoking<pressure,noise"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_registry(tmp_path_factory.mktemp("registry") / "data", truth=True)


@pytest.fixture(scope="module")
def result(data):
    fedbnsl.learn(data, tiers=TIERS, bootstrap=0, out=data.parent / "run")
    return load(data.parent / "run").result


def test_a_direct_effect_is_the_hazard_ratio_of_the_node(result):
    report = effects(result, ["smoking"], "death", kind="direct")
    node = survival_node(result, "death")
    assert [one.values for one in report.effects] == [("never", "former"), ("never", "current")]
    for one, term in zip(report.effects, (1, 2), strict=True):
        assert one.measure == "log hazard of death"
        assert one.value == pytest.approx(node.terms[term].coefficient)
        ratio = one.candidates[0].estimate.hazard_ratio
        assert (ratio.value, ratio.interval) == (node.hazard_ratio(term).value, node.hazard_ratio(term).interval)
        np.testing.assert_allclose(one.interval, np.log(ratio.interval))
    assert "hazard ratio" in str(report)
    assert report.as_json()["effects"][0]["adjustment_sets"][0]["hazard_ratio"]["value"] > 1


def test_a_total_effect_is_that_given_the_adjustment_set(result, data):
    (without,) = effects(result, ["age"], "death").effects
    assert without.status == "not identified"
    assert "give --data FOLDER to fit it given age, or --direct" in without.reason
    (total,), (direct,) = (
        effects(result, ["age"], "death", kind=kind, data=data).effects for kind in ("total", "direct")
    )
    assert total.candidates[0].covariates == ()
    assert total.value > direct.value  # smoking, which rises with age, is one of the ways
    (modelled,) = effects(result, ["age"], "death", kind="direct").effects
    assert direct.value == pytest.approx(modelled.value, abs=1e-6)


def test_what_is_no_cause_has_no_effect(result, data):
    (one,) = effects(result, ["noise"], "death", data=data).effects
    assert (one.status, one.value) == ("zero", 0)


def test_two_values_of_a_number_can_be_compared(result):
    (one,) = effects(result, ["age"], "death", kind="direct", values=("50", "70")).effects
    assert one.value == pytest.approx(20 * survival_node(result, "death").terms[0].coefficient)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"bootstrap": 5}, "--bootstrap"),
        ({"by_silo": True}, "--by-silo"),
        ({"placebo": 2}, "--placebo"),
        ({"doubly_robust": True}, "--doubly-robust"),
        ({"by": "smoking"}, "--by"),
        ({"joint": True}, "several --treatment"),
    ],
)
def test_options_of_other_effects_are_refused(result, data, options, fault):
    with pytest.raises(BadInput, match=f"death is a survival outcome, whose hazard ratios have no {fault}"):
        effects(result, ["smoking"], "death", data=data, **options)


def test_the_outcome_affects_nothing(result):
    with pytest.raises(BadInput, match="death is a survival outcome, which has no effect on other variables"):
        effects(result, ["death"], "pressure")


def test_effects_among_the_other_variables_are_as_without_the_outcome(result, data):
    (one,) = effects(result, ["age"], "pressure", kind="direct", data=data).effects
    assert one.value == pytest.approx(0.6, abs=0.1)


def test_a_risk_rises_with_a_cause_and_with_time(result):
    risks = [query(result, f"P(death within 700 | do(smoking={one}))", samples=20_000) for one in ("never", "current")]
    low, high = (one.answer.probabilities[()] for one in risks)
    assert low < high
    for one in risks:
        assert one.interval[0] < one.answer.probabilities[()] < one.interval[1]
        assert "95 % interval" in str(one)
        assert "the piecewise-exponential model of death given age, smoking" in str(one)
        assert one.as_json()["interval"] == list(one.interval)
    later = query(result, "P(death within 1400 | do(smoking=never))", samples=20_000)
    assert later.answer.probabilities[()] > low


def test_a_risk_at_set_parents_is_exact(result):
    found = query(result, "P(death within 700 | do(smoking=former, age=65))")
    node = survival_node(result, "death")
    value, interval = node.risk(700, {"age": np.array([65.0]), "smoking": np.array([1.0])})
    assert (found.answer.probabilities[()], found.interval, found.answer.exact) == (value, interval, True)


def test_a_risk_averages_over_the_parents(result, data):
    """The probability without conditions is the mean over the rows of the data."""
    from fedbnsl.data.folder.folder import read_folder

    tables = np.vstack(list(read_folder(data).tables.values()))
    node = survival_node(result, "death")
    expected, _ = node.risk(700, {"age": tables[:, 0], "smoking": tables[:, 1]})
    assert query(result, "P(death within 700)").answer.probabilities[()] == pytest.approx(expected, abs=0.01)
    old = tables[np.abs(tables[:, 0] - 70) < 2]
    expected, _ = node.risk(700, {"age": old[:, 0], "smoking": old[:, 1]})
    assert query(result, "P(death within 700 | age=70)").answer.probabilities[()] == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("P(death)", r"ask for P\(death within TIME"),
        ("P(death=1)", r"ask for P\(death within TIME"),
        ("P(pressure | death=1)", r"ask for P\(death within TIME"),
        ("P(pressure | do(death=1))", r"ask for P\(death within TIME"),
        ("P(pressure within 5)", "not a survival outcome of the run, which has death"),
        ("P(death within soon)", "the time is not a number"),
        ("P(death within 700, smoking=never)", "ask for one probability of a survival outcome at a time"),
        ("P(death within 99999)", "follow-up ended at"),
        ("P(death within 700 | do(smoking=often, age=60))", "there is no value 'often'"),
        ("P(death within 700 | do(smoking=never, age=old))", "there is no value 'old'"),
        ("P(death within 700 | do(smoking=often))", "there is no label 'often'"),
    ],
)
def test_a_question_without_an_answer_is_refused(result, text, fault):
    with pytest.raises(BadInput, match=fault):
        query(result, text)


def test_commands_print_ratios_and_risks(result, data, capsys):
    run = str(data.parent / "run")
    for words in (
        ["effect", run, "--treatment", "smoking", "--outcome", "death", "--direct"],
        ["effect", run, "--all", "--outcome", "death", "--data", str(data), "--json"],
        ["query", run, "P(death within 365 | do(smoking=never))", "--json"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "direct effect of smoking: never → current on log hazard of death" in text
    assert "; hazard ratio 2." in text
    assert json.loads(text[text.rindex('{\n "run"') :])["interval"]


def test_other_outcomes_of_the_folder_are_not_the_data_of_the_run(result, data, tmp_path):
    other = write_registry(tmp_path / "data", about={"survival": {"end": ["days", "died"]}})
    with pytest.raises(BadInput, match=r"not the data of the run, .*outcomes"):
        effects(result, ["age"], "death", data=other)


def test_runs_are_compared_with_their_outcomes(data, result, tmp_path, capsys):
    other = tmp_path / "other"
    fedbnsl.learn(data, bootstrap=0, forbidden="age->death", out=other)
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(data.parent / "run"), str(other)])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert any("age" in line and "death" in line for line in text.splitlines())


def test_an_edited_graph_is_compared_without_the_outcome(result, data, tmp_path):
    edited = tmp_path / "edited.csv"
    edited.write_text("source,target,type\nage,death,directed\nage,pressure,directed\n")
    found = rescore(result, edited, data)
    assert found.edited.structure.variables == result.schema.variables
    assert found.edited.survival == ()


def test_an_outcome_without_a_node_states_the_reason(result):
    from dataclasses import replace

    (one,) = result.survival
    without = replace(result, survival=(replace(one, node=None, why="its owner refused"),))
    for ask in (lambda: effects(without, ["age"], "death"), lambda: query(without, "P(death within 3)")):
        with pytest.raises(BadInput, match="death: no model, because its owner refused"):
            ask()
