"""The Sachs data: the table of the cdt wheel, its nine conditions, and four reference graphs from the literature."""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.networks.published import carried_file
from fedbnsl.data.networks.sachs import (
    CONDITIONS,
    EDGES,
    PROTEINS,
    TRUTHS,
    discrete_sachs,
    sachs,
    sachs_table,
    sachs_truth,
)

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "sachs"


def installed(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


needs_cdt = pytest.mark.skipif(installed("cdt") is None, reason="the Sachs table comes with cdt")
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real data sets are not here")


@needs_cdt
def test_three_silos_of_the_paper():
    data = sachs(3, 0)
    assert data.schema.rows == {"silo-1": 2489, "silo-2": 2489, "silo-3": 2488}
    assert data.schema.variables == ("Raf", "Mek", "Plcg", "PIP2", "PIP3", "Erk", "Akt", "PKA", "PKC", "P38", "Jnk")
    rows = np.concatenate(list(data.tables.values()))
    table = sachs_table()
    assert np.array_equal(rows[np.lexsort(rows.T)], table[np.lexsort(table.T)])
    assert data.truth.adjacency.sum() == 20
    assert data.about["parameters"] == {"silos": 3, "transform": "none", "center": False, "truth": "20"}
    assert np.array_equal(sachs(3, 0).tables["silo-1"], data.tables["silo-1"])
    assert not np.array_equal(sachs(3, 1).tables["silo-1"], data.tables["silo-1"])


@needs_cdt
def test_nine_conditions_as_nine_silos():
    data = sachs(3, 0, by_condition=True)
    assert data.schema.rows == {name: CONDITIONS[name] for name in sorted(CONDITIONS)}
    assert data.tables["cd3cd28"][0].tolist() == [26.4, 13.2, 8.82, 18.3, 58.8, 6.61, 17.0, 414.0, 17.0, 44.9, 40.0]


@needs_cdt
def test_rows_are_drawn_without_repetition_from_the_first_condition():
    """Each seed draws other cells, as each run of Ng & Zhang 2022, §6.3 does."""
    first = {tuple(row) for row in sachs(1, 0, by_condition=True).tables["cd3cd28"]}
    drawn = [np.concatenate(list(sachs(4, seed, rows=512).tables.values())) for seed in (0, 1)]
    cells = [{tuple(row) for row in rows} for rows in drawn]
    assert all(len(some) == len(rows) == 512 and some <= first for some, rows in zip(cells, drawn, strict=True))
    assert len(cells[0] & cells[1]) < 400
    centred = np.concatenate(list(sachs(4, 0, center=True, rows=512).tables.values()))
    np.testing.assert_allclose(centred, drawn[0] - drawn[0].mean(axis=0))


@needs_cdt
@needs_shared
def test_the_conditions_are_those_of_the_public_table():
    frame = pd.read_csv(SHARED / "sachs_continuous_7466.csv.gz")
    data = sachs(3, 0, by_condition=True)
    assert list(frame["condition"].unique()) == list(CONDITIONS)
    assert list(frame.columns[1:]) == list(data.schema.variables)
    assert np.array_equal(frame.to_numpy()[:, 1:].astype(float), sachs_table())
    for name, rows in frame.groupby("condition"):
        assert np.array_equal(rows.to_numpy()[:, 1:].astype(float), data.tables[name])


@needs_cdt
def test_transforms_happen_only_when_asked_and_are_recorded():
    raw, logs = sachs(3, 0), sachs(3, 0, transform="log", center=True)
    assert raw.tables["silo-1"].min() >= 1
    together = np.concatenate(list(logs.tables.values()))
    assert np.allclose(together.mean(axis=0), 0, atol=1e-12)
    assert np.allclose(together.var(axis=0), np.log(sachs_table()).var(axis=0))
    assert (logs.about["parameters"]["transform"], logs.about["parameters"]["center"]) == ("log", True)


@pytest.mark.parametrize(("name", "edges", "acyclic"), [("20", 20, True), ("18", 18, False), ("17", 17, True)])
def test_the_truths(name, edges, acyclic):
    truth = sachs_truth(name)
    assert (int(truth.adjacency.sum()), truth.acyclic) == (edges, acyclic)
    assert f"({edges} edges)" in TRUTHS[name]


@needs_shared
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("20", "truth_20_consensus"),
        ("18", "truth_18_cdt_CYCLIC"),
        ("17", "truth_17_bnlearn"),
        ("17-fedc2sl", "truth_17_consensus_orientation"),
    ],
)
def test_the_truths_are_those_published(name, file):
    published = json.loads((SHARED / f"{file}.json").read_text())
    truth = sachs_truth(name)
    assert {tuple(edge) for edge in published["edges"]} == set(truth.to_networkx().edges)
    assert tuple(published["nodes"]) == truth.variables


