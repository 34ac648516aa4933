"""A run's options about its silos reach the code that waits for them."""

from functools import partial

import pytest

from fedbnsl.algorithms.errors import BadInput, SilosUnavailable
from fedbnsl.flows.engines.dask import quorum_note
from fedbnsl.flows.engines.resuming import Interrupted, Pin
from tests.flows.engines.reached import SCHEMA, reach


@pytest.fixture
def reached(monkeypatch, tmp_path):
    return partial(reach, monkeypatch, tmp_path)


@pytest.mark.parametrize("seconds", [7.25, 431.0])
def test_the_patience_asked_for_is_that_of_the_start_and_of_the_rounds(reached, seconds):
    run = reached(silo_patience=seconds)
    assert run.patience == seconds
    assert run.federation.roster.patience.absent == seconds
    assert run.again.roster.patience.absent == seconds
    assert run.described.patience.absent == seconds


def test_the_quorum_asked_for_holds_at_the_start_and_later(reached):
    run = reached(quorum=2)
    assert (run.quorum, run.federation.roster.quorum) == (2, 2)
    run = reached()
    assert (run.quorum, run.federation.roster.quorum) == (None, 1)


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({"algorithm": "fed-pc"}, ""),
        ({"algorithm": "fed-pc", "quorum": 2}, ""),
        ({"algorithm": "fed-sparse", "quorum": 3}, ""),
        (
            {"algorithm": "fed-sparse", "quorum": 2},
            "--quorum 2 applies before round 1 only: fed-sparse needs all 3 silos in every round",
        ),
        (
            {"algorithm": "fed-pc", "quorum": 2, "secure": True},
            "--quorum 2 has the effect of 3: masked sums of 3 silos need 3 of them",
        ),
    ],
)
def test_a_quorum_below_what_a_run_needs_is_noted(reached, options, note):
    assert quorum_note(reached(**options).job, SCHEMA) == note


def test_a_quorum_above_the_number_of_silos_is_refused(reached):
    with pytest.raises(BadInput, match="--quorum 4: the run has only 3 silos"):
        reached(quorum=4)


def test_only_the_silos_asked_for_are_started_and_waited_for(reached):
    assert sorted(reached().files) == ["clinic", "lab", "ward"]
    run = reached(silos=("clinic", "ward"))
    assert sorted(run.files) == sorted(run.asked) == ["clinic", "ward"]


def test_a_silo_that_stayed_away_is_noted_before_how_the_rows_were_read(reached):
    assert reached().silos.session.notes == ("ward did not connect: learned without it", "a note")


def test_a_silo_that_does_not_describe_its_rows_is_left_out_by_a_quorum_only(reached):
    run = reached(silent=("lab",), quorum=1)
    assert run.described.silos == ("clinic",)
    assert "lab did not describe its rows: learned without it" in run.silos.session.notes
    for quorum in (None, 2):
        with pytest.raises(SilosUnavailable, match="lab: frozen, before the rows were described"):
            reached(silent=("lab",), quorum=quorum)


def test_a_resumed_run_waits_for_those_it_began_with_and_not_for_those_given_up(reached):
    pins = {"clinic": Pin(211, "x"), "lab": Pin(89, "y")}
    run = reached(Interrupted(pins, {"lab": "it was given up"}), quorum=2)
    assert (run.asked, run.quorum) == (("clinic", "lab"), None)
    assert run.federation.roster.lost == {"lab": "it was given up"}


def test_a_silo_given_up_once_is_not_waited_for_by_any_exchange(reached):
    run = reached()
    assert run.again.roster.lost == {}
    run.again.roster.lost["lab"] = "it is gone"
    later = run.silos.session.connect(run.job, run.job.spec, "third")
    assert later.roster.lost == run.federation.roster.lost == {"lab": "it is gone"}


def test_the_terms_of_a_run_are_those_asked_for(reached):
    run = reached(seed=1723, budget=2.9, budget_delta=1e-7, secure=True, missing="complete-rows", ignore=("c",))
    terms = run.federation.terms
    assert (terms.run_id, terms.seed) == ("run 17", 1723)
    assert (terms.budget.epsilon, terms.budget.delta) == (2.9, 1e-7)
    assert run.federation.secure
    assert not reached().federation.secure
    assert (terms.declared.reading.missing, terms.declared.reading.ignore) == ("complete-rows", ("c",))
