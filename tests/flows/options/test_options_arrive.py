"""Options reach the run from every entry point: no command and no call drops one."""

import inspect
import json

import pytest

from fedbnsl import learn
from fedbnsl.algorithms.privacy.ledger import Overspent
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.data.networks.lucas import TARGET, lucas
from fedbnsl.flows import schedule
from fedbnsl.flows.api import learning
from fedbnsl.flows.options.learn import LearnOptions, LearnSettings
from fedbnsl.flows.options.repeat import HookOptions, RepeatOptions, RepeatSettings
from tests.flows.commands import run
from tests.flows.options.values import OTHER

REPEATED = {
    "unchanged": "learn",
    "changed_rows": "5",
    "drift_edges": "3",
    "drift_parameters": "0.5",
    "keep": "30",
    "hook_url": "https://example.org/hook",
    "hook_command": "tee -a told",
    "hook_on": "failure,unchanged",
}
PRIVATE = {name: OTHER[name] for name in ("algorithm", "epsilon", "delta", "budget", "secure")}
WORDS = ("-a", "secure-sum", "--epsilon", "1.5", "--delta", "1e-7", "--budget", "2.5", "--secure")


def options_of(settings):
    return {name: getattr(settings, name) for name in PRIVATE}


def test_a_call_from_python_passes_every_option_on(monkeypatch, example):
    passed, asked = [], {name: value for name, value in OTHER.items() if name != "params"}
    monkeypatch.setattr(learning, "_learned", lambda settings, data, engine, *more: passed.append((settings, engine)))
    learn(example, engine="prefect", scale_share=0.3, **asked)
    ((settings, engine),) = passed
    assert engine == "prefect"
    assert settings.params == {"scale_share": 0.3}
    assert settings.data == str(example)
    assert {name: getattr(settings, name) for name in asked} == asked
    default = LearnOptions()
    assert [name for name in asked if getattr(settings, name) == getattr(default, name)] == []


def test_options_of_python_that_have_no_value_here_are_noticed():
    """A new option of `learn` needs a value above, so that it is known to arrive."""
    told = set(inspect.signature(learn).parameters) & set(LearnOptions.model_fields)
    assert told == set(OTHER)


def test_a_budget_and_masks_asked_for_in_python_bind(example):
    assert learn(example, "fed-sparse", rounds=2, secure=True).result.secure
    data = homogeneous(4, 3, 200, 1)
    with pytest.raises(Overspent, match=r"budget of 0\.5"):
        learn(data, "secure-sum", epsilon=2.0, budget=0.5)


def test_serving_passes_on_what_a_private_run_is_asked_for(monkeypatch, capsys, example):
    passed = {}
    told = lambda settings, repeat, hooks, **when: passed.update(when, settings=settings, repeat=repeat)  # noqa: E731
    monkeypatch.setattr(schedule, "serve_learn", told)
    assert run(capsys, "serve", example, *WORDS, "--interval", "3600")[0] == 0
    assert (passed["cron"], passed["interval"]) == (None, 3600.0)
    assert options_of(passed["settings"]) == PRIVATE
    assert run(capsys, "serve", example, *WORDS, "--cron", "0 3 * * *")[0] == 0
    assert (passed["cron"], passed["interval"]) == ("0 3 * * *", None)
    assert passed["repeat"] == RepeatSettings(deployment="scheduled")


def test_a_list_that_is_not_given_keeps_its_default(monkeypatch, capsys, example):
    passed = []
    monkeypatch.setattr(schedule, "serve_learn", lambda settings, repeat, hooks, **when: passed.append(hooks))
    assert run(capsys, "serve", example)[0] == 0
    assert passed == [HookOptions()]
    assert HookOptions().hook_on


def test_a_federation_is_served_without_a_folder(monkeypatch, capsys, tmp_path):
    passed = []
    monkeypatch.setattr(schedule, "serve_learn", lambda settings, repeat, hooks, **when: passed.append(settings))
    file = tmp_path / "study" / "federation.toml"
    assert run(capsys, "serve", "--federation", file)[0] == 0
    (settings,) = passed
    assert (settings.federation, settings.data) == (str(file), str(tmp_path / "study"))
    assert settings.dataset == "study"
    of_coordinator = settings.model_copy(update={"data": str(file.parent / "coordinator")})
    assert of_coordinator.dataset == "study"
    code, _, err = run(capsys, "serve")
    assert (
        code,
        "no data: give a FOLDER with one file per silo, one file with --by COLUMN, or --federation FILE" in err,
    ) == (2, True)


