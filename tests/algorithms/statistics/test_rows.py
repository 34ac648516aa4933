"""A silo's rows for searches: the exchanges of a run share the codes of a table, and no table has those of another."""

import gc

import numpy as np

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.statistics import rows
from fedbnsl.algorithms.statistics.rows import open_rows


def schema_of(n):
    levels = {"a": ("no", "yes"), "b": ("low", "middle", "high")}
    return Schema(("a", "b"), {"one": n, "two": n}, "discrete", levels)


def codes_of(table):
    return open_rows(table, schema_of(len(table)), "one", np.random.default_rng(0)).columns


def test_the_exchanges_of_a_run_share_the_codes_of_a_table():
    table = np.array([[0, 2], [1, 1], [1, 0]])
    first, again, other = codes_of(table), codes_of(table), codes_of(table.copy())
    np.testing.assert_array_equal(first, table.T)
    assert np.shares_memory(first, again)
    assert not np.shares_memory(first, other)


def test_a_table_has_its_own_codes_even_at_the_address_of_another(monkeypatch):
    """The address of a table is free once the table is: another table there must not get its codes."""
    monkeypatch.setattr(rows, "id", lambda table: 1, raising=False)
    table, other = np.array([[0, 2], [1, 1]]), np.array([[1, 0], [0, 0]])
    kept = codes_of(table)
    np.testing.assert_array_equal(codes_of(other), other.T)
    np.testing.assert_array_equal(kept, table.T)


def test_codes_are_kept_only_as_long_as_an_exchange_uses_them():
    table = np.array([[0, 2], [1, 1], [1, 0]])
    codes = codes_of(table)
    assert any(one() is codes for _, one in rows._TRANSPOSED.values())
    del codes
    gc.collect()
    assert not any(one() is table and two() is not None for one, two in rows._TRANSPOSED.values())
