"""The progress line: shown in notebooks by default and elsewhere on request, and removed at the end."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from fedbnsl import learn, prepare
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.api import progress

DATA = prepare("homogeneous", variables=3, silos=2, rows=60, seed=1)


@pytest.fixture
def shown(monkeypatch):
    """Return the successive contents of the line in a notebook cell."""
    said = []

    def display(what, display_id):
        assert display_id is True
        said.append(repr(what))
        return SimpleNamespace(update=lambda line: said.append(repr(line)))

    shell, IPython = SimpleNamespace(kernel=object()), ModuleType("IPython")
    IPython.get_ipython = lambda: shell
    IPython.display = ModuleType("IPython.display")
    IPython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", IPython)
    monkeypatch.setitem(sys.modules, "IPython.display", IPython.display)
    monkeypatch.setattr(progress, "UPDATE_SECONDS", 0.0)
    return said


def test_a_notebook_shows_the_rounds_and_takes_them_away(shown, capsys):
    learn(DATA, "notears-admm", rounds=2)
    assert shown[:2] == ["", "0 s  starting"]
    assert "round 1 of 2: " in shown[2]
    assert "round 2 of 2: " in shown[3]
    assert [line.partition(" s  ")[2] for line in shown[4:]] == ["diagnosing the data", "refitting weights", ""]
    assert capsys.readouterr().err == ""


def test_a_notebook_can_be_told_to_be_silent_and_a_shell_is_no_notebook(shown, monkeypatch):
    learn(DATA, "notears-admm", rounds=2, progress=False)
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", SimpleNamespace)
    learn(DATA, "notears-admm", rounds=2)
    assert shown == []


def test_a_run_that_fails_leaves_no_line(shown):
    with pytest.raises(BadInput):
        learn(DATA, "fdbnl")
    assert shown[-1] == ""


def test_on_a_terminal_it_is_shown_if_asked_for(capsys, monkeypatch):
    monkeypatch.setattr(progress, "UPDATE_SECONDS", 0.0)
    learn(DATA, "notears-admm", rounds=2)
    assert capsys.readouterr().err == ""
    learn(DATA, "notears-admm", rounds=2, progress=True, bootstrap=2)
    lines = capsys.readouterr().err.split("\r")[1:]
    assert all(line.endswith("\x1b[K") and len(line) <= progress.MAX_LINE_CHARACTERS + 3 for line in lines)
    assert "round 2 of 2: " in lines[2]
    assert " of 2 resamples done, " in lines[-2]
    assert lines[-1] == "\x1b[K"


def test_rounds_that_follow_at_once_do_not_flicker(monkeypatch):
    monkeypatch.setattr(progress, "UPDATE_SECONDS", 60.0)
    said = []
    line = progress._Line(said.append)
    heard = SimpleNamespace(
        max_rounds=9,
        round_seconds=0.0,
        round=SimpleNamespace(number=1, outcome=None),
        row={"h": 1.0},
        rows=[{"bytes_up": 1, "bytes_down": 1}],
    )
    line(heard)
    heard.round.outcome = "converged"
    line(heard)
    assert said == ["0 s  starting", "0 s  round 1 of 9: h 1  2 B"]


def test_in_a_notebook_an_error_of_the_user_is_one_line():
    assert BadInput("speed is 5: too fast")._render_traceback_() == ["BadInput: speed is 5: too fast"]
