"""The files of a run on time series: edges with lags, and every silo's own structure and scores."""

from dataclasses import replace

import numpy as np

from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.graphs.edges import ClassifiedEdges
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.outputs import OUTPUTS, write_outputs
from fedbnsl.tracking.report.files import silo_structures_csv, silos_csv, structure_csv


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


def test_silos_may_lack_edges_or_scores(over_time):
    static = Structure(("a", "b", "c"), np.zeros((3, 3)))
    local = {"south": ClassifiedEdges(over_time.structure), "north": ClassifiedEdges(static)}
    lines = silo_structures_csv(local).splitlines()
    assert lines[:2] == ["silo,source,target,weight,lag", "south,a,b,2.0,0"]
    assert silos_csv({"b": {"shd": 1, "tpr": None}, "a": {"shd": 2}}).splitlines() == ["silo,shd,tpr", "a,2,", "b,1,"]


def test_without_own_structures_there_are_no_files_of_silos(over_time, tmp_path):
    plain = replace(over_time, local_structures={}, silo_scores={})
    assert set(write_outputs(plain, tmp_path / "run")) == {*OUTPUTS, "matrices.png", "model.json"}
