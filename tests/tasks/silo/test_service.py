from dataclasses import replace

import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import gather, rounds, traffic_of
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.in_process import InProcessFederation
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.silo import service as silo_runtime
from fedbnsl.tasks.silo.service import Call, SiloFailed, describe, finish, forget_all, solve

ALGORITHM = "notears-admm"


@pytest.fixture
def data(tmp_path):
    write_folder(tmp_path / "data", homogeneous(variables=5, silos=3, rows=100, seed=1))
    silo_runtime.HOSTED.update({silo: tmp_path / "data" / f"{silo}.csv" for silo in ("silo-1", "silo-2", "silo-3")})
    yield read_folder(tmp_path / "data")
    forget_all()
    silo_runtime.HOSTED.clear()


@pytest.fixture
def call(data):
    return Call("run", registry.pack(registry.specify(ALGORITHM)), wire.encode(data.schema), 7)


@pytest.fixture
def algorithm():
    return replace(registry.build(registry.specify(ALGORITHM, {})), max_rounds=6)


class Runtime:
    """A federation over the runtime in this process; `crash` before a round forgets all that was in memory."""

    def __init__(self, schema, call, crash_before=()):
        self.schema, self.call, self.crash_before = schema, call, crash_before

    def exchange(self, algorithm, number, broadcast, sparse=None):
        if number in self.crash_before:
            forget_all()
        packed = wire.encode(broadcast)
        replies = {
            silo: wire.decode(algorithm.reply_type, solve(silo, self.call, number, packed))
            for silo in self.schema.silos
        }
        return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)


def last(algorithm, federation):
    return list(rounds(algorithm, federation))[-1]


@pytest.mark.parametrize("crash_before", [(), (1,), (4,), (2, 3, 4, 5, 6)])
def test_it_gives_what_the_same_silos_give_in_process_also_after_a_crash(data, call, algorithm, crash_before):
    expected = last(algorithm, InProcessFederation(data.schema, data.tables, call.seed))
    found = last(algorithm, Runtime(data.schema, call, crash_before))
    assert wire.encode(found.server) == wire.encode(expected.server)
    assert found.number == expected.number


def test_a_repeated_call_is_answered_from_the_journal_and_changes_nothing(data, call, algorithm):
    server = algorithm.open_server(data.schema)
    packed = wire.encode(algorithm.broadcast(server))
    first, second = (solve("silo-1", call, number, packed) for number in (1, 2))
    other = b"not even a broadcast"
    assert solve("silo-1", call, 1, other) == first
    forget_all()
    assert solve("silo-1", call, 1, other) == first
    assert solve("silo-1", call, 2, other) == second


def test_a_round_too_early_is_refused_with_the_name_of_the_silo(data, call, algorithm):
    packed = wire.encode(algorithm.broadcast(algorithm.open_server(data.schema)))
    with pytest.raises(SiloFailed, match="silo-1 is at round 0 of run run, it cannot do round 2"):
        solve("silo-1", call, 2, packed)


def test_what_goes_wrong_in_a_silo_names_it(data, call):
    with pytest.raises(SiloFailed, match=r"silo silo-1, round 1: .*Error"):
        solve("silo-1", call, 1, wire.encode({"nonsense": 1}))


def test_bad_rows_stay_bad_input(data, call, algorithm, tmp_path):
    path = tmp_path / "data" / "silo-1.csv"
    path.write_text(path.read_text().replace("\n", "\nfive,1,1,1,1\n", 1))
    with pytest.raises(BadInput, match=r"silo-1.csv.*'five' is not a number"):
        describe("silo-1")
    packed = wire.encode(algorithm.broadcast(algorithm.open_server(data.schema)))
    with pytest.raises(BadInput, match=r"silo-1.csv.*'five' is not a number"):
        solve("silo-1", call, 1, packed)


def test_a_silo_that_is_not_hosted_is_bad_input(data):
    with pytest.raises(BadInput, match="not hosted by this worker"):
        describe("elsewhere")


def test_a_silo_describes_its_public_part_only(data):
    described = describe("silo-2")
    assert described.variables == data.schema.variables
    assert described.rows == 100
    assert set(vars(described)) == {"silo", "variables", "rows"}


def test_a_folder_is_hosted_as_its_pooled_rows(data, tmp_path):
    silo_runtime.HOSTED["pooled"] = tmp_path / "data"
    assert describe("pooled").rows == 300


def test_a_finished_run_is_forgotten(data, call, algorithm):
    packed = wire.encode(algorithm.broadcast(algorithm.open_server(data.schema)))
    solve("silo-1", call, 1, packed)
    finish("silo-1", "run")
    with pytest.raises(SiloFailed, match="at round 0"):
        solve("silo-1", call, 2, packed)