def test_serving_passes_on_how_runs_follow_each_other(monkeypatch, capsys, example):
    passed = []
    monkeypatch.setattr(schedule, "serve_learn", lambda settings, repeat, hooks, **when: passed.append((repeat, hooks)))
    words = [word for name, value in REPEATED.items() for word in (f"--{name.replace('_', '-')}", value)]
    code, _, err = run(capsys, "serve", example, "--name", "nightly", *words)
    assert code == 0, err
    ((repeat, hooks),) = passed
    given = {**dict(repeat), **dict(hooks)}
    default = {**dict(RepeatSettings()), **dict(HookOptions())}
    assert set(REPEATED) == set(RepeatOptions.model_fields) | set(HookOptions.model_fields)
    assert repeat.deployment == "nightly"
    assert [name for name in REPEATED if given[name] == default[name]] == []
    assert (repeat.changed_rows, repeat.drift_edges, hooks.hook_on) == (5, 3, ("failure", "unchanged"))


def test_a_deployment_starts_from_all_settings_and_keeps_its_schedule(example):
    asked = {name: value for name, value in OTHER.items() if name in LearnSettings.model_fields}
    settings = LearnSettings(data=str(example), **asked)
    repeat = RepeatSettings(deployment="often", drift_edges=4)
    deployment = schedule.create_deployment(settings, repeat, interval=90.0)
    assert LearnSettings.model_validate(deployment.parameters["settings"]) == settings
    assert RepeatSettings.model_validate(deployment.parameters["repeat"]) == repeat
    (only,) = deployment.schedules
    assert only.schedule.interval.total_seconds() == 90.0
    assert deployment.name == "often"


def test_features_are_learned_behind_masks_if_asked_for(capsys, tmp_path):
    folder = tmp_path / "study"
    write_folder(folder, lucas("0", 3, 300, 2))
    for number, more in enumerate(((), ("--secure",))):
        out = tmp_path / f"out-{number}"
        code, _, err = run(capsys, "features", folder, "--target", TARGET, "--engine", "inline", "--out", out, *more)
        assert code == 0, err
        assert json.loads((out / "config.json").read_text())["secure"] == bool(more)


def test_a_graph_is_scored_against_the_truth_and_not_the_truth_against_it(capsys, tmp_path):
    """Two edges found, one of them true, of three true ones."""
    (tmp_path / "found.csv").write_text("source,target\na,b\nd,e\n")
    (tmp_path / "true.csv").write_text("source,target\na,b\nb,c\nc,d\n")
    code, out, _ = run(capsys, "evaluate", tmp_path / "found.csv", tmp_path / "true.csv", "--json")
    scores = json.loads(out)
    assert code == 0
    assert (scores["edges"], scores["true_edges"], scores["extra"], scores["missing"]) == (2, 3, 1, 2)
    assert (scores["tpr"], scores["fdr"]) == (pytest.approx(1 / 3), 0.5)


@pytest.mark.parametrize(
    ("name", "preset", "expected"),
    [
        ("fed-sparse", "sachs", {"center": True, "threshold": 0.3, "l1": 1.0, "rho2": 5.0}),
        ("fed-sparse", "paper-sachs", {"center": False, "threshold": 0.1, "l1": 1.0, "rho2": 5.0}),
        ("notears-admm", "fed-bnsl-sachs", {"center": False, "threshold": 0.1, "l1": 0.1, "rho2": 10.0}),
    ],
)
def test_a_preset_is_what_a_run_is_made_with(capsys, example, tmp_path, name, preset, expected):
    words = ("-a", name, "-p", f"preset={preset}", "-p", "rounds=2", "--engine", "inline", "--out", tmp_path / "out")
    code, _, err = run(capsys, "learn", example, *words)
    assert code == 0, err
    made = json.loads((tmp_path / "out" / "config.json").read_text())["params"]
    assert {key: made[key] for key in expected} == expected
    assert made["rounds"] == 2
