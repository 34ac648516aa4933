"""The round loop and its messages, with an algorithm whose answer is known: the pooled mean."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import (
    FederatedAlgorithm,
    Limits,
    Replies,
    SiloLost,
    Traffic,
    gather,
    rounds,
    silo_generator,
)
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tasks.transport.in_process import federate


@dataclass(frozen=True)
class Sum:
    value: np.ndarray


@dataclass(frozen=True)
class Server:
    total: np.ndarray
    number: int = 0


def mean_of_rows(max_rounds: int = 3, stop: int = 99) -> FederatedAlgorithm[Server, Sum, Sum, Sum]:
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: Sum(table.sum(axis=0)),
        open_server=lambda schema: Server(np.zeros(len(schema.variables))),
        broadcast=lambda server: Sum(np.zeros(1)),
        local_solve=lambda silo, asked: (silo, silo),
        aggregate=lambda server, replies: Server(server.total + replies.total, server.number + 1),
        converged=lambda server: server.number >= stop,
        structure=lambda server: Structure(("x0", "x1"), np.zeros((2, 2))),
        server_type=Server,
        broadcast_type=Sum,
        reply_type=Sum,
        max_rounds=max_rounds,
        summand=lambda reply: reply.value,
    )


TABLES = {"b": np.full((3, 2), 2.0), "a": np.ones((4, 2))}


def test_rounds_stop_at_convergence_or_when_they_are_used_up() -> None:
    outcomes = [one.outcome for one in rounds(mean_of_rows(5, stop=2), federate(TABLES))]
    assert outcomes == [None, "converged"]
    assert [one.outcome for one in rounds(mean_of_rows(2), federate(TABLES))] == [None, "out of rounds"]


def test_rounds_end_before_an_exchange_that_would_exceed_their_bytes() -> None:
    first, *_ = rounds(mean_of_rows(5), federate(TABLES))
    for times, outcomes in {
        0.1: ["out of bytes"],
        2.9: [None, "out of bytes"],
        3.0: [None, None, "out of bytes"],
        9.0: [None, None, None, None, "out of rounds"],
    }.items():
        run = list(rounds(mean_of_rows(5), federate(TABLES), limits=Limits(bytes=times * first.traffic.total)))
        assert [one.outcome for one in run] == outcomes
        assert sum(one.traffic.total for one in run) <= max(times, 1) * first.traffic.total


def test_rounds_end_when_their_time_is_over_unless_they_converge() -> None:
    over = Limits(ends=time.monotonic())
    assert [one.outcome for one in rounds(mean_of_rows(5), federate(TABLES), limits=over)] == ["out of time"]
    assert [one.outcome for one in rounds(mean_of_rows(5, stop=1), federate(TABLES), limits=over)] == ["converged"]
    later = Limits(ends=time.monotonic() + 3600)
    assert len(list(rounds(mean_of_rows(5), federate(TABLES), limits=later))) == 5


def test_the_sum_reaches_the_server_and_nothing_else() -> None:
    seen: list[Replies[Any]] = []
    algorithm = mean_of_rows(1)
    watched = replace(
        algorithm, aggregate=lambda server, replies: (seen.append(replies), algorithm.aggregate(server, replies))[1]
    )
    last = list(rounds(watched, federate(TABLES)))[-1]
    np.testing.assert_array_equal(last.server.total, [10.0, 10.0])
    assert seen[0].each == ()
    assert seen[0].silos == ("a", "b")


def test_gathering_does_not_change_a_silos_own_array() -> None:
    mine = np.ones(2)
    gather(mean_of_rows(), {"a": Sum(mine), "b": Sum(np.ones(2))})
    np.testing.assert_array_equal(mine, 1.0)


def test_traffic_counts_every_silo_both_ways() -> None:
    last = list(rounds(mean_of_rows(1), federate(TABLES)))[-1]
    assert last.traffic.up == 2 * len(wire.encode(Sum(np.zeros(2))))
    assert last.traffic.down == 2 * len(wire.encode(Sum(np.zeros(1))))
    assert last.traffic.formula == 2 * 16 + 2 * 8
    assert last.traffic + Traffic(1, 2, 3) == Traffic(
        last.traffic.up + 1, last.traffic.down + 2, last.traffic.formula + 3
    )


def test_a_lost_silo_ends_the_run_with_the_last_finished_round() -> None:
    federation = federate(TABLES)
    whole = federation.exchange

    class Losing:
        schema = federation.schema

        def exchange(self, algorithm: Any, number: int, broadcast: Any, sparse: Any = None) -> Any:
            if number == 2:
                raise SiloLost(("b",), "its worker died")
            return whole(algorithm, number, broadcast)

    first, end = rounds(mean_of_rows(5), Losing())
    assert (end.outcome, end.lost, end.number) == ("silo lost", ("b",), 1)
    assert wire.encode(end.server) == wire.encode(first.server)
    assert str(SiloLost(("b",), "its worker died")) == "b: its worker died"


def test_a_silos_randomness_depends_on_its_name_and_the_seed_alone() -> None:
    draws = {name: silo_generator(7, name).random() for name in ("a", "b")}
    assert draws["a"] != draws["b"]
    assert silo_generator(7, "a").random() == draws["a"]
    assert silo_generator(8, "a").random() != draws["a"]


@pytest.mark.parametrize("outcome", ["converged", "out of rounds"])
def test_resuming_continues_the_count(outcome: str) -> None:
    algorithm = mean_of_rows(4, stop=3 if outcome == "converged" else 99)
    rest = list(rounds(algorithm, federate(TABLES), resume=(2, Server(np.zeros(2), 2))))
    assert rest[0].number == 3
    assert rest[-1].outcome == outcome
