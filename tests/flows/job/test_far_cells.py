"""A single wrong number does not change what a run with its defaults learns."""

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput

SETTINGS = {"bootstrap": 0, "seed": 2}


def silos(cell=None):
    """Three silos with z, the sum of x, y and an error; `cell` replaces a number of y at the second."""
    rng = np.random.default_rng(8)
    frames = {}
    for silo in "abc":
        x, y = rng.normal(size=(2, 400))
        frames[silo] = pd.DataFrame({"x": x, "y": 30 + y, "z": x + y + rng.normal(size=400), "w": rng.normal(size=400)})
    if cell is not None:
        frames["b"].loc[17, "y"] = cell
    return frames


@pytest.mark.parametrize("cell", [300.0, 1e9])
def test_the_graph_is_that_without_it_and_the_result_says_so(cell):
    clean = learn(silos(), **SETTINGS).result
    with pytest.warns(UserWarning, match=r"far numbers: some numbers of y \(b\)"):
        found = learn(silos(cell), **SETTINGS).result
    assert (found.structure.adjacency == clean.structure.adjacency).all()
    assert found.structure.adjacency.any()
    assert found.schema.transforms == {"y": "bounded"}
    assert found.diagnosed.findings == clean.diagnosed.findings
    assert any("far numbers" in note for note in found.notes)
    assert any("y: x, with a bound" in line for line in found.basis)


def test_the_number_is_kept_on_request():
    kept = learn(silos(300.0), transform="y=none", **SETTINGS).result
    assert kept.schema.transforms == {}
    with pytest.raises(BadInput, match="column 'y': its mean square does not fit"):
        learn(silos(1e9), transform="y=none", **SETTINGS)


def test_effects_and_queries_are_in_the_units_of_the_data():
    with pytest.warns(UserWarning, match="far numbers"):
        learned = learn(silos(1e9), **SETTINGS)
    clean = learn(silos(), **SETTINGS)
    after, before = (one.query("P(z | y=31)").answer for one in (learned, clean))
    assert after.mean == pytest.approx(before.mean, abs=0.1)
    assert before.mean == pytest.approx(1, abs=0.3)