@needs_cdt
def test_the_18_edges_are_those_cdt_carries():
    frame = pd.read_csv(carried_file("cdt", "cdt/data/resources/cyto_full_target.csv", ""))
    lower = {name.lower(): protein for name, protein in PROTEINS.items()}
    named = {(lower[a.lower()], lower[b.lower()]) for a, b in frame.to_numpy()}
    assert named == set(sachs_truth("18").to_networkx().edges)


def test_what_is_unknown_is_refused():
    assert list(TRUTHS) == list(EDGES)
    for wrong, message in (
        ({"truth": "19"}, "truth: '19' is not one of 20, 18, 17, 17-fedc2sl"),
        ({"transform": "sqrt"}, "transform: 'sqrt' is not one of none, log"),
        ({"seed": -1}, "seed: -1 is less than 0"),
        ({"rows": 854}, "rows is '854': the first condition has 853 cells"),
        (
            {"rows": 512, "by_condition": True},
            "rows is '512': rows are drawn from the first condition alone, not by condition",
        ),
    ):
        with pytest.raises(BadInput) as caught:
            sachs(**{"silos": 3, "seed": 0} | wrong)
        assert str(caught.value) == message


def test_a_table_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("fedbnsl.data.networks.published.files", lambda package: [])
    with pytest.raises(BadInput) as caught:
        sachs(3, 0)
    assert str(caught.value) == (
        "cdt/data/resources/cyto_full_data.csv of the package cdt is not installed: pip install --no-deps cdt==0.6.0"
    )


def test_a_package_that_is_not_installed():
    with pytest.raises(BadInput, match="x of the package no-such-package-at-all is not installed: do something"):
        carried_file("no-such-package-at-all", "x", "do something")


def test_discrete_rows_are_those_of_the_published_network_for_any_number_of_silos():
    def rows(silos):
        data = discrete_sachs(silos, 853, 0)
        sizes = list(data.schema.rows.values())
        assert len(sizes) == silos
        assert max(sizes) - min(sizes) <= 1
        table = np.concatenate([data.tables[silo] for silo in data.schema.silos])
        return table[np.lexsort(table.T)]

    assert rows(2).shape == (853, 11)
    assert all(np.array_equal(rows(2), rows(silos)) for silos in (4, 8, 64))
    data = discrete_sachs(3, 853, 1)
    assert set(data.truth.to_networkx().edges) == set(sachs_truth("17").to_networkx().edges)
    assert data.schema.levels["Akt"] == ("LOW", "AVG", "HIGH")
    assert not np.array_equal(data.tables["silo-1"], discrete_sachs(3, 853, 0).tables["silo-1"])
    with pytest.raises(BadInput, match="silos: 500 silos of at least 2 rows need 1000 rows, the table has 853"):
        discrete_sachs(500, 853, 0)


@needs_shared
def test_the_discrete_network_has_the_published_graph():
    published = json.loads((SHARED / "truth_17_bnlearn.json").read_text())
    assert {tuple(edge) for edge in published["edges"]} == set(discrete_sachs(3, 853, 0).truth.to_networkx().edges)
