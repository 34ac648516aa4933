"""Silos behind a secure sum: the coordinator's view, and the requests that a silo refuses."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure import masked_round
from fedbnsl.algorithms.secure.masks import PROTOCOL, Aborted, Refused
from fedbnsl.tasks.silo.secure_sums import SecureSumRequest
from fedbnsl.tasks.transport.federation import Patience, Roster, SecureTransport
from fedbnsl.tasks.transport.in_process import InProcessFederation, InProcessTransport

SILOS = ("silo-1", "silo-2", "silo-3")


@pytest.fixture
def owners(hosted):
    return hosted(rows=400)


@pytest.fixture
def terms(owners):
    return owners.terms("secure-sum")


class Line:
    """A secure transport that records messages; `silent` decides whether a silo gets the request of a phase."""

    def __init__(self, transport, silent):
        self.transport, self.silent, self.seen = transport, silent, []

    def ask(self, phase, messages):
        heard = {silo: message for silo, message in messages.items() if not self.silent(phase, silo)}
        answers = self.transport.ask(phase, heard)
        self.seen.append((phase, dict(answers)))
        return answers


def nobody(phase, silo):
    return False


def exchange(owners, terms, silent=nobody):
    """The replies of round 1, and all that was answered on the way."""
    algorithm = terms.algorithm()
    broadcast = algorithm.broadcast(algorithm.open_server(terms.schema))
    roster = Roster(InProcessTransport(owners.services), terms.schema.silos, Patience(absent=60.0))
    line = Line(SecureTransport(roster, terms, 1, wire.encode(broadcast), None, tolerates_dropout=False), silent)
    digest = terms.exchange_digest(wire.encode(broadcast), None)
    session = masked_round.session_of("run", 1, masked_round.new_attempt(), terms.schema, digest)
    return masked_round.masked_round(
        algorithm, session, line, broadcast, 0, masked_round.encoding_of(algorithm, terms.schema, broadcast)
    )[0], line.seen


def test_the_silos_add_up_what_they_hold(owners, terms):
    found, _ = exchange(owners, terms)
    pooled = np.vstack([owners.data.tables[silo] - owners.data.tables[silo].mean(axis=0) for silo in SILOS])
    expected = (pooled.T @ pooled / len(pooled))[np.triu_indices(5)]
    np.testing.assert_allclose(found.total, expected, atol=1e-8)
    assert found.silos == SILOS


def test_nothing_that_reaches_the_coordinator_is_a_silos_own(owners, terms):
    _, seen = exchange(owners, terms)
    for silo in SILOS:
        X = owners.data.tables[silo] - owners.data.tables[silo].mean(axis=0)
        S = X.T @ X / 1200
        plain = np.rint(S[np.triu_indices(5)] * 2.0**32).astype(np.int64)
        (vector,) = [answers[silo] for phase, answers in seen if phase == "mask"]
        heard = wire.decode(np.ndarray, vector).view(np.int64)
        assert not set(plain.tolist()) & set(heard.tolist())
        correlation = np.corrcoef(plain.astype(float), heard.astype(float))[0, 1]
        assert abs(correlation) < 0.9


def test_whoever_dies_with_its_keys_is_left_behind_and_another_attempt_succeeds(owners, terms):
    def dies(phase, silo):
        if (phase, silo) == ("mask", "silo-2"):
            owners.restart()
            raise Aborted("the worker died")
        return False

    with pytest.raises(Aborted):
        exchange(owners, terms, dies)
    found, _ = exchange(owners, terms)
    assert found.silos == SILOS


def test_two_different_sums_of_one_round_are_not_to_be_had(hosted):
    """The sum over all silos minus the sum over all but one would reveal the summand of that one."""
    owners = hosted(silos=4, seed=2)
    terms = owners.terms("secure-sum")
    first_three = ("silo-1", "silo-2", "silo-3")

    def gone(phase, silo):
        return (phase, silo) == ("mask", "silo-4")

    assert exchange(owners, terms, gone)[0].silos == first_three
    with pytest.raises(Refused, match="silo-1 refuses to unmask: it has helped to unmask another sum of round 1"):
        exchange(owners, terms)
    owners.restart()
    with pytest.raises(Refused, match="has helped to unmask another sum"):
        exchange(owners, terms)
    assert exchange(owners, terms, gone)[0].silos == first_three  # the same sum again reveals nothing new


def test_terms_that_are_not_those_of_the_round_are_refused(owners, terms):
    session = masked_round.session_of("run", 1, 5, terms.schema, b"")
    for wrong in (replace(session, round=2), replace(session, run="another"), replace(session, threshold=2)):
        with pytest.raises(Refused, match="the terms are not those of round 1 of run run"):
            owners.services["silo-1"].secure_answer(terms, 1, SecureSumRequest("advertise", wire.encode(wrong)))


@pytest.mark.parametrize(("theirs", "named"), [("fedbnsl secure sum 99", "sum 99"), ("", "an earlier version")])
def test_a_coordinator_of_another_version_is_named(owners, terms, theirs, named):
    session = replace(masked_round.session_of("run", 1, 5, terms.schema, b""), protocol=theirs)
    with pytest.raises(Refused, match=f"silo-1 .* uses {PROTOCOL}, .* {named}: both need the same version of fedbnsl"):
        owners.services["silo-1"].secure_answer(terms, 1, SecureSumRequest("advertise", wire.encode(session)))


@dataclass
class TwoFaced:
    """A transport that sends silo-2 and silo-3 different terms and a different broadcast for the same sum."""

    owners: object
    honest: tuple
    other: tuple

    def ask(self, phase, messages):
        answers = {}
        for silo, message in messages.items():
            terms, broadcast = self.honest if silo == "silo-1" else self.other
            request = SecureSumRequest(phase, message, broadcast if phase == "mask" else b"")
            answers[silo] = self.owners.services[silo].secure_answer(terms, 1, request)
        return answers


OTHERS = {"another epsilon": {"epsilon": 1e6, "known_scale": 1.0}, "no noise": {}, "other scales": None}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("session_is", ["the honest one", "the other one"])
def test_no_silo_adds_to_the_sum_of_another_exchange(owners, what, session_is):
    """The share of silo-1's noise hides its rows only together with the shares of the others."""
    honest = owners.terms("secure-sum", {"epsilon": 1.0, "known_scale": 1.0})
    other = honest if OTHERS[what] is None else owners.terms("secure-sum", OTHERS[what])
    algorithm = honest.algorithm()
    broadcast = algorithm.broadcast(algorithm.open_server(honest.schema))
    sent = wire.encode(broadcast)
    otherwise = wire.encode(replace(broadcast, scales=2 * broadcast.scales)) if what == "other scales" else sent
    terms, said = (honest, sent) if session_is == "the honest one" else (other, otherwise)
    session = masked_round.session_of(
        "run", 1, masked_round.new_attempt(), terms.schema, terms.exchange_digest(said, None)
    )
    line = TwoFaced(owners, (honest, sent), (other, otherwise))
    encoding = masked_round.encoding_of(algorithm, terms.schema, broadcast)
    with pytest.raises(Refused, match="settings, schema or broadcast are not those of this secure sum"):
        masked_round.masked_round(algorithm, session, line, broadcast, 0, encoding)


