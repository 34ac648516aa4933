"""One run of a deployment at a time: superseded runs, and runs continued after a crash."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedbnsl.algorithms.errors import BadInput, SilosUnavailable
from fedbnsl.flows.engines import recurring
from fedbnsl.flows.engines.recurring import SUPERSEDED, Superseded, only_run, run_recurring
from fedbnsl.flows.engines.resuming import STARTED, Started, write_started
from fedbnsl.flows.engines.run_comparison import claimed_run, compare_with_last_run
from fedbnsl.flows.options.repeat import RepeatSettings
from fedbnsl.tasks.silo.private_folder import RecordUnavailable
from tests.flows.engines.test_repeat import NIGHTLY, asked, changing, data, learn, seals_of  # noqa: F401, fixtures

NOW = datetime.now(UTC)


def test_a_run_beside_another_one_of_its_deployment_is_superseded(tmp_path):
    with only_run(tmp_path, "nightly", NOW):
        with pytest.raises(Superseded, match="in progress"), only_run(tmp_path, "nightly", NOW):
            raise AssertionError
        with only_run(tmp_path, "weekly", NOW):
            pass


def test_missed_runs_become_one(tmp_path):
    """After a power loss, the runs of three nights are started at once."""
    with only_run(tmp_path, "nightly", NOW - timedelta(days=3)):
        pass
    for days in (2, 1):
        missed = only_run(tmp_path, "nightly", NOW - timedelta(days=days))
        with pytest.raises(Superseded, match="before the last run began"), missed:
            raise AssertionError
    with only_run(tmp_path, "nightly", datetime.now(UTC) + timedelta(days=1)):
        pass


def test_a_superseded_run_does_nothing_and_says_so(changing, capsys):  # noqa: F811
    settings = asked(changing, "monday")
    with only_run(Path("runs").absolute(), "nightly", NOW):
        state = run_recurring(settings, NIGHTLY, lambda *given: pytest.fail("it has learned"))
    assert (state.type.value, state.name) == ("COMPLETED", SUPERSEDED)
    assert capsys.readouterr().err == "note: superseded: another run of this deployment is in progress\n"


def interrupted(folder, name):
    """The settings of a run of `NIGHTLY` that was claimed and then killed in its rounds."""
    settings = asked(folder, name)
    compare_with_last_run(settings, NIGHTLY, seals_of(folder))
    write_started(Path(settings.out), Started(settings, "id", "sqlite:///m.db", "", {}))
    return settings


def told(kept, *errors):
    """A stand-in for `learn` that keeps its settings; it raises `errors` in turn, and then returns a finished run."""
    left = list(errors)

    def stand_in(settings, repeat):
        kept.append((settings.name, settings.resume))
        if left:
            raise left.pop(0)
        return recurring.CompletedRun(learn(settings.data, "secure-sum").result, Path(str(settings.out)))

    return stand_in


def test_the_next_run_continues_an_interrupted_one(changing):  # noqa: F811
    interrupted(changing, "monday")
    kept = []
    run_recurring(asked(changing, "tuesday"), NIGHTLY, told(kept))
    assert kept == [("monday", True)]


def test_other_settings_or_another_deployment_do_not_continue_it(changing):  # noqa: F811
    interrupted(changing, "monday")
    assert claimed_run(asked(changing, "tuesday"), "nightly").name == "monday"
    assert claimed_run(asked(changing, "tuesday", seed=4), "nightly") is None
    assert claimed_run(asked(changing, "tuesday"), "weekly") is None
    kept = []
    run_recurring(asked(changing, "tuesday"), RepeatSettings(deployment="weekly"), told(kept))
    assert kept == [("tuesday", False)]


def test_a_finished_run_is_not_continued(changing):  # noqa: F811
    settings = interrupted(changing, "monday")
    comparison = compare_with_last_run(settings, NIGHTLY, seals_of(changing))
    result = learn(changing, "secure-sum").result
    comparison.save(replace(result, outcome="silo lost"))
    assert claimed_run(settings, "nightly") is not None
    comparison.save(result)
    assert claimed_run(settings, "nightly") is None


def test_what_cannot_be_continued_is_learned_anew_once(changing, capsys):  # noqa: F811
    interrupted(changing, "monday")
    kept = []
    run_recurring(asked(changing, "tuesday"), NIGHTLY, told(kept, BadInput("silo lab has different rows")))
    assert kept == [("monday", True), ("tuesday", False)]
    assert "monday cannot be continued (silo lab has different rows): learning anew" in capsys.readouterr().err
    assert claimed_run(asked(changing, "wednesday"), "nightly") is None


@pytest.mark.parametrize("fault", [SilosUnavailable("no worker hosts lab"), RecordUnavailable("the disk is full")])
def test_while_silos_or_their_disks_fail_it_can_still_be_continued(changing, fault):  # noqa: F811
    interrupted(changing, "monday")
    kept = []
    state = run_recurring(asked(changing, "tuesday"), NIGHTLY, told(kept, fault))
    assert state.is_failed()
    assert kept == [("monday", True)]
    assert claimed_run(asked(changing, "wednesday"), "nightly").name == "monday"
    assert (claimed_run(asked(changing, "wednesday"), "nightly") / STARTED).exists()
