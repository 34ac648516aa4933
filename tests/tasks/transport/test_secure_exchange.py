from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.secure import masked_round
from fedbnsl.algorithms.secure.masks import Aborted
from fedbnsl.tasks.silo.secure_sums import SecureSumRequest
from fedbnsl.tasks.transport.federation import Patience, Roster, SiloFederation
from fedbnsl.tasks.transport.in_process import InProcessTransport


@dataclass
class Crashing:
    """Silos in this process; silo-2 loses its keys on the first `times` requests for its masked summand."""

    owners: object
    times: int

    def present(self):
        return tuple(self.owners.services)

    def submit(self, silo, call):
        if silo == "silo-2" and call.arguments[2].phase == "mask" and self.times:
            self.times -= 1
            self.owners.restart(("silo-2",))
        return InProcessTransport(self.owners.services).submit(silo, call)


def exchange(owners, times):
    terms = owners.terms("secure-sum")
    algorithm = terms.algorithm()
    federation = SiloFederation(Roster(Crashing(owners, times), terms.schema.silos, Patience(absent=60.0)), terms)
    return federation.exchange(algorithm, 1, algorithm.broadcast(algorithm.open_server(terms.schema)))


@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_sum_is_begun_anew_where_a_worker_lost_its_keys(hosted, times):
    owners = hosted()
    replies, traffic = exchange(owners, times)
    pooled = np.vstack([table - table.mean(axis=0) for table in owners.data.tables.values()])
    np.testing.assert_allclose(replies.total, (pooled.T @ pooled / 300)[np.triu_indices(5)], atol=1e-8)
    assert replies.each == ()
    assert traffic.up > 0


def test_a_sum_that_fails_three_times_is_given_up(hosted):
    with pytest.raises(SiloLost, match="silo-2 refuses to mask: it has advertised no keys"):
        exchange(hosted(), 3)


@dataclass
class Losing:
    """Silos in this process; in the given attempt, each silo in `lost` stops for good at its phase."""

    owners: object
    lost: list[dict[str, str]]
    asked: list[str] = field(default_factory=list)
    attempts: list[bytes] = field(default_factory=list)

    def present(self):
        return tuple(self.owners.services)

    def submit(self, silo, call):
        request = call.arguments[2]
        if request.phase == "advertise" and request.message not in self.attempts:
            self.attempts.append(request.message)
        index = len(self.attempts) - 1
        if index < len(self.lost) and self.lost[index].get(silo) == request.phase:
            raise SiloLost((silo,), f"{silo} is gone")
        self.asked.append(request.phase)
        return InProcessTransport(self.owners.services).submit(silo, call)


def exchange_of_many(owners, lost):
    terms = owners.terms("secure-sum")
    algorithm = replace(terms.algorithm(), tolerates_dropout=True)
    transport = Losing(owners, lost)
    federation = SiloFederation(Roster(transport, terms.schema.silos, Patience(absent=60.0)), terms)
    replies, _ = federation.exchange(algorithm, 1, algorithm.broadcast(algorithm.open_server(terms.schema)))
    return replies, transport


@pytest.fixture
def many(hosted):
    return hosted(silos=34, rows=10)


@pytest.mark.parametrize("phases", [(), ("mask",), ("advertise", "mask", "mask", "advertise")])
def test_a_sum_of_many_silos_goes_on_with_those_that_are_left(many, phases):
    names = sorted(many.data.tables)[3::5][: len(phases)]
    lost = [{silo: phase} for silo, phase in zip(names, phases, strict=True)]
    replies, transport = exchange_of_many(many, lost)
    kept = [silo for silo in many.data.tables if silo not in names]
    assert replies.silos == tuple(sorted(kept))
    pooled = np.vstack([many.data.tables[silo] - many.data.tables[silo].mean(axis=0) for silo in kept])
    np.testing.assert_allclose(replies.total, (pooled.T @ pooled / 340)[np.triu_indices(5)], atol=1e-8)
    assert len(transport.attempts) == len(phases) + 1
    assert "share" not in transport.asked


def test_a_silo_that_is_lost_while_the_others_remove_their_masks_ends_the_run(many):
    with pytest.raises(SiloLost, match=r"phase unmask: 33 of 34 silos answered, all have to \(silent: silo-05\)"):
        exchange_of_many(many, [{"silo-05": "unmask"}])


def test_a_sum_of_too_few_of_many_silos_ends_the_run(many):
    lost = dict.fromkeys(sorted(many.data.tables)[:12], "mask")
    with pytest.raises(SiloLost, match="22 of 34 silos answered, all have to"):
        exchange_of_many(many, [lost])


def test_a_silo_refuses_a_session_of_too_few_or_of_others(many):
    terms = many.terms("secure-sum")
    silos, digest = terms.schema.silos, b""
    honest = masked_round.session_of("run", 1, 5, terms.schema, digest, silos[:23])
    for change in ({"silos": silos[:22]}, {"threshold": 8}, {"silos": (*silos[:22], "silo-99")}):
        request = SecureSumRequest("advertise", wire.encode(replace(honest, **change)))
        with pytest.raises(Aborted):
            many.services[silos[0]].secure_answer(terms, 1, request)
    assert many.services[silos[0]].secure_answer(terms, 1, SecureSumRequest("advertise", wire.encode(honest)))
