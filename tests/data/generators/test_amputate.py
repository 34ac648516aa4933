"""Gaps made on purpose: their positions, their number, and the columns they depend on."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData, continuous, discrete, mixed, time_series
from fedbnsl.data.generators.amputate import amputate

NAMES = tuple("abcdef")


def _numbers(rows: int = 4000) -> FederatedData:
    rng = np.random.default_rng(100)
    tables = {f"s{k}": rng.normal(k, 1 + k, (rows, len(NAMES))) for k in range(3)}
    return FederatedData(continuous(tables, NAMES), tables)


def _mixed() -> FederatedData:
    numbers, rng = _numbers(), np.random.default_rng(101)
    tables = {
        silo: np.column_stack([table[:, :3], rng.integers(0, 3, (len(table), 3))]).astype(float)
        for silo, table in numbers.tables.items()
    }
    return FederatedData(mixed(tables, NAMES, dict.fromkeys("def", ("x", "y", "z"))), tables)


def _codes() -> FederatedData:
    rng = np.random.default_rng(102)
    tables = {f"s{k}": rng.integers(0, 3, (4000, len(NAMES))) for k in range(3)}
    return FederatedData(discrete(tables, NAMES, dict.fromkeys(NAMES, ("x", "y", "z"))), tables)


def _empty(data: FederatedData) -> np.ndarray:
    tables = [data.tables[silo] for silo in data.schema.silos]
    return np.concatenate([table < 0 if data.schema.kind == "discrete" else np.isnan(table) for table in tables])


def _whole(data: FederatedData) -> np.ndarray:
    return np.concatenate([data.tables[silo] for silo in data.schema.silos]).astype(float)


@pytest.mark.parametrize("make", [_numbers, _mixed, _codes])
@pytest.mark.parametrize("mechanism", ["mcar", "mar", "mnar"])
def test_the_share_of_empty_cells_is_kept_in_every_column_with_gaps_and_nothing_else_changes(make, mechanism) -> None:
    data = make()
    found = amputate(data, mechanism, 0.2, np.random.default_rng(1))
    empty = _empty(found)
    shares = empty.mean(axis=0)
    with_gaps = shares > 0
    assert with_gaps.sum() == (3 if mechanism == "mar" else 6)
    assert np.abs(shares[with_gaps] - 0.2).max() < 0.02
    assert np.array_equal(_whole(found)[~empty], _whole(data)[~empty])
    assert found.schema.empty == {
        silo: tuple(part.sum(axis=0)) for silo, part in zip(data.schema.silos, np.split(empty, 3), strict=True)
    }
    assert not data.schema.gaps
    assert found.about["amputated"] == {"mechanism": mechanism, "share": 0.2}


def test_gaps_at_random_are_told_by_another_column_that_is_complete_and_not_by_the_cell_itself() -> None:
    data = _numbers()
    empty, values = _empty(amputate(data, "mar", 0.3, np.random.default_rng(2))), _whole(data)
    values = values - values.mean(axis=0)
    for j in np.flatnonzero(empty.any(axis=0)):
        gaps = [abs(np.corrcoef(empty[:, j], values[:, k])[0, 1]) for k in range(len(NAMES))]
        assert not empty[:, int(np.argmax(gaps))].any()
        assert max(gaps) > 0.5


def test_gaps_not_at_random_are_where_values_are_great_and_those_completely_at_random_anywhere() -> None:
    data = _numbers()
    values = _whole(data)
    own = _empty(amputate(data, "mnar", 0.3, np.random.default_rng(3)))
    none = _empty(amputate(data, "mcar", 0.3, np.random.default_rng(3)))
    for j in range(len(NAMES)):
        assert np.corrcoef(own[:, j], values[:, j])[0, 1] > 0.5
        assert abs(np.corrcoef(none[:, j], values[:, j])[0, 1]) < 0.04


def test_cells_that_were_empty_stay_so_and_their_columns_tell_no_others() -> None:
    data = _numbers()
    for table in data.tables.values():
        table[::2, :5] = np.nan
    first = replace(data, schema=replace(data.schema, empty=dict.fromkeys(data.tables, (2000,) * 5 + (0,))))
    found = _empty(amputate(first, "mar", 0.2, np.random.default_rng(4)))
    assert found[_empty(first)].all()
    assert not found[:, 5].any()
    assert found[1::2, :5].mean() == pytest.approx(0.2, abs=0.02)


def test_the_same_seed_makes_the_same_gaps() -> None:
    one, two = (amputate(_numbers(50), "mar", 0.3, np.random.default_rng(9)) for _ in range(2))
    assert all(np.array_equal(one.tables[silo], two.tables[silo], equal_nan=True) for silo in one.tables)


def test_what_cannot_be_amputated_is_refused_in_one_line() -> None:
    data, rng = _numbers(20), np.random.default_rng(0)
    with pytest.raises(BadInput, match=r"share is 1\.5: it must be between 0 and 1"):
        amputate(data, "mcar", 1.5, rng)
    with pytest.raises(BadInput, match="mechanism: 'mmar' is not one of mcar, mar, mnar"):
        amputate(data, "mmar", 0.5, rng)
    series = time_series(data.tables, dict.fromkeys(data.tables, (20,)), NAMES)
    with pytest.raises(BadInput, match="time series break off at an empty cell"):
        amputate(replace(data, schema=series), "mcar", 0.5, rng)
    gaps = replace(data, schema=replace(data.schema, empty=dict.fromkeys(data.tables, (1,) * 6)))
    with pytest.raises(BadInput, match="mar needs a column without empty cells"):
        amputate(gaps, "mar", 0.5, rng)


def test_the_larger_half_of_the_columns_stays_complete_by_mar():
    tables = {"a": np.random.default_rng(3).normal(size=(300, 5))}
    found = amputate(FederatedData(continuous(tables, NAMES[:5]), tables), "mar", 0.2, np.random.default_rng(1))
    assert (_empty(found).mean(axis=0) > 0).sum() == 2
