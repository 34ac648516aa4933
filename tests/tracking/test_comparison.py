import csv
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.drift import Drift, drift_of
from fedbnsl.algorithms.parameters.networks import linear_network
from fedbnsl.tracking.comparison import PastRun, changes_by_fate, compare_runs
from fedbnsl.tracking.report.files import changes_csv
from fedbnsl.tracking.report.report import report_html


@pytest.fixture
def repeated(chain):
    """The chain a → b → c, compared with a run with a weaker a → b, a reversed edge c → b, and a → c."""
    weights = np.array([[0.0, 1.0, 0.5], [0.0, 0.0, 0.0], [0.0, -0.5, 0.0]])
    earlier = Structure(("a", "b", "c"), weights)
    network = linear_network(earlier, np.zeros(3), np.ones(3))
    now = PastRun("now", chain.structure, chain.parameters.network)
    changes = compare_runs(PastRun("yesterday", earlier, network), now)
    return replace(chain, changes=changes, metrics=chain.metrics | changes.metrics)


def test_figures_and_words(repeated):
    figures = repeated.changes.metrics
    assert figures["compared_with"] == "yesterday"
    counts = [figures[f"edges_{fate}"] for fate in ("gained", "lost", "turned", "kept", "changed")]
    assert counts == [0, 1, 1, 1, 2]
    assert figures["parameter_drift"] == pytest.approx(repeated.changes.drift.total)
    assert repeated.changes.summary.startswith("edges since yesterday: 1 lost, 1 turned, 1 kept; parameter drift ")
    assert changes_by_fate(repeated.changes)["turned"] == ["b → c"]


@pytest.mark.parametrize(
    ("total", "shown"), [(-1e-17, "the parameters are unchanged"), (0.25, "parameter drift 0.25 nats per row")]
)
def test_a_drift_that_rounding_makes_negative_is_none(repeated, total, shown):
    changes = replace(repeated.changes, drift=Drift({"a": total}))
    assert changes.summary.endswith(f"; {shown}")


def test_the_file_of_changes_names_the_variables_that_only_one_run_has():
    weights = np.array([[0.0, 1.0], [0.0, 0.0]])
    before, now = (PastRun("any", Structure(names, weights)) for names in (("a", "b"), ("b", "c")))
    rows = list(csv.DictReader(StringIO(changes_csv(compare_runs(before, now)))))
    assert [(row["change"], row["source"]) for row in rows if row["what"] == "variable"] == [
        ("joined", "c"),
        ("left", "a"),
    ]


def test_without_a_model_structures_are_compared_all_the_same(chain):
    found = compare_runs(
        PastRun("yesterday", chain.structure), PastRun("now", chain.structure, chain.parameters.network)
    )
    assert (found.drift, found.no_drift) == (None, "yesterday has no model to compare")
    assert "parameter_drift" not in found.metrics
    html = report_html(replace(chain, changes=found))
    assert "Parameter drift is not available: yesterday has no model to compare." in html


def test_edges_without_weights_are_not_said_to_have_moved(chain):
    ones = Structure(("a", "b", "c"), np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0.0]]))
    found = compare_runs(PastRun("yesterday", ones), PastRun("now", ones))
    (row,) = csv.DictReader(StringIO(changes_csv(found)))
    assert (row["change"], row["moved"]) == ("kept", "")


def test_a_drift_of_rounding_alone_is_no_drift():
    structure = Structure(("a", "b"), np.array([[0.0, 2.0], [0.0, 0.0]]))
    before = linear_network(structure, np.zeros(2), np.array([1.0, 0.25]))
    rounded = linear_network(structure, np.array([1e-8, 0.0]), np.array([1.0, 0.25 * (1 + 1e-7)]))
    assert drift_of(before, rounded).by_variable == {"a": 0.0, "b": 0.0}
    moved = linear_network(structure, np.array([0.0, 0.01]), np.array([1.0, 0.25]))
    found = drift_of(before, moved).by_variable
    assert (found["a"], found["b"]) == (0.0, pytest.approx(0.01**2 / (2 * 0.25)))


def test_the_drift_is_the_divergence_of_the_later_run_from_the_earlier_one():
    """From N(0, 1) to N(0, 4), it is (4 - 1 - ln 4) / 2; the other way, it would be (1/4 - 1 + ln 4) / 2."""
    structure = Structure(("a",), np.zeros((1, 1)))
    runs = [PastRun(str(v), structure, linear_network(structure, np.zeros(1), np.array([v]))) for v in (1.0, 4.0)]
    assert compare_runs(*runs).drift.total == pytest.approx(0.8068528, abs=1e-7)
    assert compare_runs(*runs[::-1]).drift.total == pytest.approx(0.3181472, abs=1e-7)
