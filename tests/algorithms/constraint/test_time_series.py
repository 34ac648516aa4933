"""fed-pc on time series finds the graph of PCMCI+ by tigramite, from one masked sum of moments of windows."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tasks.transport.in_process import InProcessFederation

REFERENCES = Path(__file__).parents[2] / "references"
_ABOUT, *CASES = map(json.loads, (REFERENCES / "pcmci_plus.json").read_text().splitlines())
RULES = {"none": "sepset"}
"""tigramite's name of a rule for colliders -> ours"""


def draw(case):
    spec = importlib.util.spec_from_file_location("pcmci_plus", REFERENCES / "pcmci_plus.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script.draw(*(case[name] for name in ("seed", "d", "lags", "lengths")))


def dealt(parts, silos, **other):
    """The series in `parts`, assigned to this number of silos in turn."""
    names = [f"s{place % silos}" for place in range(len(parts))]
    own = {name: [part for part, of in zip(parts, names, strict=True) if of == name] for name in dict.fromkeys(names)}
    tables = {name: np.vstack(series) for name, series in own.items()}
    schema = Schema(
        tuple(f"v{v}" for v in range(parts[0].shape[1])),
        {name: len(table) for name, table in tables.items()},
        "time-series",
        stretches={name: tuple(map(len, series)) for name, series in own.items()},
    )
    return InProcessFederation(schema, tables, **other)


def server_of(federation, **params):
    algorithm = registry.build(registry.specify("fed-pc", params))
    *_, last = rounds(algorithm, federation)
    return algorithm, last.server


def learned(federation, **params):
    algorithm, server = server_of(federation, **params)
    return algorithm.structure(server)


def expected(case):
    """The edges of tigramite's graph, `[lags + 1, d, d]`: conflicting and open directions are undirected edges."""
    marks = np.array(case["graph"])
    return np.isin(marks, ["-->", "o-o", "x-x"])


def settings(case):
    return {"alpha": case["alpha"], "lags": case["lags"], "orientation": RULES.get(case["rule"], case["rule"])}


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["seed"]))
def test_the_graph_is_that_of_pcmci_plus_on_pooled_series(case):
    parts = draw(case)
    assert sum(np.abs(part).sum() for part in parts) == pytest.approx(case["sum"])
    found = learned(dealt(parts, len(parts)), center_series=False, **settings(case))
    np.testing.assert_array_equal(np.stack([found.weights, *found.lagged]) != 0, expected(case))


def test_one_masked_sum_gives_the_same_graph_for_any_split():
    case = CASES[2]
    parts = [part + 50 * place for place, part in enumerate(draw(case))]  # levels differ between series
    alone = learned(dealt(parts, 1), **settings(case))
    algorithm, server = server_of(replace_units(dealt(parts, 3, secure=True), 2.0), **settings(case))
    split = algorithm.structure(server)
    np.testing.assert_array_equal(split.weights, alone.weights)
    np.testing.assert_array_equal(split.lagged, alone.lagged)
    assert server.exchanges == 1
    level = learned(dealt(draw(case), 2), **settings(case))
    np.testing.assert_array_equal(np.stack([level.weights, *level.lagged]), np.stack([alone.weights, *alone.lagged]))


def replace_units(federation, unit):
    federation.schema = replace(federation.schema, units=(unit,) * len(federation.schema.variables))
    return federation


def test_knowledge_holds_within_the_time_step():
    case = CASES[1]
    federation, free = dealt(draw(case), 2), expected(case)[0]
    i, j = np.argwhere(free)[0]
    known = Knowledge(required=((f"v{j}", f"v{i}"),))
    federation.schema = replace(federation.schema, knowledge=known)
    found = learned(federation, **settings(case))
    assert found.weights[j, i]
    assert not found.weights[i, j]
    federation.schema = replace(federation.schema, knowledge=Knowledge(forbidden=(*known.required, (f"v{i}", f"v{j}"))))
    found = learned(federation, **settings(case))
    assert not found.weights[i, j] + found.weights[j, i]


def test_series_too_short_for_two_windows_are_refused():
    with pytest.raises(BadInput, match=r"silo s1: .* has 5 rows, tests with lags = 2 need at least 6"):
        learned(dealt([np.random.default_rng(0).normal(size=(n, 3)) for n in (30, 5)], 2), lags=2)


@pytest.mark.parametrize("params", [{"mode": "projection"}, {"epsilon": 1.0}])
def test_what_needs_tables_of_labels_is_refused(params):
    with pytest.raises(BadInput, match="needs discrete data"):
        learned(dealt(draw(CASES[0]), 1), lags=1, **params)
