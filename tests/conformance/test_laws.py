"""The rules that every registered algorithm obeys."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import islice
from typing import Any, get_type_hints

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.admm.settings import ConsensusSettings
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Cost, ReplaceOne
from fedbnsl.algorithms.core.protocol import Algorithm, rounds, silo_generator
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure, unstacked
from fedbnsl.algorithms.privacy.ledger import Budget, Overspent, spent, total
from fedbnsl.algorithms.privacy.private_scales import BUCKETS
from fedbnsl.algorithms.resampling.bootstrap import Bootstrap
from fedbnsl.data.federated import events, pool
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import InProcessFederation, federate

ROUNDS = 5
LEVELS = ("low", "middle", "high")

# Every algorithm with its defaults, and private variants.
ALSO = {
    "secure-sum, private": ("secure-sum", {"epsilon": 50.0}),
    "fed-pc, private": ("fed-pc", {"epsilon": 10.0, "depth": 1, "orientation": "sepset"}),
    "fed-fci, private": ("fed-fci", {"epsilon": 10.0, "depth": 0, "orientation": "sepset"}),
    "secure-sum, series": ("secure-sum", {"lags": 1}),
    "secure-linear, series": ("secure-linear", {"lags": 1}),
    "secure-boss, series": ("secure-boss", {"lags": 1}),
    "fed-pc, series": ("fed-pc", {"lags": 1}),
    "secure-ges, series": ("secure-ges", {"lags": 1}),
    "secure-sum, series, private": ("secure-sum", {"lags": 1, "epsilon": 50.0, "protect": "row"}),
    "dp-covariance, series": ("dp-covariance", {"lags": 1, "epsilon": 200.0}),
    "secure-linear, experiments": ("secure-linear", {}),
    "secure-boss, experiments": ("secure-boss", {}),
    "secure-ges, experiments": ("secure-ges", {"refine": True}),
    "secure-boss, experiments, mixed": ("secure-boss", {}),
    "secure-boss, experiments, by configuration, mixed": ("secure-boss", {"mixed_score": "conditional-gaussian"}),
    "secure-boss, experiments, labels": ("secure-boss", {}),
    "secure-boss, mixed": ("secure-boss", {}),
    "secure-ges, mixed": ("secure-ges", {}),
    "secure-ges, refined": ("secure-ges", {"refine": True}),
    "secure-boss, by configuration, mixed": ("secure-boss", {"mixed_score": "conditional-gaussian"}),
    "fed-pc, mixed": ("fed-pc", {}),
    "fed-fci, mixed": ("fed-fci", {}),
    "secure-sum, mixed": ("secure-sum", {}),
    "secure-sum, mixed, private": ("secure-sum", {"epsilon": 50.0}),
    "dp-covariance, mixed": ("dp-covariance", {"epsilon": 50.0}),
}
LABELS = {f"{name}, labels": (name, {}) for name, one in registry.ALGORITHMS.items() if "discrete" in one.kinds}
ALSO |= LABELS
# These learn from discrete data.
DISCRETE = ("fed-pc, private", "fed-fci, private", "secure-boss, experiments, labels", *LABELS)
# They learn from three columns of numbers, and two of three levels: two indicators each.
MIXED = tuple(name for name in ALSO if ", mixed" in name)
# Few rows, so little noise hides them, and small networks, which are trained quickly. Their silos have set variables:
# each other ones, and all but the last.
EXPERIMENTS = tuple(name for name in ALSO if ", experiments" in name)
LENIENT = {"dp-covariance": {"epsilon": 50.0}, "dp-fed-sparse": {"epsilon": 50.0}} | {
    f"notears-mlp{kind}": {"units": 3, "steps": 20} for kind in ("", "-admm", "-best", "-voting")
}
# Learners inside the bootstrap: with one round and many, with sums and single replies, with state, for series.
BOOTSTRAPPED = {
    f"{name}, bootstrapped": name
    for name in (
        *("secure-sum", "secure-linear", "secure-ges", "fed-sparse", "fed-pc"),
        *("fed-ges", "pc-voting", "notears", "fdbnl"),
    )
} | {f"{name}, bootstrapped": name for name in ("secure-boss, mixed", "secure-linear, series", "secure-boss, series")}
NAMES = [*sorted(registry.ALGORITHMS), *ALSO, *BOOTSTRAPPED]
# They learn from time series, with one lag: five variables and as many lagged ones.
SERIES = tuple(name for name, entry in registry.ALGORITHMS.items() if entry.kinds == ("time-series",)) + tuple(
    name for name in ALSO if ", series" in name
)
SERIES += tuple(name for name, learner in BOOTSTRAPPED.items() if learner in SERIES)
# They learn from events of five types.
EVENTS = tuple(name for name, entry in registry.ALGORITHMS.items() if entry.kinds == ("events",))
MIXED += tuple(name for name, learner in BOOTSTRAPPED.items() if learner in MIXED)


def params_of(case: str) -> tuple[str, dict[str, Any]]:
    """The algorithm of `case`, and parameters that make it short and its noise repeatable."""
    case = BOOTSTRAPPED.get(case, case)
    name, params = ALSO.get(case, (case, LENIENT.get(case, {})))
    known = registry.parameter_names(name)
    return name, params | {key: value for key, value in (("rounds", ROUNDS), ("insecure_seed", 1)) if key in known}


def algorithm_of(case: str, **other: Any) -> Algorithm:
    name, params = params_of(case)
    spec = registry.specify(name, params | other)
    if case in BOOTSTRAPPED:
        spec = spec.wrapped("bootstrap", Bootstrap(3, lags=int(case in SERIES)))
    return registry.build(spec)


def most_numbers(case: str) -> int:
    """The maximum size of an array in a message: about the number of pairs of five variables."""
    name, params = params_of(case)
    size = registry.entry(name).message_size(registry.specify(name, params).settings, 5)
    if size != 5**2:
        return size
    columns = columns_of(case)
    if algorithm_of(case).private:
        return columns * BUCKETS
    if case in MIXED:
        return (1 + columns + columns * (columns + 1) // 2) * (3 if case in EXPERIMENTS else 1)
    return 3 * columns * 5 if case in SERIES else 5 * 5 * (3 if case in EXPERIMENTS else 1)  # of each of three silos


def columns_of(case: str) -> int:
    """How many columns a silo works with: its variables, those of its windows, or those of its coded rows."""
    return 10 if case in SERIES else 7 if case in MIXED else 5


def in_stretches(given: dict[str, np.ndarray], **other: Any) -> InProcessFederation:
    """The silos whose `given` tables are two unbroken stretches each."""
    variables = other.pop("variables", tuple(f"x{i}" for i in range(5)))
    rows = {silo: len(table) for silo, table in given.items()}
    stretches = {silo: (n // 2, n - n // 2) if n > 1 else (n,) for silo, n in rows.items()}
    return InProcessFederation(Schema(variables, rows, "time-series", stretches=stretches), given, **other)


def as_events(given: dict[str, np.ndarray], **other: Any) -> InProcessFederation:
    """Two devices per silo, one for each half of the rows; a large number is an event of its column."""
    variables = other.pop("variables", tuple(f"x{i}" for i in range(5)))
    tables = {}
    for silo, table in given.items():
        rows, types = np.nonzero(table > np.median(table))
        half = max(len(table) // 2, 1)
        times = rows % half + types / 7
        found = np.column_stack([rows // half, times, types, 0 * times, 0 * times + half])
        tables[silo] = found[np.lexsort((types, times, rows // half))]
    return InProcessFederation(events(tables, variables), tables, **other)


everyone = pytest.mark.parametrize("name", NAMES)
iterative = pytest.mark.parametrize(
    "name", [name for name in sorted(registry.ALGORITHMS) if issubclass(registry.entry(name).config, ConsensusSettings)]
)
masked = pytest.mark.parametrize("name", [name for name in NAMES if algorithm_of(name).summand is not None])
private = pytest.mark.parametrize("name", [name for name in NAMES if algorithm_of(name).private is not None])


def federation_of(name: str, given: dict[str, np.ndarray], **other: Any) -> InProcessFederation:
    """The silos with the `given` tables, in three levels a variable where `name` needs discrete data."""
    if name in SERIES:
        return in_stretches(given, **other)
    if name in EVENTS:
        return as_events(given, **other)
    variables = other.pop("variables", tuple(f"x{i}" for i in range(5)))
    if name in EXPERIMENTS:
        return in_experiments(name, given, variables, **other)
    if name in MIXED:
        return InProcessFederation(*in_part_labelled(given, variables), **other)
    if name not in DISCRETE:
        return federate(given, **other, variables=variables)
    codes = {silo: np.digitize(table, (-0.5, 0.5)) for silo, table in given.items()}
    schema = Schema(
        variables, {silo: len(t) for silo, t in codes.items()}, "discrete", dict.fromkeys(variables, LEVELS)
    )
    return InProcessFederation(schema, codes, **other)


def in_experiments(
    name: str, given: dict[str, np.ndarray], variables: tuple[str, ...], **other: Any
) -> InProcessFederation:
    """The silos with the `given` tables, in which the first and the third variable were set in all but the last."""
    if name in MIXED:
        schema, given = in_part_labelled(given, variables)
    elif name in DISCRETE:
        given = {silo: np.digitize(table, (-0.5, 0.5)) for silo, table in given.items()}
        levels = dict.fromkeys(variables, LEVELS)
        schema = Schema(variables, {silo: len(table) for silo, table in given.items()}, "discrete", levels)
    else:
        schema = Schema(variables, {silo: len(table) for silo, table in given.items()})
    setting = dict(zip(sorted(given)[:-1], (variables[:1], (variables[0], variables[2])), strict=False))
    return InProcessFederation(replace(schema, targets={silo: (own,) for silo, own in setting.items()}), given, **other)


def in_part_labelled(given: dict[str, np.ndarray], names: tuple[str, ...]) -> tuple[Schema, dict[str, np.ndarray]]:
    """The `given` tables with the first two columns in three levels."""
    mixed = {
        silo: np.column_stack([np.digitize(table[:, :2], (-0.5, 0.5)), table[:, 2:]]) for silo, table in given.items()
    }
    rows = {silo: len(table) for silo, table in mixed.items()}
    return Schema(names, rows, "mixed", dict.fromkeys(names[:2], LEVELS)), mixed


def tables(silos: int = 3, rows: int = 80, variables: int = 5, seed: int = 5) -> dict[str, np.ndarray]:
    return homogeneous(variables, silos, rows, seed).tables


def run(name: str, federation: InProcessFederation) -> Any:
    return list(rounds(algorithm_of(name), federation))


@cache
def plain_run(name: str) -> Any:
    """The rounds of `name` on the standard tables; most tests compare another run with this one."""
    return run(name, federation_of(name, tables()))


def last_state(name: str, federation: InProcessFederation) -> bytes:
    return wire.encode(run(name, federation)[-1].server)


def weights_of(structure: Structure) -> np.ndarray:
    """All weights of `structure`, those of lagged edges below the others."""
    return unstacked(structure)[0]


def arrays_in(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    if is_dataclass(value):
        return [array for field in fields(value) for array in arrays_in(getattr(value, field.name))]
    return []


@everyone
class TestEveryAlgorithm:
    def test_a_run_is_repeated_bit_for_bit_whatever_the_order_of_the_silos(self, name: str) -> None:
        turned = dict(reversed(tables().items()))
        assert last_state(name, federation_of(name, turned)) == wire.encode(plain_run(name)[-1].server)

    def test_the_seed_matters_where_silos_draw(self, name: str) -> None:
        """Only resampling is random here; imputation of labels and privacy noise have their own tests."""
        other = last_state(name, federation_of(name, tables(), seed=4))
        assert (wire.encode(plain_run(name)[-1].server) != other) == (name in BOOTSTRAPPED)

    def test_one_silo_with_all_rows_is_the_pooled_data_set(self, name: str) -> None:
        stacked = np.vstack([table for _, table in sorted(tables().items())])
        pooled = pool(homogeneous(5, 3, 80, 5)).tables
        one, other = federation_of(name, pooled), federation_of(name, {"pooled": stacked})
        assert last_state(name, one) == last_state(name, other)

    def test_state_round_trips_through_its_checkpoint(self, name: str) -> None:
        algorithm = algorithm_of(name)
        whole = plain_run(name)
        federation = federation_of(name, tables())
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
        whole = plain_run(name)
        federation = federation_of(name, tables())
        server = None
        for one in rounds(algorithm, federation):
            server = one.server
            federation.reopen(algorithm)
        assert wire.encode(server) == wire.encode(whole[-1].server)

    def test_a_reply_carries_no_table(self, name: str) -> None:
        """Messages do not grow with the number of rows, and no array has a side as long as a table."""
        if name in BOOTSTRAPPED:
            pytest.skip("its messages are bytes: what is sent is counted in test_bootstrap.py")
        shapes = []
        for rows in (97, 193):
            seen: list[tuple[int, ...]] = []
            given = tables(rows=rows)
            watch(name, given, lambda message, seen=seen: seen.extend(a.shape for a in arrays_in(message)))
            assert seen
            assert not any(rows in shape or rows * 5 in shape for shape in seen)
            shapes.append(max((int(np.prod(shape)) for shape in seen), default=0))
        if "by configuration" in name or name in DISCRETE:  # as many tables as the data call for
            assert max(shapes) <= 10 * 2**3 * 27  # 10 pairs, the subsets of the other 3, 27 cells each
        else:
            assert max(shapes) <= most_numbers(name)
            assert shapes[0] == shapes[1] or registry.entry(params_of(name)[0]).varying_messages

    def test_the_order_of_the_rows_does_not_matter(self, name: str) -> None:
        if name in BOOTSTRAPPED:
            pytest.skip("other rows are drawn")
        if name in MIXED and algorithm_of(name).private is not None:
            pytest.skip("other rows are paired")
        given = tables()
        rng = np.random.default_rng(0)
        # Of time series, the order of the stretches; of events, that of the devices.
        order = [*range(40, 80), *range(40)] if name in SERIES + EVENTS else rng.permutation(80)
        mixed = {silo: table[order] for silo, table in given.items()}
        one, other = plain_run(name)[-1].server, run(name, federation_of(name, mixed))[-1].server
        structure = algorithm_of(name).structure
        np.testing.assert_allclose(weights_of(structure(one)), weights_of(structure(other)), atol=0.02)

    def test_the_structure_is_over_the_given_variables_without_loops(self, name: str) -> None:
        variables = tuple("abcde")
        structure = algorithm_of(name).structure(
            run(name, federation_of(name, tables(), variables=variables))[-1].server
        )
        assert structure.variables == variables
        assert not np.diag(structure.weights).any()
        assert np.isfinite(weights_of(structure)).all()
        assert structure.lags == (name in SERIES)

    @pytest.mark.compiles
    def test_measures_are_finite_in_every_round(self, name: str) -> None:
        algorithm = algorithm_of(name)
        for one in plain_run(name):
            assert all(np.isfinite(value) for value in algorithm.measures(one.server).values())

    def test_a_sum_is_all_that_a_sum_only_algorithm_is_given(self, name: str) -> None:
        algorithm = algorithm_of(name)
        if algorithm.summand is None:
            pytest.skip("needs each reply")
        federation = federation_of(name, tables())
        replies, _ = federation.exchange(algorithm, 1, algorithm.broadcast(algorithm.open_server(federation.schema)))
        assert replies.each == ()
        assert replies.total is not None

    def test_settings_out_of_range_are_refused_with_the_value(self, name: str) -> None:
        name, _ = params_of(name)
        kinds = get_type_hints(registry.entry(name).config)
        for setting, kind in kinds.items():
            if kind in (int, float):
                with pytest.raises(BadInput, match=rf"parameter {setting} is -1000"):
                    registry.specify(name, {setting: "-1000"})
                what = "a whole number" if kind is int else "a number"
                with pytest.raises(BadInput, match=rf"parameter {setting} of {name} is 'many': it must be {what}"):
                    registry.specify(name, {setting: "many"})
        with pytest.raises(BadInput, match=rf"unknown parameter 'lambda' of {name}: available: "):
            registry.specify(name, {"lambda": "1"})


@masked
class TestSecureAggregation:
    """Laws of the algorithms whose server needs only a sum."""

    def test_masks_change_nothing_that_is_learned(self, name: str) -> None:
        algorithm = algorithm_of(name)
        plain = plain_run(name)[-1].server
        hidden = run(name, federation_of(name, tables(), secure=True))[-1].server
        np.testing.assert_allclose(
            weights_of(algorithm.structure(hidden)), weights_of(algorithm.structure(plain)), atol=1e-6
        )

    def test_entries_that_the_server_knows_to_be_zero_are_not_sent(self, name: str) -> None:
        algorithm = algorithm_of(name)
        for one in rounds(algorithm, federation_of(name, tables(), secure=True)):
            sparse = algorithm.sparse(one.server)
            assert sparse is None or (np.diff(sparse.positions) > 0).all()

    def test_one_silo_cannot_hide_in_a_sum(self, name: str) -> None:
        if algorithm_of(name).needs_secure_sum:
            pytest.skip("a private one may be alone; it then needs no masks")
        with pytest.raises(BadInput, match="there is one silo"):
            run(name, federation_of(name, tables(silos=1), secure=True))


@private
class TestPrivate:
    """Laws of the algorithms that promise an ε."""

    def test_what_is_charged_is_what_was_promised(self, name: str) -> None:
        federation = federation_of(name, tables())
        algorithm = algorithm_of(name, insecure_seed=-1)
        list(rounds(algorithm, federation))
        assert algorithm.private is not None
        promise = algorithm.private.promise(federation.schema)
        for charges in federation.charges().values():
            assert 0.9 * promise.cost.rho < total(Cost(c.rho, ReplaceOne) for c in charges).rho <= promise.cost.rho
            assert spent(charges, promise.delta) <= promise.epsilon

    def test_the_price_does_not_depend_on_the_rows(self, name: str) -> None:
        algorithm = algorithm_of(name)
        private = algorithm.private
        assert private is not None
        prices = []
        for seed in (1, 2):
            federation = federation_of(name, tables(seed=seed))
            server = algorithm.open_server(federation.schema)
            seen = [replace(server, scales=np.ones(columns_of(name))) if hasattr(server, "scales") else server, server]
            state = algorithm.open_silo(
                federation.tables["silo-1"], federation.schema, "silo-1", silo_generator(0, "a")
            )
            prices.append([private.releases(state, algorithm.broadcast(one)) for one in seen])
        assert prices[0] == prices[1]
        assert all(prices[0])

    def test_the_papers_closed_form_buys_less(self, name: str) -> None:
        if "accounting" not in registry.parameter_names(params_of(name)[0]):
            pytest.skip("has another way to choose it")
        schema = federation_of(name, tables()).schema
        promised = []
        for accounting in ("papers", "zcdp"):
            private = algorithm_of(name, accounting=accounting).private
            assert private is not None
            promised.append(private.promise(schema).cost.rho)
        assert 0.6 < promised[0] / promised[1] < 1

    def test_noise_is_not_repeated_unless_it_is_asked_for_by_name(self, name: str) -> None:
        def learned(**other: Any) -> bytes:
            return wire.encode(list(rounds(algorithm_of(name, **other), federation_of(name, tables())))[-1].server)

        assert learned(insecure_seed=1) == learned(insecure_seed=1)
        assert learned(insecure_seed=-1) != learned(insecure_seed=-1)

    def test_seeded_noise_is_never_called_private(self, name: str) -> None:
        federation = federation_of(name, tables())
        algorithm = algorithm_of(name)
        list(rounds(algorithm, federation))
        assert algorithm.private is not None
        assert "known seed" in algorithm.private.promise(federation.schema).broken
        assert all(np.isinf(c.rho) for charges in federation.charges().values() for c in charges)

    def test_a_budget_already_spent_refuses_before_any_noise(self, name: str) -> None:
        federation = federation_of(name, tables())
        federation.budget = Budget(1e-3)
        states: list[Any] = []
        algorithm = algorithm_of(name, insecure_seed=-1)
        watched = replace(algorithm, local_solve=lambda state, ask: states.append(state))
        with pytest.raises(Overspent, match="refused before any noise was drawn"):
            list(rounds(watched, federation))
        assert states == []
        assert all(charges == () for charges in federation.charges().values())

    @pytest.mark.parametrize("params", [{"epsilon": -1}, {"delta": 1.0}, {"delta": -0.1}, {"epsilon": "nan"}])
    def test_a_budget_that_means_nothing_is_refused(self, name: str, params: dict[str, Any]) -> None:
        with pytest.raises(BadInput, match=next(iter(params))):
            algorithm_of(name, **params)

    def test_a_silo_of_one_row_is_refused_by_name(self, name: str) -> None:
        given = tables() | {"tiny": np.ones((1, 5))}
        with pytest.raises(BadInput, match="silo tiny: fewer rows" if name in SERIES else "silo tiny has 1 row"):
            list(rounds(algorithm_of(name), federation_of(name, given)))


@iterative
class TestConsensus:
    """Laws of the algorithms whose rounds carry a state: consensus ADMM."""

    def test_silos_with_the_same_rows_learn_what_one_of_them_would(self, name: str) -> None:
        table = next(iter(tables(silos=1, rows=400).values()))
        entry = registry.entry(name)
        if entry.pooled or not entry.exact_solver:
            pytest.skip("runs on one silo, or does not reach the minimum of its problem")
        # An automatic λ is smaller with more rows, also with the same rows again.
        constant = {"l1": 0.05} if getattr(entry.config(), "l1", None) == "auto" else {}
        algorithm = registry.build(registry.specify(name, constant))
        # Perceptrons have many minima, and in later rounds rounding decides between them.
        one, other = (
            weights_of(algorithm.structure(list(islice(rounds(algorithm, federation_of(name, silos)), 8))[-1].server))
            for silos in ({"a": table}, {"a": table, "b": table, "c": table})
        )
        np.testing.assert_allclose(other, one, atol=0.02)

    def test_twice_the_unit_changes_no_edge(self, name: str) -> None:
        """Where penalties are scaled, a federation that measures in millimetres learns what it learns in metres."""
        if not getattr(registry.specify(name).settings, "scaled", False):
            pytest.skip("penalties in the papers' absolute terms")
        algorithm = registry.build(registry.specify(name, {}))
        given = tables(rows=400)
        smaller = {silo: 1000 * table for silo, table in given.items()}
        metres, millimetres = (
            list(islice(rounds(algorithm, federation_of(name, one)), 8))[-1].server for one in (given, smaller)
        )
        np.testing.assert_allclose(
            weights_of(algorithm.structure(metres)), weights_of(algorithm.structure(millimetres)), atol=1e-3
        )


def watch(name: str, given: dict[str, np.ndarray], see: Callable[[Any], None]) -> None:
    """Run the algorithm and show `see` every broadcast and reply."""
    algorithm = algorithm_of(name)

    def local_solve(silo: Any, broadcast: Any) -> Any:
        see(broadcast)
        silo, reply = algorithm.local_solve(silo, broadcast)
        see(reply)
        return silo, reply

    for _ in rounds(replace(algorithm, local_solve=local_solve), federation_of(name, given)):
        pass


def test_silos_draw_apart_and_the_same_in_any_order() -> None:
    """A silo's random numbers depend only on the seed and its name, so no two silos draw the same resample."""
    drawn = {(silo, seed): silo_generator(seed, silo).random(4).tolist() for silo in ("a", "b") for seed in (0, 1)}
    assert len({tuple(numbers) for numbers in drawn.values()}) == 4
    assert drawn["b", 1] == silo_generator(1, "b").random(4).tolist()
