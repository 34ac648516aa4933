"""Repeated runs without a server: what is skipped, compared and kept, and who is notified."""

import json
import sys
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput, SilosUnavailable
from fedbnsl.algorithms.graphs.changes import structure_changes
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.folder.fingerprint import rows_digest
from fedbnsl.data.folder.folder import silo_files
from fedbnsl.flows.engines import run_comparison as follow_module
from fedbnsl.flows.engines.artifacts import markdown
from fedbnsl.flows.engines.recurring import notify, notify_failed, notify_finished, run_recurring
from fedbnsl.flows.engines.run_comparison import (
    LastRun,
    Unchanged,
    compare_with_last_run,
    is_drift,
    last_run_file,
    read_last_run,
    settings_digest,
    write_last_run,
)
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.options.model import validate
from fedbnsl.flows.options.repeat import HOOKS, HookOptions, RepeatSettings
from fedbnsl.tasks.silo.seals import seal
from fedbnsl.tracking.comparison import Comparison
from fedbnsl.tracking.result import CompletedRun
from tests.flows.commands import run

NIGHTLY = RepeatSettings(deployment="nightly")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder of two silos; without about.json, whose checksums would refuse a change."""
    folder = tmp_path_factory.mktemp("repeat") / "study"
    folder.mkdir()
    rng = np.random.default_rng(1)
    for silo in ("clinic", "lab"):
        a = rng.normal(size=60)
        table = np.stack([a, 2 * a + rng.normal(size=60), rng.normal(size=60)], axis=1)
        np.savetxt(folder / f"{silo}.csv", table, delimiter=",", header="a,b,c", comments="")
    return folder


def asked(data, name, **more):
    return LearnSettings(data=str(data), algorithm="secure-sum", name=name, **more).named()


def seals_of(data):
    return lambda context: {silo: seal(path, context) for silo, path in silo_files(data).items()}


def night(data, name, repeat=NIGHTLY, **more):
    """Learn like one nightly run, and keep the result; raises `Unchanged` if the run would be skipped."""
    settings = asked(data, name, **more)
    follows = compare_with_last_run(settings, repeat, seals_of(data))
    found = learn(data, "secure-sum", out=settings.out, name=name, **more).result
    result = follows.add_changes(found)
    follows.save(result)
    return result


@pytest.fixture
def changing(data, tmp_path):
    """A copy of the folder that a test may change."""
    folder = tmp_path / "study"
    folder.mkdir()
    for file in data.glob("*.csv"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_unchanged_data_are_skipped_and_changed_ones_compared(changing):
    first = night(changing, "monday")
    assert first.changes is None
    with pytest.raises(Unchanged, match="no silo's rows or settings have changed since monday"):
        night(changing, "tuesday")
    file = changing / "lab.csv"
    file.write_text("\n".join(file.read_text().splitlines()[:-20]) + "\n")
    second = night(changing, "wednesday")
    assert second.metrics["compared_with"] == "monday"
    assert second.changes.drift.total > 0
    with pytest.raises(Unchanged, match="since wednesday"):
        night(changing, "thursday")


def test_another_question_is_another_run_and_so_is_another_deployment(changing):
    night(changing, "monday")
    assert night(changing, "tuesday", secure=True).changes is not None
    assert night(changing, "wednesday", RepeatSettings(deployment="weekly")).changes is None
    assert night(changing, "thursday", RepeatSettings(deployment="weekly", unchanged="learn")).changes is not None


def test_where_the_results_of_the_run_before_are_gone_it_is_learned_again(changing):
    night(changing, "monday")
    Path("runs/monday/config.json").unlink()
    assert night(changing, "tuesday").changes is None


def test_a_silo_that_was_lost_has_not_been_learned_from(changing):
    follows = compare_with_last_run(asked(changing, "monday"), NIGHTLY, seals_of(changing))
    result = learn(changing, "secure-sum", out="runs/monday").result
    follows.save(replace(result, lost=("lab",)))
    assert set(read_last_run(follows.file).seals) == {"clinic"}
    follows.save(replace(result, outcome="silo lost", lost=("clinic", "lab")))
    assert set(read_last_run(follows.file).seals) == {"clinic"}
    assert compare_with_last_run(asked(changing, "tuesday"), NIGHTLY, seals_of(changing)).before is not None


def test_a_private_run_on_the_same_rows_is_skipped_before_anything_is_spent(changing):
    private = {"epsilon": 100.0, "delta": 1e-4}
    (changing / "about.json").write_text('{"kind": "continuous"}')
    night(changing, "monday", **private)
    ledgers = {path: path.read_bytes() for path in (changing / ".fedbnsl").glob("*.ledger")}
    assert ledgers
    with pytest.raises(Unchanged):
        night(changing, "tuesday", **private)
    assert {path: path.read_bytes() for path in ledgers} == ledgers


def test_what_is_kept_of_the_rows_are_seals_that_only_their_silo_can_make(changing):
    night(changing, "monday")
    kept = last_run_file(Path("runs").absolute(), "nightly").read_text()
    for path in silo_files(changing).values():
        assert rows_digest(path).hex() not in kept
        assert seal(path, "deployment nightly") in kept
        assert seal(path, "deployment weekly") not in kept


def test_checksums_of_rows_do_not_enter_the_question(changing):
    about = changing / "about.json"
    about.write_text(json.dumps({"kind": "continuous", "checksums": {"lab.csv": "ab" * 32}}))
    first = settings_digest(asked(changing, "x"))
    about.write_text(json.dumps({"kind": "continuous", "checksums": {"lab.csv": "cd" * 32}}))
    assert settings_digest(asked(changing, "y")) == first
    about.write_text(json.dumps({"kind": "mixed"}))
    assert settings_digest(asked(changing, "x")) != first
    about.unlink()
    (changing / "truth.csv").write_text("source,target\na,b\n")
    assert settings_digest(asked(changing, "x")) not in (first, settings_digest(asked(changing, "x", seed=4)))


def test_another_version_may_learn_otherwise_from_the_same_rows(changing, monkeypatch):
    first = settings_digest(asked(changing, "x"))
    monkeypatch.setattr(follow_module, "version", lambda package: "0.0.0")
    assert settings_digest(asked(changing, "x")) != first


def test_a_file_that_cannot_be_read_is_no_last_run_and_one_that_cannot_be_written_no_failure(changing, capsys):
    file = last_run_file(Path("runs").absolute(), "a/b")
    assert file.name == "a%2Fb.json"
    assert read_last_run(file) is None
    write_last_run(file, LastRun("runs/x", "q", {"lab": "s"}))
    assert read_last_run(file) == LastRun("runs/x", "q", {"lab": "s"})
    file.write_text('{"folder": 1')
    assert read_last_run(file) is None
    follows = compare_with_last_run(asked(changing, "monday"), NIGHTLY, seals_of(changing))
    blocked = replace(follows, file=changing / "lab.csv" / "x.json")
    blocked.save(learn(changing, "secure-sum").result)
    assert "the next run cannot be compared with this one" in capsys.readouterr().err


@pytest.fixture
def finished(changing):
    night(changing, "monday")
    file = changing / "lab.csv"
    lines = [",".join(line.split(",")[::-1]) for line in file.read_text().splitlines()[1:]]
    file.write_text("\n".join(["a,b,c", *lines]) + "\n")
    result = night(changing, "tuesday")
    return asked(changing, "tuesday"), CompletedRun(result, Path("runs/tuesday"))


def hook_to(file, *events):
    copy = f"import sys; open({str(file)!r}, 'a').write(sys.stdin.read() + chr(10))"
    return HookOptions(hook_command=f'{sys.executable} -c "{copy}"', hook_on=events)


def told_in(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_drift_is_told_with_what_has_changed_and_nothing_of_the_rows(finished, changing, tmp_path):
    settings, done = finished
    notify_finished(settings, NIGHTLY, done, hook_to(tmp_path / "told", "drift", "failure"))
    (message,) = told_in(tmp_path / "told")
    assert (message["event"], message["run"], message["compared_with"]) == ("drift", "tuesday", "monday")
    assert message["edges_changed"] == sum(len(message[one]) for one in ("gained", "lost", "turned")) > 0
    cells = {cell for line in (changing / "lab.csv").read_text().splitlines()[1:] for cell in line.split(",")}
    text = (tmp_path / "told").read_text()
    assert not any(cell in text for cell in cells)


def test_drift_is_what_the_bounds_say(finished):
    _, done = finished
    changes = done.result.changes
    far = RepeatSettings(drift_edges=100, drift_parameters=1e9)
    assert not is_drift(changes, far)
    assert is_drift(changes, far.model_copy(update={"drift_edges": changes.edges_changed}))
    assert is_drift(changes, far.model_copy(update={"drift_parameters": changes.drift.total}))
    other = replace(changes, structure=replace(changes.structure, added_variables=("x",)))
    assert is_drift(other, far)


def test_a_failure_is_told_by_its_kind_and_not_in_words_that_quote_a_cell(finished, tmp_path):
    settings, done = finished
    hook = hook_to(tmp_path / "told", "failure")
    for error in (
        BadInput("lab.csv: line 3, column 'a': '17.25' is no number"),
        SilosUnavailable("lab"),
        KeyError("17.25"),
    ):
        notify_failed(settings, NIGHTLY, error, hook)
    lost = replace(done, result=replace(done.result, outcome="silo lost", lost=("lab",)))
    notify_finished(settings, NIGHTLY, lost, hook)
    notify_finished(settings, NIGHTLY, done, hook)
    reasons = [message["reason"] for message in told_in(tmp_path / "told")]
    assert reasons == ["wrong input", "silos did not respond", "the run failed", "silos were lost"]
    assert "17.25" not in (tmp_path / "told").read_text()


def test_a_message_is_posted_to_an_address(finished):
    posted = []

    class Listening(BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append(
                (self.headers["Content-Type"], json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            )
            self.send_response(204)
            self.end_headers()

        def log_message(self, *said):
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Listening) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/hook?token=secret"
        notify(HookOptions(hook_url=url), "drift", {"run": "tuesday"})
        server.shutdown()
    assert posted == [("application/json", {"event": "drift", "run": "tuesday"})]


def test_a_hook_that_fails_is_said_without_its_secret_and_harms_nothing(capsys):
    hook = HookOptions(hook_url="http://127.0.0.1:9/hook?token=secret", hook_command=f"{sys.executable} -c 'exit(3)'")
    notify(hook, "failure", {})
    lost = HookOptions(hook_command="no-such-command-anywhere")
    notify(lost, "failure", {})
    said = capsys.readouterr().err.splitlines()
    assert [line.split(" failed")[0] for line in said] == [
        "note: the hook at 127.0.0.1",
        f"note: the hook {sys.executable}",
        "note: the hook no-such-command-anywhere",
    ]
    assert "(CalledProcessError 3)" in said[1]
    assert "secret" not in "".join(said)


def test_a_skipped_run_ends_in_a_state_of_its_own_and_a_refused_one_without_a_traceback(
    changing, tmp_path, capsys, monkeypatch
):
    """The hooks run in the process that serves runs."""
    monkeypatch.setenv(HOOKS, hook_to(tmp_path / "told", "unchanged", "failure").model_dump_json())

    def unchanged(settings, repeat):
        raise Unchanged("nothing to learn")

    def failed(settings, repeat):
        raise BadInput("no such column")

    state = run_recurring(asked(changing, "x"), NIGHTLY, unchanged)
    assert (state.type.value, state.name, state.message) == ("COMPLETED", "Skipped", "nothing to learn")
    assert "note: skipped: nothing to learn" in capsys.readouterr().err
    state = run_recurring(asked(changing, "x"), NIGHTLY, failed)
    assert (state.type.value, state.message) == ("FAILED", "no such column")
    assert capsys.readouterr().err == f"note: {NIGHTLY.deployment} failed: no such column\n"
    with pytest.raises(ZeroDivisionError):
        run_recurring(asked(changing, "x"), NIGHTLY, lambda settings, repeat: 1 / 0)
    assert [message["event"] for message in told_in(tmp_path / "told")] == ["unchanged", "failure", "failure"]


def test_the_artifact_names_what_has_changed(finished):
    changes = finished[1].result.changes
    text = markdown(changes)
    assert text.startswith("# Changes since `monday`")
    (edge, *_) = changes.structure.changed
    assert f"- `{edge.edge.text}`" in text


def test_a_backtick_in_a_name_does_not_end_the_code_of_the_artifact():
    before, after = (Structure(("a", "b`*x*"), np.array(weights)) for weights in ([[0, 0], [0, 0]], [[0, 1.0], [0, 0]]))
    text = markdown(Comparison("monday", structure_changes(before, after), weighted=True))
    assert "- `a → b´*x*`" in text.splitlines()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"hook_url": "ftp://example.org"}, "hook_url is 'ftp://example.org': give an address that begins with http"),
        ({"hook_url": "https://"}, "hook_url is 'https://'"),
        ({"hook_command": "tee 'a"}, 'hook_command is "tee \'a": give one or more words, and close quotation marks'),
        ({"hook_on": "drift,rain"}, "hook_on: 'rain' is no event; available: drift, failure, learned, unchanged"),
        ({"drift_edges": 0}, "drift_edges is '0'"),
        ({"unchanged": "perhaps"}, "unchanged is 'perhaps'"),
    ],
)
def test_wrong_words_are_refused_in_one_line(words, said):
    with pytest.raises(BadInput) as error:
        validate(HookOptions if next(iter(words)).startswith("hook") else RepeatSettings, words)
    assert str(error.value).startswith(said)


def test_two_runs_are_compared_by_hand(finished, capsys, tmp_path):
    code, out, err = run(capsys, "compare", "runs/monday", "runs/tuesday", "--json")
    assert code == 0, err
    told = json.loads(out)
    changes = finished[1].result.changes
    assert told["parameter_drift"] == pytest.approx(changes.metrics["parameter_drift"], rel=1e-6)
    assert {name: told[name] for name in changes.metrics} == changes.metrics | {
        "parameter_drift": told["parameter_drift"]
    }
    edges = [follow_module.metrics_in(Path("runs") / name)["edges"] for name in ("monday", "tuesday")]
    assert told["scores"].get("edges", {"before": edges[0], "after": edges[1]}) == {
        "before": edges[0],
        "after": edges[1],
    }
    assert ("edges" in told["scores"]) == (edges[0] != edges[1])
    code, out, _ = run(capsys, "compare", "runs/monday", "runs/tuesday")
    assert code == 0
    assert ("score" in out) == bool(told["scores"])
    assert "edges since monday: " in out
    assert "drift in nats per row:" in out
    code, _, err = run(capsys, "compare", "runs/monday", tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    assert "no finished run: config.json cannot be read" in err


def test_a_run_is_read_back_as_it_was(data, tmp_path):
    result = learn(data, "secure-sum", out=tmp_path / "run", name="mine").result
    found = follow_module.read_run(tmp_path / "run")
    assert found.name == "mine"
    np.testing.assert_array_equal(found.structure.weights, result.structure.weights)
    np.testing.assert_allclose(found.network.variances, result.parameters.network.variances)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "FEDBNSL_HOOKS must be a JSON object such as"),
        ("[]", "FEDBNSL_HOOKS must be a JSON object such as"),
        ('{"hook_shell": "rm"}', "FEDBNSL_HOOKS: unknown option 'hook_shell': "),
        ('{"hook_on": ["rain"]}', "FEDBNSL_HOOKS: hook_on: 'rain' is no event; available: "),
        ('{"hook_command": 3}', "FEDBNSL_HOOKS: hook_command is '3': "),
    ],
)
def test_hooks_that_cannot_be_read_are_refused(given, said, monkeypatch):
    monkeypatch.setenv(HOOKS, given)
    with pytest.raises(BadInput) as error:
        HookOptions.of_environment()
    assert str(error.value).startswith(said)


def test_hooks_are_read_from_the_environment(monkeypatch):
    monkeypatch.setenv(HOOKS, '{"hook_command": "notify", "hook_on": ["failure", "learned"]}')
    assert HookOptions.of_environment() == HookOptions(hook_command="notify", hook_on=("failure", "learned"))
    monkeypatch.delenv(HOOKS)
    assert HookOptions.of_environment() == HookOptions()


def test_no_parameter_of_a_deployment_is_a_hook():
    """Otherwise, anyone with access to the API could run a command on the machine that serves runs."""
    assert [name for name in RepeatSettings.model_fields if "hook" in name or "command" in name] == []
    with pytest.raises(BadInput, match="hook_command"):
        validate(RepeatSettings, {"hook_command": "touch stolen"})
