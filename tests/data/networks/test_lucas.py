"""LUCAS against the published tables and against independent samples from them."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.bif import parse_bif
from fedbnsl.data.networks.lucas import SET, lucas, lucas_network

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "lucas"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real data sets are not here")


def test_the_graph_is_the_published_one():
    truth = lucas_network("0").structure
    edges = """Anxiety>Smoking Peer_Pressure>Smoking Smoking>Yellow_Fingers Smoking>Lung_Cancer Genetics>Lung_Cancer
    Genetics>Attention_Disorder Lung_Cancer>Coughing Allergy>Coughing Coughing>Fatigue Lung_Cancer>Fatigue
    Fatigue>Car_Accident Attention_Disorder>Car_Accident"""
    assert set(truth.to_networkx().edges) == {tuple(edge.split(">")) for edge in edges.split()}
    assert "Born_an_Even_Day" in truth.variables


def test_the_marginals_are_those_of_exact_inference_on_the_published_tables():
    """P(variable = 1) by pgmpy 1.1.2, VariableElimination, on a BIF file typed from the same page by somebody else."""
    expected = {
        "Smoking": 0.7594417013,
        "Yellow_Fingers": 0.7799094125,
        "Anxiety": 0.6427700000,
        "Peer_Pressure": 0.3299700000,
        "Genetics": 0.1595300000,
        "Attention_Disorder": 0.3529731750,
        "Born_an_Even_Day": 0.5000000000,
        "Car_Accident": 0.7435538243,
        "Fatigue": 0.7499966417,
        "Allergy": 0.3284100000,
        "Coughing": 0.7004465997,
        "Lung_Cancer": 0.7362909381,
    }
    network = lucas_network("0")
    at = {name: v for v, name in enumerate(network.variables)}
    rows = np.array(list(np.ndindex((2,) * 12)))
    p = np.prod(
        [table[tuple(rows[:, at[v]] for v in (*network.parents[n], n))] for n, table in network.tables.items()], 0
    )
    assert np.allclose(p.sum(), 1)
    assert {name: round(float(p @ rows[:, at[name]]), 10) for name in expected} == expected


@needs_shared
def test_the_tables_are_those_typed_independently():
    text = gzip.decompress((SHARED / "lucas0.bif.gz").read_bytes()).decode()
    theirs, ours = parse_bif(text), lucas_network("0")
    assert theirs.variables == ours.variables
    assert theirs.parents == ours.parents
    for name in ours.variables:
        assert np.allclose(theirs.tables[name], ours.tables[name], atol=1e-12)
    settings = json.loads((SHARED / "interventions.json").read_text())["interventions"]
    assert {version: SET[version[-1]] for version in settings} == settings


@needs_shared
@pytest.mark.parametrize("version", ["0", "1", "2"])
def test_the_means_and_pairs_are_those_of_another_draw(version):
    frame = pd.read_csv(SHARED / f"lucas{version}_test_10000.csv.gz")
    data = lucas(version, silos=4, rows=2500, seed=7)
    assert tuple(frame.columns) == data.schema.variables
    rows = np.concatenate(list(data.tables.values()))
    assert abs(rows.mean(axis=0) - frame.to_numpy().mean(axis=0)).max() < 0.03
    assert abs(np.corrcoef(rows.T) - np.corrcoef(frame.to_numpy().T)).max() < 0.06


@pytest.mark.parametrize(("version", "edges"), [("0", 12), ("1", 6), ("2", 2)])
def test_what_an_agent_sets_has_no_cause(version, edges):
    data = lucas(version, 4, 500, 0)
    assert data.schema.rows == {f"silo-{number}": 500 for number in range(1, 5)}
    assert data.schema.levels["Smoking"] == ("0", "1")
    assert data.truth.adjacency.sum() == edges
    at = [data.schema.variables.index(name) for name in data.about["set"]]
    assert not data.truth.adjacency[:, at].any()
    assert data.about["target"] == "Lung_Cancer"
    assert data.truth.adjacency[:, data.schema.variables.index("Lung_Cancer")].sum() == 2


def test_another_version_is_refused():
    with pytest.raises(BadInput, match="version: '3' is not one of 0, 1, 2"):
        lucas("3", 4, 500, 0)
