import re
from dataclasses import replace

import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import Budget
from fedbnsl.data.folder.about import Declared, Reading
from fedbnsl.data.folder.profile import UNDISCLOSED, Profile
from fedbnsl.tasks.silo.messages import MethodCall, SiloFailed
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.federation import Patience, Roster, SiloFederation
from fedbnsl.tasks.transport.in_process import InProcessFederation, InProcessTransport

ALGORITHM = "notears-admm"


@pytest.fixture
def owners(hosted):
    return hosted()


@pytest.fixture
def terms(owners):
    return owners.terms(ALGORITHM, seed=7)


@pytest.fixture
def algorithm():
    return replace(registry.build(registry.specify(ALGORITHM, {})), max_rounds=6)


@pytest.fixture
def broadcast(owners, algorithm):
    """The broadcast of round 1, as bytes."""
    return wire.encode(algorithm.broadcast(algorithm.open_server(owners.data.schema)))


@pytest.mark.parametrize("crash_before", [(), (1,), (4,), (2, 3, 4, 5, 6)])
def test_it_gives_what_the_same_silos_give_in_process_also_after_a_crash(owners, terms, algorithm, crash_before):
    schema = owners.data.schema
    *_, expected = rounds(algorithm, InProcessFederation(schema, owners.data.tables, terms.seed))
    federation = SiloFederation(Roster(InProcessTransport(owners.services), schema.silos, Patience(absent=60.0)), terms)
    if 1 in crash_before:
        owners.restart()
    for found in rounds(algorithm, federation):
        if found.number + 1 in crash_before:
            owners.restart()
    assert wire.encode(found.server) == wire.encode(expected.server)
    assert (found.number, found.traffic) == (expected.number, expected.traffic)


def test_bytes_up_are_those_of_all_replies_and_bytes_down_those_of_a_broadcast_to_each(
    owners, terms, algorithm, broadcast
):
    federation = SiloFederation(
        Roster(InProcessTransport(owners.services), owners.data.schema.silos, Patience(absent=60.0)), terms
    )
    _, traffic = federation.exchange(algorithm, 1, wire.decode(algorithm.broadcast_type, broadcast))
    replies = [silo.solve(terms, 1, broadcast) for silo in owners.services.values()]
    assert traffic.up == sum(map(len, replies))
    assert traffic.down == len(replies) * len(broadcast)
    assert traffic.up != traffic.down


def test_a_repeated_call_is_answered_from_the_journal_and_changes_nothing(owners, terms, broadcast):
    silo = owners.services["silo-1"]
    first, second = (silo.solve(terms, number, broadcast) for number in (1, 2))
    assert silo.solve(terms, 1, broadcast) == first
    owners.restart()
    silo = owners.services["silo-1"]
    assert silo.solve(terms, 1, broadcast) == first
    assert silo.solve(terms, 2, broadcast) == second


def test_a_finished_round_answers_nothing_else(owners, terms, broadcast):
    """The reply to another question, or under other settings, would be taken for the answer to this one."""
    silo = owners.services["silo-1"]
    first = silo.solve(terms, 1, broadcast)
    spec = registry.pack(registry.specify("fed-sparse", {"l1": 0.5}))
    rows = dict(terms.schema.rows, **{"silo-2": 7})
    others = (
        (terms, wire.encode(replace(wire.decode(terms.algorithm().broadcast_type, broadcast), measure=True))),
        (replace(terms, spec=spec), broadcast),
        (replace(terms, schema=replace(terms.schema, rows=rows)), broadcast),
        (replace(terms, seed=terms.seed + 1), broadcast),
    )
    for asked, message in others:
        with pytest.raises(BadInput, match=r"was answered for another broadcast|began under other terms"):
            silo.solve(asked, 1, message)
    assert silo.solve(replace(terms, budget=Budget(3.0)), 1, broadcast) == first
    with pytest.raises(BadInput, match="silo-1: what it received is not a broadcast of notears-admm"):
        silo.solve(terms, 1, b"not even a broadcast")


