"""The laws every algorithm of the registry obeys, whatever it computes."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from fedbnsl.algorithms import registry, wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.in_process import InProcessFederation, federate, silo_generator
from fedbnsl.algorithms.protocol import FederatedAlgorithm, rounds
from fedbnsl.data.federated import pool
from fedbnsl.data.generate import homogeneous

Algorithm = FederatedAlgorithm[Any, Any, Any, Any]
ROUNDS = 8

everyone = pytest.mark.parametrize("name", sorted(registry.ALGORITHMS))
iterative = pytest.mark.parametrize(
    "name", [name for name in sorted(registry.ALGORITHMS) if registry.build(name, registry.configure(name, {})).kept]
)


def algorithm_of(name: str) -> Algorithm:
    return registry.build(name, registry.configure(name, {"rounds": ROUNDS}))


def tables(silos: int = 3, rows: int = 80, variables: int = 5, seed: int = 5) -> dict[str, np.ndarray]:
    return homogeneous(variables, silos, rows, seed).tables


def run(name: str, federation: InProcessFederation) -> Any:
    return list(rounds(algorithm_of(name), federation))


def last_state(name: str, federation: InProcessFederation) -> bytes:
    return wire.encode(run(name, federation)[-1].server)


def arrays_in(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    if is_dataclass(value):
        return [array for field in fields(value) for array in arrays_in(getattr(value, field.name))]
    return []


@everyone
class TestEveryAlgorithm:
    def test_the_order_of_the_silos_does_not_matter(self, name: str) -> None:
        given = tables()
        turned = dict(reversed(given.items()))
        assert last_state(name, federate(given)) == last_state(name, federate(turned))

    def test_a_seed_gives_the_same_result_again(self, name: str) -> None:
        assert last_state(name, federate(tables(), seed=3)) == last_state(name, federate(tables(), seed=3))

    def test_one_silo_with_all_rows_is_the_pooled_data_set(self, name: str) -> None:
        data = pool(homogeneous(5, 3, 80, 5))
        stacked = np.vstack([table for _, table in sorted(homogeneous(5, 3, 80, 5).tables.items())])
        alone = InProcessFederation(replace(data.schema), {"pooled": stacked})
        assert last_state(name, InProcessFederation(data.schema, data.tables)) == last_state(name, alone)

    def test_state_round_trips_through_its_checkpoint(self, name: str) -> None:
        algorithm = algorithm_of(name)
        whole = run(name, federate(tables()))
        federation = federate(tables())
        middle = list(islice(rounds(algorithm, federation), max(1, len(whole) // 2)))[-1]
        packed = wire.encode(middle.server)
        server = wire.decode(algorithm.server_type, packed)
        assert wire.encode(server) == packed
        if middle.outcome is None:
            rest = list(rounds(algorithm, federation, resume=(middle.number, server)))
            assert wire.encode(rest[-1].server) == wire.encode(whole[-1].server)
            assert rest[-1].number == whole[-1].number

    def test_a_silo_reopened_from_its_journal_goes_on_as_if_nothing_had_happened(self, name: str) -> None:
        algorithm = algorithm_of(name)
        whole = run(name, federate(tables()))
        federation = federate(tables())
        server = None
        for one in rounds(algorithm, federation):
            server = one.server
            for silo, state in federation._states.items():
                journal = wire.encode({field: getattr(state, field) for field in algorithm.kept})
                opened = algorithm.open_silo(
                    federation.tables[silo], federation.schema, silo, silo_generator(federation.seed, silo)
                )
                kept = wire.decode(dict, journal)
                federation._states[silo] = replace(opened, **kept)
        assert wire.encode(server) == wire.encode(whole[-1].server)

    def test_a_reply_carries_no_table(self, name: str) -> None:
        """Nothing that travels grows with the number of rows, and no array has a side as long as a table."""
        shapes = []
        for rows in (97, 193):
            seen: list[tuple[int, ...]] = []
            given = tables(rows=rows)
            watch(
                algorithm_of(name), given, lambda message, seen=seen: seen.extend(a.shape for a in arrays_in(message))
            )
            assert seen
            assert not any(rows in shape or rows * 5 in shape for shape in seen)
            shapes.append(max((int(np.prod(shape)) for shape in seen), default=0))
        all_tests = 10 * 2**3 * 5  # 10 pairs, the subsets of the other 3, at most 5 numbers a test
        assert max(shapes) <= (all_tests if "cit-voting" in name else 5 * 5)

    def test_the_order_of_the_rows_does_not_matter(self, name: str) -> None:
        given = tables()
        rng = np.random.default_rng(0)
        mixed = {silo: rng.permutation(table) for silo, table in given.items()}
        one, other = run(name, federate(given))[-1].server, run(name, federate(mixed))[-1].server
        structure = algorithm_of(name).structure
        np.testing.assert_allclose(structure(one).weights, structure(other).weights, atol=0.02)

    def test_the_structure_is_over_the_given_variables_without_loops(self, name: str) -> None:
        variables = tuple("abcde")
        structure = algorithm_of(name).structure(run(name, federate(tables(), variables))[-1].server)
        assert structure.variables == variables
        assert not np.diag(structure.weights).any()
        assert np.isfinite(structure.weights).all()

    def test_measures_are_finite_in_every_round(self, name: str) -> None:
        algorithm = algorithm_of(name)
        for one in rounds(algorithm, federate(tables())):
            assert all(np.isfinite(value) for value in algorithm.measures(one.server).values())

    def test_a_sum_is_all_that_a_sum_only_algorithm_is_given(self, name: str) -> None:
        algorithm = algorithm_of(name)
        if algorithm.summand is None:
            pytest.skip("needs each reply")
        federation = federate(tables())
        replies, _ = federation.exchange(algorithm, 1, algorithm.broadcast(algorithm.open_server(federation.schema)))
        assert replies.each == ()
        assert replies.total is not None

    def test_settings_out_of_range_are_refused_with_the_value(self, name: str) -> None:
        with pytest.raises(BadInput, match=r"rounds is 0: it must be 1 or more"):
            registry.configure(name, {"rounds": "0"})
        with pytest.raises(BadInput, match=r"parameter rounds of .* is 'many': it must be a whole number"):
            registry.configure(name, {"rounds": "many"})
        with pytest.raises(BadInput, match=rf"unknown parameter 'lambda' of {name}: there are "):
            registry.configure(name, {"lambda": "1"})


@iterative
class TestConsensus:
    """Laws of the algorithms whose rounds carry a state: consensus ADMM."""

    def test_silos_with_the_same_rows_learn_what_one_of_them_would(self, name: str) -> None:
        table = next(iter(tables(silos=1, rows=400).values()))
        algorithm = registry.build(name, registry.configure(name, {}))
        if registry.entry(name).pooled or name == "fed-frank-wolfe":
            pytest.skip("runs on one silo, or never gets to the bottom of its problem")
        alone = list(rounds(algorithm, federate({"a": table})))[-1].server
        three = list(rounds(algorithm, federate({"a": table, "b": table, "c": table})))[-1].server
        np.testing.assert_allclose(algorithm.structure(three).weights, algorithm.structure(alone).weights, atol=0.02)

    def test_twice_the_unit_changes_no_edge(self, name: str) -> None:
        """Where penalties are scaled, a federation that measures in millimetres learns what it learns in metres."""
        if not registry.configure(name, {}).scaled:
            pytest.skip("penalties in the papers' absolute terms")
        algorithm = registry.build(name, registry.configure(name, {}))
        given = tables(rows=400)
        metres = list(rounds(algorithm, federate(given)))[-1].server
        millimetres = list(rounds(algorithm, federate({silo: 1000 * table for silo, table in given.items()})))[
            -1
        ].server
        np.testing.assert_allclose(
            algorithm.structure(metres).weights, algorithm.structure(millimetres).weights, atol=1e-3
        )


def watch(algorithm: Algorithm, given: dict[str, np.ndarray], see: Callable[[Any], None]) -> None:
    """Run `algorithm` and show `see` every broadcast and reply."""

    def local_solve(silo: Any, broadcast: Any) -> Any:
        see(broadcast)
        silo, reply = algorithm.local_solve(silo, broadcast)
        see(reply)
        return silo, reply

    for _ in rounds(replace(algorithm, local_solve=local_solve), federate(given)):
        pass
