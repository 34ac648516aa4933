"""The files of a run on time series: edges with lags, and every silo's own structure and scores."""

import csv
import json
from dataclasses import replace

import numpy as np

from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.graphs.edges import ClassifiedEdges
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.outputs import FILES, OUTPUTS, write_outputs
from fedbnsl.tracking.report.files import silo_structures_csv, silos_csv, structure_csv


def test_every_edge_has_its_lag(over_time):
    assert structure_csv(ClassifiedEdges(over_time.structure)).splitlines() == [
        "source,target,weight,lag",
        "a,b,2.0,0",
        "a,a,0.5,1",
        "b,b,0.5,1",
        "c,c,0.5,1",
        "a,c,-0.25,2",
    ]


def test_a_required_edge_is_imposed_within_one_time_and_not_at_a_lag():
    within, lagged = np.array([[0, 2], [0, 0.0]]), np.array([[[0, 0.5], [0, 0]]])
    both = Structure(("a", "b"), within, lagged=lagged)
    assert structure_csv(ClassifiedEdges(both), knowledge=Knowledge(required=(("a", "b"),))).splitlines() == [
        "source,target,weight,lag,imposed",
        "a,b,2.0,0,1",
        "a,b,0.5,1,0",
    ]


def test_a_cpdag_within_one_time_has_types_and_lags():
    both = Structure(("a", "b"), np.array([[0, 1], [1, 0.0]]), "cpdag", lagged=np.array([[[0, 0], [0.5, 0]]]))
    assert structure_csv(ClassifiedEdges(both)).splitlines() == [
        "source,target,weight,type,lag",
        "a,b,1.0,undirected,0",
        "b,a,0.5,directed,1",
    ]


def test_the_files_of_a_run(over_time, tmp_path):
    written = write_outputs(over_time, tmp_path / "run")
    of_others = {
        "model.bif",
        "averaged.csv",
        "changes.csv",
        "disclosure.json",
        "intensities.csv",
        "delays.png",
        "targets.csv",
    }
    assert set(written) == {*FILES} - of_others - {"delays.png", "targets.csv"}
    assert written["matrices.png"].read_bytes().startswith(b"\x89PNG")
    with written["silos.csv"].open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["silo"], row["shd"], row["lagged_shd"]) for row in rows] == [("north", "1", "1"), ("south", "1", "1")]
    metrics = json.loads(written["metrics.json"].read_text())
    assert (metrics["lagged_shd"], metrics["spectral_radius"], metrics["forecast_mse"]) == (1, 0.5, 2.0)
    model = json.loads(written["model.json"].read_text())
    assert (model["variables"], model["lags"]) == (["a", "b", "c"], 2)


def test_a_static_run_has_no_file_more(chain, tmp_path):
    assert set(write_outputs(chain, tmp_path / "run")) == {*OUTPUTS, "model.json"}


def test_silos_may_lack_edges_or_scores(over_time):
    static = Structure(("a", "b", "c"), np.zeros((3, 3)))
    local = {"south": ClassifiedEdges(over_time.structure), "north": ClassifiedEdges(static)}
    lines = silo_structures_csv(local).splitlines()
    assert lines[:2] == ["silo,source,target,weight,lag", "south,a,b,2.0,0"]
    assert silos_csv({"b": {"shd": 1, "tpr": None}, "a": {"shd": 2}}).splitlines() == ["silo,shd,tpr", "a,2,", "b,1,"]


def test_without_own_structures_there_are_no_files_of_silos(over_time, tmp_path):
    plain = replace(over_time, local_structures={}, silo_scores={})
    assert set(write_outputs(plain, tmp_path / "run")) == {*OUTPUTS, "matrices.png", "model.json"}
