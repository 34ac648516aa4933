"""The progress lines of a run whose output is not a terminal."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedbnsl.data.generators.amputate import amputate
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.data.networks.lucas import lucas
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.job.job import STEPS
from fedbnsl.flows.job.run import OPEN_ENDED, time_left
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.terminal.summary import progress_bar
from fedbnsl.tasks.transport.federation import SiloFederation


@pytest.fixture
def lines(capsys):
    def of(data, **given):
        job = job_inline(LearnSettings(data="data", parameters=False, **given), "run", data)
        with progress_bar("run") as listener:
            result = run_inline(job, data, (listener,))
        return result, capsys.readouterr().err.splitlines()

    return of


def test_a_search_has_a_line_for_every_size_of_conditioning_set(lines):
    result, said = lines(lucas("0", 2, 500, 1), algorithm="fed-pc")
    sizes = [row["conditioning_set_size"] for row in result.rounds]
    assert len(said) - 1 >= len({*sizes})
    assert said[0] == "run: starting"
    assert said[1].startswith("round 1: 66 tests, ")
    assert said[1].endswith("; next, conditioning sets of 1")
    last = [line for line in said if line.startswith("round")][-1]
    assert last.endswith("search over")
    assert f"{result.metrics['tests']:,} tests" in last
    assert not any("of 10000" in line for line in said)


def test_rounds_that_are_counted_say_of_how_many(lines):
    _, said = lines(homogeneous(5, 2, 100, 1), algorithm="notears-admm", params={"rounds": 4})
    assert said[1].startswith("round 1 of 4: ")
    last = max(number for number, line in enumerate(said) if line.startswith("round"))
    assert said[last].startswith("round 4 of 4: ")
    assert said[last + 1 :] == ["diagnosing the data", "refitting weights"]


def test_every_exchange_beside_the_rounds_says_in_words_what_it_is_for(capsys):
    """A step without words would show the name of its run id."""
    data = amputate(homogeneous(5, 3, 200, 2), "mcar", 0.05, np.random.default_rng(0))
    job = job_inline(LearnSettings(data="data", bootstrap=5), "run", data)
    asked, exchange = [], SiloFederation.exchange

    def recorded(self, *given):
        asked.append(self.terms.run_id)
        return exchange(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SiloFederation, "exchange", recorded)
        with progress_bar("run") as listener:
            run_inline(job, data, (listener,))
    said = capsys.readouterr().err.splitlines()
    parts = {one.partition("-")[2].partition("-")[0] for one in asked} - {""}
    assert parts >= {"em", "diagnosis", "bootstrap"}
    assert all(STEPS[part] in said for part in parts)


def test_a_step_of_several_exchanges_is_named_once(capsys):
    with progress_bar("run") as listener:
        for words in ("summing", "summing", "searching", "summing"):
            listener.step(None, words)
    assert capsys.readouterr().err.splitlines()[-3:] == ["summing", "searching", "summing"]


def test_resamples_that_are_done_are_counted(capsys):
    with progress_bar("run") as listener:
        listener.resampled(SimpleNamespace(resamples=30), 22, 4)
    assert capsys.readouterr().err.splitlines()[-1] == "exchange 4: 8 of 30 resamples done"


@pytest.mark.parametrize(
    ("number", "of", "seconds", "shown"),
    [
        (10, 100, 0.1, ""),
        (10, 100, 0.2, "up to 18 s left"),
        (10, 100, 2.0, "up to 3 min left"),
        (10, 100, 100.0, "up to 2 h left"),
        (10, OPEN_ENDED, 100.0, ""),
        (100, 100, 100.0, ""),
    ],
)
def test_the_time_left_is_that_of_the_rounds_that_are_allowed(number, of, seconds, shown):
    step = SimpleNamespace(number=number, outcome=None)
    assert time_left(SimpleNamespace(round=step, max_rounds=of, round_seconds=seconds)) == shown


def test_a_round_takes_the_mean_of_the_rounds_so_far():
    data = homogeneous(5, 2, 100, 1)
    job = job_inline(
        LearnSettings(data="data", parameters=False, algorithm="notears-admm", params={"rounds": 4}), "run", data
    )
    found = []
    result = run_inline(job, data, (found.append,))
    assert 0 < found[-1].round_seconds * 4 <= result.metrics["seconds"] + 0.001
