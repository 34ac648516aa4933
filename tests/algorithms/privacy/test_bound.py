"""In one process, too, a charge covers one question, one set of settings and one table."""

import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.privacy.ledger import MemoryLedger, Overspent
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.silo.source import table_digest
from fedbnsl.tasks.transport.in_process import InProcessFederation


@pytest.fixture(scope="module")
def data():
    return homogeneous(variables=4, silos=2, rows=300, seed=1)


def build(**params):
    return registry.build(registry.specify("dp-covariance", {"epsilon": 4.0, **params}))


class TestInProcess:
    @pytest.fixture
    def ledgers(self, data):
        """Ledgers on which round 1 has been charged, and what asked for it."""
        algorithm, ledgers = build(), {silo: MemoryLedger() for silo in data.tables}
        self.ask(algorithm, data.schema, data.tables, ledgers)
        self.algorithm = algorithm
        return ledgers

    def ask(self, algorithm, schema, tables, ledgers, **more):
        federation = InProcessFederation(schema, tables, ledgers=ledgers, **more)
        return federation.exchange(algorithm, 1, algorithm.broadcast(algorithm.open_server(schema)))[0]

    def test_the_same_again_is_free_and_the_same(self, data, ledgers):
        again = [self.ask(self.algorithm, data.schema, data.tables, ledgers) for _ in range(2)]
        assert again[0].total.tobytes() == again[1].total.tobytes()
        assert [len(ledger.charges()) for ledger in ledgers.values()] == [1, 1]

    def test_other_settings(self, data, ledgers):
        with pytest.raises(Overspent, match="charged for another broadcast, other settings or other rows"):
            self.ask(build(clip=9.0), data.schema, data.tables, ledgers)

    def test_one_changed_cell(self, data, ledgers):
        tables = {silo: table.copy() for silo, table in data.tables.items()}
        tables["silo-1"][17, 2] += 1e-12
        with pytest.raises(Overspent, match="other rows"):
            self.ask(self.algorithm, data.schema, tables, ledgers)


def test_the_digest_of_a_table_is_keyed(data, monkeypatch):
    table = data.tables["silo-1"]
    before = table_digest(table)
    assert table_digest(table.copy()) == before
    monkeypatch.setattr("fedbnsl.tasks.silo.source._SECRET", b"of another process")
    assert table_digest(table) != before
