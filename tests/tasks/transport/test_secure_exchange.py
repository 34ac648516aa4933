from dataclasses import dataclass

import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.tasks.transport.federation import Patience, Roster, SiloFederation
from fedbnsl.tasks.transport.in_process import InProcessTransport


@dataclass
class Crashing:
    """Silos in this process; silo-2 loses its keys so many `times` when it is asked for its masked summand."""

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
