"""How Python displays the objects that `fedbnsl` returns: one line that describes them, without rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedbnsl import compare, learn, prepare
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.flows.benchmark.runner import Benchmark


@pytest.fixture(scope="module")
def data():
    """Three silos of a small linear model."""
    return prepare("homogeneous", variables=5, silos=3, rows=200, seed=1)


@pytest.fixture(scope="module")
def found(data):
    """A run on them."""
    return learn(data, "secure-linear", seed=0, bootstrap=0)


def test_data_say_their_kind_and_amount_and_show_no_row(data):
    edges = int(np.count_nonzero(data.truth.weights))
    truth = f"truth: Structure(dag, 5 variables, {edges} edges)"
    assert repr(data) == f"FederatedData(continuous: 5 variables, 3 silos, 600 rows, {truth})"


def test_a_structure_says_its_kind_and_counts_an_undirected_edge_once():
    chain = np.array([[0, 1.0, 0], [1, 0, 1], [0, 1, 0]])
    assert repr(Structure(("a", "b", "c"), chain, "cpdag")) == "Structure(cpdag, 3 variables, 2 edges)"
    one = np.array([[0, 1.0], [0, 0]])
    lagged = np.eye(2)[None]
    over_time = Structure(("a", "b"), one, lagged=lagged)
    assert repr(over_time) == "Structure(dag, 2 variables, 1 edge, 2 from earlier times)"


def test_a_result_and_a_comparison_are_one_line(found):
    result = found.result
    assert repr(result) == f"RunResult({result.name}: secure-linear on data, {result.structure}; {result.outcome})"
    assert repr(compare(found, found)).startswith(f"Comparison(edges since {result.name}: ")


def test_effects_are_one_line_and_a_notebook_shows_what_they_rest_on(found):
    effect = found.effect("x1", "x2")
    assert "\n" not in repr(effect)
    assert "x1" in repr(effect)

    class Printer:
        """Collects what IPython would show."""

        said = ""

        def text(self, text):
            """Add `text`."""
            self.said += text

    printer = Printer()
    effect._repr_pretty_(printer, cycle=False)
    assert printer.said == str(effect)
    assert effect.rests_on[-1] in printer.said


def test_a_benchmark_says_how_many_runs_succeeded():
    rows = pd.DataFrame({"data": ["a", "a", "b"], "status": ["ok", "failed", "ok"]})
    assert repr(Benchmark(rows, Path("out"))) == "Benchmark(2 of 3 runs succeeded; out)"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("homogenous", {}, "unknown kind of data 'homogenous': did you mean homogeneous"),
        ("homogeneous", {"variable": 3}, "unknown option 'variable': did you mean variables"),
        ("network", {}, "network is missing"),
    ],
)
def test_a_wrong_call_of_prepare_names_the_nearest(kind, options, message):
    with pytest.raises(BadInput, match=message):
        prepare(kind, **options)


def test_simulate_names_its_argument(found):
    with pytest.raises(BadInput, match=r"^rows is -1"):
        found.simulate(-1)