def test_masked_and_private_at_once_is_what_it_is_in_process(owners):
    terms = owners.terms("secure-sum", {"epsilon": 3.0, "insecure_seed": 5})
    algorithm = terms.algorithm()
    first = next(iter(rounds(algorithm, InProcessFederation(terms.schema, owners.data.tables)))).server
    found, _ = exchange(owners, terms)
    assert wire.encode(algorithm.aggregate(algorithm.open_server(terms.schema), found)) == wire.encode(first)


def test_keys_are_kept_apart_by_silo_and_dropped_with_the_run(owners, terms):
    """A silo has keys for the run it advertised in, until that run is finished; its neighbour has none of them."""
    session = masked_round.session_of("run", 1, 5, terms.schema, b"")
    one, two = owners.services["silo-1"], owners.services["silo-2"]
    keys = one.secure_answer(terms, 1, SecureSumRequest("advertise", wire.encode(session)))
    question = SecureSumRequest("share", wire.encode({"silo-1": keys}))
    with pytest.raises(Refused, match="silo-2 refuses to share: it has advertised no keys"):
        two.secure_answer(terms, 1, question)
    two.finish("run")
    with pytest.raises(Refused, match="silo-1 refuses to share: 1 silo left, the threshold is 3"):
        one.secure_answer(terms, 1, question)
    one.finish("run")
    with pytest.raises(Refused, match="silo-1 refuses to share: it has advertised no keys"):
        one.secure_answer(terms, 1, question)


def test_a_run_has_one_key_which_is_dropped_with_it(owners, terms):
    """The steps of a run share one key, so silos agree once; the key is dropped when the run ends, not a step."""
    silo = owners.services["silo-1"]

    def public(run, attempt, step_of=""):
        own = replace(terms, run_id=run, step_of=step_of)
        session = masked_round.session_of(run, 1, attempt, terms.schema, b"")
        return silo.secure_answer(own, 1, SecureSumRequest("advertise", wire.encode(session)))[:32]

    first = public("run", 1)
    assert public("run", 2) == public("run-parameters", 1, "run") == first
    assert public("other", 1) != first
    silo.finish("run-parameters")
    assert public("run", 3) == first
    silo.finish("run")
    assert public("run", 4) != first


@pytest.mark.parametrize("remote", [False, True])
def test_the_owner_sees_the_number_that_does_not_fit_the_sum(owners, remote, monkeypatch):
    """Over the network, the message that the coordinator gets has no cell; the log of the owner has it."""
    path, name = owners.files["silo-2"], owners.data.schema.variables[1]
    lines = path.read_text().splitlines()
    cells = lines[18].split(",")
    cells[1] = "1e7"
    path.write_text("\n".join([*lines[:18], ",".join(cells), *lines[19:]]) + "\n")
    owners.restart()
    service, logged = owners.services["silo-2"], []
    monkeypatch.setattr(service, "_guard", replace(service._guard, remote=remote, log=logged.append))
    with pytest.raises(BadInput, match="--outliers set-aside treats outliers as empty cells") as caught:
        exchange(owners, owners.terms("fed-sparse"))
    place = f"{path}: line 19, column '{name}': 1e+07, where the median is"
    assert (place in str(caught.value)) != remote
    assert any(place in line for line in logged) == remote


@pytest.mark.parametrize("factor", [1e-6, 0.0])
def test_a_column_that_does_not_fit_the_sum_is_refused_at_the_silo(owners, factor):
    """Rounded to 2⁻³² or wrapped around, it would make the sum wrong without an error. No unit makes zeros fit."""
    path = owners.files["silo-2"]
    table = owners.data.tables["silo-2"] * [1.0, factor, 1.0, 1.0, 1.0]
    rows = "\n".join(",".join(map(repr, row)) for row in table.tolist())
    path.write_text(",".join(owners.data.schema.variables) + "\n" + rows + "\n")
    owners.restart()
    name = owners.data.schema.variables[1]
    with pytest.raises(BadInput, match=f"silo silo-2, column '{name}': .* all rows of the silo are 0 .*ignore {name}"):
        exchange(owners, owners.terms("fed-sparse"))
