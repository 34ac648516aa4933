"""The bootstrap in lockstep gives the same graphs as separate runs of the learner on each resample."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds, silo_generator
from fedbnsl.algorithms.core.schema import ImputationModel, Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.resampling import bootstrap
from fedbnsl.algorithms.resampling.bootstrap import (
    Bootstrap,
    SamplingScheme,
    block_size,
    resample,
    resampled_schema,
    structures,
)
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.data.networks.published import network
from fedbnsl.tasks.transport.in_process import InProcessFederation

SEED = 6


def run(spec, data, **other):
    algorithm = registry.build(spec)
    last = list(rounds(algorithm, InProcessFederation(data.schema, data.tables, SEED, **other)))[-1]
    return algorithm, last


def resamples(data, count):
    """The tables of each resample, drawn silo by silo."""
    generators = {}
    for silo in data.tables:
        seeds = silo_generator(SEED, silo).integers(2**63, size=count)
        generators[silo] = [np.random.default_rng(int(seed)) for seed in seeds]
    return [
        {
            silo: resample(table, data.schema, silo, SamplingScheme(), generators[silo][which])
            for silo, table in data.tables.items()
        }
        for which in range(count)
    ]


@pytest.fixture(scope="module")
def labels():
    return network("asia", 3, 120, 2)


@pytest.fixture(scope="module")
def numbers():
    return homogeneous(5, 3, 12, 3)


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("name", "params", "kind"),
    [
        ("secure-boss", {}, "discrete"),
        ("secure-boss", {}, "continuous"),
        ("fed-pc", {}, "discrete"),
        ("notears-admm", {"rounds": 12}, "continuous"),
        ("ges-union", {}, "discrete"),
    ],
)
def test_each_resample_is_learned_from_as_if_it_were_alone(name, params, kind, labels, numbers):
    data = labels if kind == "discrete" else numbers
    spec = registry.specify(name, params)
    _, last = run(spec.wrapped("bootstrap", Bootstrap(3)), data)
    together = structures(registry.build(spec), last.server)
    slowest = 0
    for which, tables in enumerate(resamples(data, 3)):
        algorithm, alone = run(
            spec, replace(data, tables=tables, schema=resampled_schema(data.schema, SamplingScheme()))
        )
        np.testing.assert_array_equal(together[which].weights, algorithm.structure(alone.server).weights)
        slowest = max(slowest, alone.number)
    assert last.number == slowest
    assert len({one.weights.tobytes() for one in together}) > 1


@pytest.mark.parametrize("name", ["secure-sum", "secure-linear"])
def test_a_column_that_is_constant_in_a_resample_costs_that_resample_only(name, numbers):
    """Three of its cells in one silo differ from the others, and some halves of the rows have none of them."""
    tables = {silo: table.copy() for silo, table in numbers.tables.items()}
    for silo, table in tables.items():
        table[:, 0] = 1.0
        table[:3, 0] += silo == numbers.schema.silos[0]
    spec = registry.specify(name).wrapped("bootstrap", Bootstrap(20))
    algorithm, last = run(spec, replace(numbers, tables=tables))
    assert 10 <= len(structures(registry.build(registry.specify(name)), last.server)) < 20
    assert algorithm.structure(last.server).weights.shape[0] == len(numbers.schema.variables)
    tables[numbers.schema.silos[0]][:, 0] = 1.0
    with pytest.raises(BadInput, match=f"column '{numbers.schema.variables[0]}' has no variance"):
        run(spec, replace(numbers, tables=tables))


@pytest.mark.parametrize("replacement", [False, True])
def test_the_public_facts_of_a_resample_are_those_of_its_rows(replacement):
    """Of a half, half of the rows, of the empty cells, and of the rows to which incomplete ones amount."""
    empty = {"a": (0, 20), "b": (60, 4)}
    schema = Schema(("x", "y"), {"a": 101, "b": 300}, empty=empty, imputation_model=ImputationModel(rows=320))
    found = resampled_schema(schema, SamplingScheme(replacement))
    share = 1 if replacement else 2
    assert found.rows == ({"a": 101, "b": 300} if replacement else {"a": 51, "b": 150})
    assert {silo: tuple(share * n for n in counts) for silo, counts in found.empty.items()} == empty
    assert found.imputation_model.rows == round(320 * sum(found.rows.values()) / 401)
    assert found.imputation_model.rows < sum(found.rows.values())


@pytest.mark.parametrize(
    ("stretches", "size"),
    [((217,), 6), ((28,) * 9, 6), ((28, 28, 190), 6), ((28,), 3), ((6, 250), 5), ((3,), 2), ((1, 2, 9), 2)],
    ids=str,
)
def test_a_block_has_the_cube_root_of_all_windows_of_the_silo(stretches, size):
    """It is at most the shortest stretch with two windows, and not of the windows of another silo."""
    schema = Schema(("x",), {"a": sum(stretches), "b": 9000}, "time-series", {}, {"a": stretches, "b": (9000,)})
    assert block_size(schema, "a", SamplingScheme(lags=1)) == size


def test_a_resample_of_series_has_at_least_its_share_of_the_empty_cells():
    """Of 199 windows, 33 blocks of 6 can be drawn; half are 17 blocks of 7 rows, 119 of 200 rows: 1.785 of 3 cells."""
    schema = Schema(("x", "y", "z"), {"a": 200}, "time-series", {}, {"a": (200,)}, empty={"a": (3, 0, 1)})
    found = resampled_schema(schema, SamplingScheme(lags=1))
    assert found.rows == {"a": 119}
    assert found.empty == {"a": (2, 0, 1)}


def test_what_is_sent_does_not_grow_with_the_rows():
    sent = []
    for rows in (100, 1000):
        _, last = run(registry.specify("secure-boss").wrapped("bootstrap", Bootstrap(4)), homogeneous(5, 3, rows, 2))
        sent.append((last.traffic.up, last.traffic.formula))
    assert sent[0] == sent[1]


def test_silos_that_do_not_fit_into_memory_are_opened_anew_with_the_same_result(labels, monkeypatch):
    spec = registry.specify("secure-ges").wrapped("bootstrap", Bootstrap(3))
    _, kept = run(spec, labels)
    assert kept.number > 1
    monkeypatch.setattr(bootstrap, "MAX_STATE_BYTES", 1)
    algorithm = registry.build(spec)
    federation = InProcessFederation(labels.schema, labels.tables, SEED)
    last = list(rounds(algorithm, federation))[-1]
    assert {len(state.resamples.states) for state in federation.states().values()} == {1}
    assert last.server == kept.server


def test_a_learner_of_one_exchange_keeps_no_opened_silo(numbers):
    spec = registry.specify("secure-sum").wrapped("bootstrap", Bootstrap(3))
    federation = InProcessFederation(numbers.schema, numbers.tables, SEED)
    list(rounds(registry.build(spec), federation))
    assert all(state.resamples.states == () for state in federation.states().values())


def test_the_size_of_a_state_is_that_of_its_arrays():
    state = bootstrap.ResampleStates(len, (), (np.zeros(4), {"a": np.zeros((2, 3))}, "word"))
    assert bootstrap.array_bytes(state) == 8 * (4 + 6)


def test_a_private_learner_is_refused():
    spec = registry.specify("secure-sum", epsilon=1.0).wrapped("bootstrap", Bootstrap(3))
    with pytest.raises(BadInput, match="another private release"):
        registry.build(spec)


@pytest.mark.parametrize(("resamples", "lags", "said"), [(1, 0, "resamples is 1"), (2, -1, "lags is -1")])
def test_settings_out_of_range_are_refused(resamples, lags, said):
    with pytest.raises(BadInput, match=said):
        Bootstrap(resamples, lags)


def test_blocks_of_rows_are_drawn_together_and_every_row_as_often():
    sampling, rng = SamplingScheme(block=20), np.random.default_rng(0)
    counts, together = np.zeros(107), 0.0
    for _ in range(2000):
        rows = sampling.positions(107, rng)
        assert len(set(rows)) == len(rows) == sampling.count(107)
        counts[rows] += 1
        together += np.isin((rows + 1) % 107, rows).mean()
    assert together / 2000 > 0.9
    np.testing.assert_allclose(counts / 2000, 54 / 107, atol=0.05)