def test_a_round_too_early_is_refused_with_the_name_of_the_silo(owners, terms, broadcast):
    with pytest.raises(SiloFailed, match="silo-1 is at round 0 of run run and cannot solve round 2"):
        owners.services["silo-1"].solve(terms, 2, broadcast)


def test_what_goes_wrong_in_a_silo_names_it(owners, terms):
    with pytest.raises(BadInput, match="silo silo-1: what it received is not a broadcast of notears-admm"):
        owners.services["silo-1"].solve(terms, 1, wire.encode({"nonsense": 1}))


def test_bad_rows_stay_bad_input(owners, terms, broadcast):
    silo, path = owners.services["silo-1"], owners.files["silo-1"]
    path.write_text(path.read_text().replace("\n", "\nfive,1,1,1,1\n", 1))
    assert re.search(r"silo-1.csv.*'five' is not a number", silo.describe().profile.columns["x1"].odd)
    with pytest.raises(BadInput, match=r"silo-1.csv.*'five' is not a number"):
        silo.solve(terms, 1, broadcast)


def test_a_silo_describes_its_public_part_only_and_leaves_no_file_behind(owners):
    described = owners.services["silo-2"].describe()
    assert described.variables == owners.data.schema.variables
    assert described.rows == 100
    fields = {"silo", "profile", "streamed", "pins_members", "suppresses_cells", "names_only", "level"}
    fields |= {"targets", "targets_by_condition"}
    assert set(vars(described)) == fields
    private = owners.services["silo-2"].describe(Declared(reading=Reading(private=True)))
    assert private.profile == Profile(100, dict.fromkeys(described.variables, UNDISCLOSED))
    assert not (owners.files["silo-2"].parent / ".fedbnsl").exists()


def test_a_folder_is_hosted_as_its_pooled_rows(owners):
    assert SiloService("pooled", owners.files["silo-1"].parent).describe().rows == 300


def test_a_finished_run_is_forgotten(owners, terms, broadcast):
    silo = owners.services["silo-1"]
    silo.solve(terms, 1, broadcast)
    silo.finish("run")
    with pytest.raises(SiloFailed, match="at round 0"):
        silo.solve(terms, 2, broadcast)


def test_two_silos_of_one_process_share_nothing(owners, terms, broadcast):
    """The same run at two silos: each has its own rows, rounds, files and end."""
    one, two = owners.services["silo-1"], owners.services["silo-2"]
    alone = [one.solve(replace(terms, run_id="alone"), number, broadcast) for number in (1, 2)]
    first, of_two = (silo.solve(terms, 1, broadcast) for silo in (one, two))
    assert [first, one.solve(terms, 2, broadcast)] == alone
    assert of_two != first
    one.finish("run")
    one.close()
    reply = two.solve(terms, 2, broadcast)
    owners.restart()
    assert owners.services["silo-2"].solve(terms, 2, broadcast) == reply
    with pytest.raises(SiloFailed, match="silo-1 is at round 0"):
        owners.services["silo-1"].solve(terms, 2, broadcast)


def test_two_silos_of_one_name_share_nothing(owners, hosted, terms, broadcast):
    """Two studies may both call a silo "silo-1", and both may be hosted by one process."""
    other = hosted(seed=2, name="other").services["silo-1"]
    first, second = (silo.solve(terms, 1, broadcast) for silo in (owners.services["silo-1"], other))
    assert first != second
    owners.services["silo-1"].finish("run")
    other.solve(terms, 2, broadcast)


@pytest.mark.parametrize("method", ["close", "_solve", "__init__", "no_such_method"])
def test_a_coordinator_may_call_only_what_is_meant_for_it(owners, method):
    with pytest.raises(ValueError, match=f"cannot call '{method}' of a silo; allowed: describe, admit, "):
        MethodCall(method).on(owners.services["silo-1"])
