"""The published networks, against facts checked by hand and the moments implied by their coefficients."""

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.networks.published import DISCRETE, GAUSSIAN, gaussian_network, network


@pytest.mark.parametrize(
    ("name", "nodes", "arcs"),
    [("arth150", 107, 150), ("ecoli70", 46, 70), ("magic-irri", 64, 102), ("magic-niab", 44, 66)],
)
def test_nodes_and_arcs_are_those_of_the_repository(name, nodes, arcs):
    model = gaussian_network(name)
    assert len(model.structure.variables) == nodes
    assert model.structure.adjacency.sum() == arcs
    assert model.structure.acyclic
    assert (model.variances > 0).all()
    assert name in GAUSSIAN


def test_coefficients_read_off_by_hand():
    model = gaussian_network("ecoli70")
    at = model.structure.variables.index
    assert model.structure.weights[at("icdA"), at("aceB")] == 1.0464
    assert model.structure.weights[at("ygcE"), at("atpD")] == -0.7252
    assert (model.intercepts[at("aceB")], model.variances[at("aceB")]) == (0.1324, 0.0853)


@pytest.mark.parametrize("name", sorted(GAUSSIAN))
def test_the_sample_has_the_moments_of_the_network(name):
    model = gaussian_network(name)
    table = network(name, silos=1, rows=40_000, seed=1).tables["silo-1"]
    inverse = np.linalg.inv(np.eye(len(model.variances)) - model.structure.weights)
    mean = model.intercepts @ inverse
    covariance = inverse.T @ np.diag(model.variances) @ inverse
    deviation = np.sqrt(np.diag(covariance))
    assert (abs(table.mean(axis=0) - mean) / deviation).max() < 0.03
    assert abs((np.cov(table.T) - covariance) / np.outer(deviation, deviation)).max() < 0.04


def test_a_data_set_of_a_network():
    data = network("magic-niab", silos=2, rows=5, seed=3)
    assert data.schema.rows == {"silo-1": 5, "silo-2": 5}
    assert data.schema.variables[0] == "YR.GLASS"
    assert data.about["parameters"] == {"network": "magic-niab", "silos": 2, "rows": 5}
    assert "CC BY-SA 3.0" in data.about["source"]
    more = network("magic-niab", silos=3, rows=5, seed=3)
    assert np.array_equal(more.tables["silo-2"], data.tables["silo-2"])
    assert not np.array_equal(network("magic-niab", 2, 5, 4).tables["silo-1"], data.tables["silo-1"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ("chain", 2, 5, 0),
            f"network: 'chain' is not one of {', '.join(sorted(GAUSSIAN | DISCRETE))}, nor a .bif file",
        ),
        (("ecoli70", 0, 5, 0), "silos: 0 is less than 1"),
        (("ecoli70", 2, 1, 0), "rows: 1 is less than 2"),
        (("ecoli70", 2, 5, -1), "seed: -1 is less than 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(given, message):
    with pytest.raises(BadInput) as caught:
        network(*given)
    assert str(caught.value) == message


def test_a_data_set_of_a_discrete_network():
    data = network("child", silos=2, rows=50, seed=3)
    assert data.schema.rows == {"silo-1": 50, "silo-2": 50}
    assert data.schema.kind == "discrete"
    assert data.schema.levels["LowerBodyO2"] == ("<5", "5-12", "12+")
    assert data.truth.adjacency.sum() == 25
    assert "CC BY-SA 3.0" in data.about["source"]
    whole = network("child", silos=1, rows=100, seed=3).tables["silo-1"]
    assert np.array_equal(np.concatenate([data.tables["silo-1"], data.tables["silo-2"]]), whole)
    assert not np.array_equal(network("child", 1, 100, 4).tables["silo-1"], whole)


@pytest.mark.parametrize("name", ["pathfinder", "hailfinder", "insurance"])
def test_labels_that_look_missing_survive_a_folder(tmp_path, name):
    data = network(name, silos=2, rows=200, seed=0)
    assert any(label in ("NA", "None") for labels in data.schema.levels.values() for label in labels)
    write_folder(tmp_path / "set", data)
    back = read_folder(tmp_path / "set")
    assert back.schema == data.schema
    assert all(np.array_equal(back.tables[silo], data.tables[silo]) for silo in data.tables)


def test_a_network_of_ones_own(tmp_path):
    path = tmp_path / "mine.bif"
    path.write_text(
        "variable a { type discrete [ 2 ] { no, <5 }; } variable b { type discrete [ 2 ] { x, y }; }"
        "probability ( a ) { table 0, 1; } probability ( b | a ) { (no) 1, 0; (<5) 0, 1; }"
    )
    data = network(str(path), silos=1, rows=5, seed=0)
    assert data.tables["silo-1"].tolist() == [[1, 1]] * 5
    assert data.about["parameters"]["network"] == "mine.bif"
    with pytest.raises(BadInput, match=r"none\.bif: no such file"):
        network(str(tmp_path / "none.bif"), 1, 5, 0)
