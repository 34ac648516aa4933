import numpy as np
import pytest

from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.job.truth_scores import mean_scores, structure_scores
from fedbnsl.flows.options.learn import LearnSettings


@pytest.fixture(scope="module")
def data():
    return homogeneous(variables=8, silos=4, rows=30, seed=5)


def scored(data, algorithm):
    settings = LearnSettings(data="data", algorithm=algorithm)
    return run_inline(job_inline(settings, "run", data), data)


def test_local_baselines_are_scored_by_the_mean_over_the_silos(data):
    result = scored(data, "notears-local")
    each = [compare(one, data.truth) for one in result.local_structures.values()]
    assert len(each) == 4
    assert result.metrics["shd"] == pytest.approx(np.mean([one["shd"] for one in each]))
    assert result.metrics["tpr"] == pytest.approx(np.mean([one["tpr"] for one in each]))


def test_the_best_of_the_silos_has_the_lowest_shd(data):
    result = scored(data, "notears-best")
    each = {silo: compare(one, data.truth)["shd"] for silo, one in result.local_structures.items()}
    assert result.metrics["shd"] == min(each.values())
    assert compare(result.structure, data.truth)["shd"] == min(each.values())


def test_a_vote_is_scored_by_itself(data):
    result = scored(data, "notears-voting")
    assert result.metrics["shd"] == compare(result.structure, data.truth)["shd"]


def test_the_pooled_baseline_sees_one_silo(data):
    result = scored(data, "notears")
    assert result.schema.rows == {"pooled": 120}


def test_what_has_no_pag_is_not_compared_with_one_but_the_run_ends():
    square = np.zeros((4, 4))  # undirected without a chord: no DAG has this CPDAG
    for i, j in ((0, 1), (1, 2), (2, 3), (3, 0)):
        square[i, j] = square[j, i] = 1.0
    names = tuple("abcd")
    pag = Structure(names, np.zeros((4, 4)), "pag")
    found = structure_scores(Structure(names, square, "cpdag"), pag)
    assert found["shd"] is None
    assert found["edges"] == 4
    assert "belongs to no class" in found["not_compared"]


def test_a_mean_keeps_flags_and_what_is_not_known():
    first = {"shd": 1, "acyclic": True, "tpr": None}
    assert mean_scores([first, {"shd": 4, "acyclic": False, "tpr": None}]) == {
        "shd": 2.5,
        "acyclic": False,
        "tpr": None,
    }


def test_the_reason_why_one_silo_is_not_compared_is_kept():
    assert mean_scores([{"shd": None}, {"shd": 2, "not_compared": "the truth has a cycle"}]) == {
        "shd": 2,
        "not_compared": "the truth has a cycle",
    }
