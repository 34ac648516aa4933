"""How rows are assigned to silos: no two silos hold the same rows, and the reported seed was the one used."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.data.generators.linear import heterogeneous, homogeneous
from fedbnsl.data.generators.nonlinear import nonlinear
from fedbnsl.data.generators.sampling import stream
from fedbnsl.data.networks.lucas import lucas
from fedbnsl.data.networks.published import network
from fedbnsl.data.networks.sachs import discrete_sachs, sachs
from fedbnsl.data.splitting.partition import equal, split_table

SETS = {
    "homogeneous": lambda seed: homogeneous(4, 3, 40, seed),
    "heterogeneous": lambda seed: heterogeneous(4, 3, 40, seed, weight_variance=0.1),
    "nonlinear": lambda seed: nonlinear(4, 3, 40, seed),
    "dynamic": lambda seed: dynamic(4, 3, 40, seed),
    "network, Gaussian": lambda seed: network("ecoli70", 3, 40, seed),
    "network, discrete": lambda seed: network("asia", 3, 40, seed),
    "lucas": lambda seed: lucas("0", 3, 40, seed),
    "sachs, discrete": lambda seed: discrete_sachs(3, 120, seed),
}


@pytest.mark.parametrize("name", SETS)
def test_no_two_silos_hold_the_same_rows_and_another_seed_gives_others(name):
    data, other = SETS[name](1), SETS[name](2)
    one, two, three = (table for _, table in sorted(data.tables.items()))
    assert not np.array_equal(one, two)
    assert not np.array_equal(two, three)
    assert not np.array_equal(one, other.tables["silo-1"])


@pytest.mark.parametrize("seed", [1, 2])
def test_the_seed_deals_the_rows_of_the_discrete_network(seed):
    whole, dealt = discrete_sachs(1, 60, seed), discrete_sachs(3, 60, seed)
    parts = equal(60, 3, stream(seed, "dealing"))
    for silo, rows in zip(dealt.schema.silos, parts, strict=True):
        np.testing.assert_array_equal(dealt.tables[silo], whole.tables["silo-1"][rows])


@pytest.mark.parametrize("how", [{"silos": 3}, {"sizes": (10, 20, 30)}, {"silos": 3, "concentration": 1.0}])
def test_the_seed_deals_the_rows_of_a_table(how, tmp_path):
    path = tmp_path / "my.csv"
    pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=list("xyz")).to_csv(path, index=False)
    one, again, other = (split_table(path, seed=seed, **how).tables["silo-1"] for seed in (4, 4, 5))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.skipif(find_spec("cdt") is None, reason="the Sachs table comes with cdt")
def test_the_seed_deals_the_cells_of_sachs():
    assert not np.array_equal(sachs(3, 0).tables["silo-1"], sachs(3, 1).tables["silo-1"])
