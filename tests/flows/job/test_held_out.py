"""The likelihood of each silo's rows under a model learned without that silo, masked, on both engines."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn, load, prepare
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Replies, rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import dag_extension
from fedbnsl.algorithms.resampling.held_out import HeldOut, Server, aggregate, scores_by_silo, wrap
from fedbnsl.data.folder.folder import silo_files
from fedbnsl.tasks.transport.in_process import federate
from fedbnsl.tracking.result import HeldOutScores
from tests.algorithms.unequal import unequal

ELIGIBLE = [name for name, entry in registry.ALGORITHMS.items() if entry.one_sum(entry.config())]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "numbers"
    prepare("heterogeneous", folder, variables=5, silos=4, rows=300, seed=4)
    for k, path in enumerate(sorted(silo_files(folder).values())):
        pd.read_csv(path).iloc[: 60 + 50 * k].add(10.0 * k).to_csv(path, index=False)
    (folder / "about.json").write_text('{"kind": "continuous"}')
    return folder


def expected_of(tables, algorithm):
    """By silo, the mean log-likelihood of its rows by regressions over the others' rows, centred within silos."""
    found = {}
    for silo, own in tables.items():
        others = {name: rows for name, rows in tables.items() if name != silo}
        frames = {name: pd.DataFrame(rows).add_prefix("x") for name, rows in others.items()}
        learned = learn(frames, algorithm, parameters=False, diagnose=False, bootstrap=0, **OPTIONS.get(algorithm, {}))
        dag = dag_extension(learned.result.structure).dag
        rest = np.vstack([rows - rows.mean(axis=0) for rows in others.values()])
        rows, total = own - own.mean(axis=0), 0.0
        for j in range(own.shape[1]):
            pa = np.flatnonzero(dag[:, j])
            b = np.linalg.lstsq(rest[:, pa], rest[:, j], rcond=None)[0]
            v = np.mean((rest[:, j] - rest[:, pa] @ b) ** 2)
            total -= 0.5 * (np.log(2 * np.pi * v) + np.mean((rows[:, j] - rows[:, pa] @ b) ** 2) / v)
        found[silo] = total
    return found


OPTIONS = {"secure-linear": {"non_gaussian": False}}
"""directions from errors need another exchange and do not change the likelihood of a class"""


@pytest.mark.parametrize("algorithm", ELIGIBLE)
def test_each_silo_is_scored_by_what_a_run_without_it_learns(algorithm):
    tables = unequal({"a": 60, "b": 90, "c": 150, "d": 210}, dag=True)
    spec = AlgorithmSpec(algorithm, registry.specify(algorithm).settings).wrapped("held-out", HeldOut())
    *_, last = rounds(registry.build(spec), federate(tables))
    assert last.number == 2
    assert scores_by_silo(last.server) == pytest.approx(expected_of(tables, algorithm), rel=1e-8)


@pytest.mark.parametrize("engine", ["inline", pytest.param("prefect", marks=pytest.mark.slow)])
def test_a_run_reports_it_by_silo_masked(engine, request, study, tmp_path):
    if engine == "prefect":
        request.getfixturevalue("server")
    options = {"bootstrap": 0, "held_out": True, "engine": engine, "out": tmp_path / "out"}
    found = learn(study, "secure-linear", **options).result
    tables = {silo: pd.read_csv(path).to_numpy() for silo, path in silo_files(study).items()}
    expected = expected_of(tables, "secure-linear")
    assert found.held_out.by_silo == {silo: float(f"{score:.4g}") for silo, score in expected.items()}
    sizes = {silo: len(rows) for silo, rows in tables.items()}
    mean = sum(sizes[silo] * score for silo, score in expected.items()) / sum(sizes.values())
    assert found.metrics["held_out_log_likelihood"] == pytest.approx(mean, rel=5e-4)
    assert found.held_out.bytes_sent > 0
    assert load(tmp_path / "out").result.held_out == found.held_out
    assert min(expected, key=expected.get) in found.held_out.lines(sizes)[0]


@pytest.mark.parametrize("answering", ["abcd", "abc", "acd"])
def test_only_silos_with_a_score_that_were_counted_and_answer_have_one(answering):
    """Silo b has no score, as the model of the others is no network, c was lost before; d has the score 0."""
    schema = Schema(("x", "y"), dict.fromkeys("abcd", 40))
    server = Server(schema, b"", np.ones(4), np.array([True, True, False, True]), np.empty(0))
    slots = {"a": (1.0, -2.5), "b": (0.0, 0.0), "c": (1.0, -9.0), "d": (1.0, 0.0)}
    total = np.array([slots[silo] if silo in answering else (0.0, 0.0) for silo in "abcd"]).ravel()
    scored = aggregate(server, Replies(tuple(answering), total=total))
    assert scores_by_silo(scored) == {silo: slots[silo][1] for silo in answering if silo in "ad"}


def test_the_mean_is_over_the_rows_of_the_silos_that_have_a_score():
    scores = HeldOutScores({"a": -1.0, "c": -3.0})
    assert scores.mean({"a": 10, "b": 500, "c": 30}) == -2.5
    assert scores.metrics({"a": 30, "b": 500, "c": 10})["held_out_log_likelihood"] == -1.5
    assert "-2.5 nats a row" in scores.lines({"a": 10, "b": 500, "c": 30})[0]
    assert HeldOutScores().mean({"a": 10}) is None


def test_what_leaves_a_silo_are_its_part_of_the_sums_and_one_number():
    tables = unequal({"a": 60, "b": 90, "c": 150})
    learner = registry.build(registry.specify("secure-linear"))
    algorithm = registry.build(AlgorithmSpec("secure-linear", learner_settings()).wrapped("held-out", HeldOut()))
    federation = federate(tables)
    schema = federation.schema
    server = algorithm.open_server(schema)
    states = {s: algorithm.open_silo(tables[s], schema, s, np.random.default_rng(0)) for s in tables}
    first = {s: algorithm.local_solve(states[s], algorithm.broadcast(server))[1] for s in tables}
    assert algorithm.needs_secure_sum == learner.needs_secure_sum is True
    from fedbnsl.algorithms.core.protocol import gather

    server = algorithm.aggregate(server, gather(algorithm, first))
    second = {s: algorithm.local_solve(states[s], algorithm.broadcast(server))[1].values for s in tables}
    for at, silo in enumerate(sorted(tables)):
        slots = second[silo].reshape(3, 2)
        assert slots[at, 0] == 1.0
        assert not np.delete(slots, at, axis=0).any()


def learner_settings():
    return registry.specify("secure-linear").settings


REFUSED = {
    "with an ε": ({"epsilon": 3.0}, {}, "a release that ε does not cover"),
    "of two silos": ({}, {"silos": 2}, "it takes 3 silos or more"),
    "of several exchanges": ({"algorithm": "fed-sparse"}, {}, "takes more than one sum"),
    "of labels": ({}, {"kind": "discrete"}, "numbers without empty cells"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_where_there_is_none_one_line_says_why(which, tmp_path):
    options, data, reason = REFUSED[which]
    made = {"kind": "homogeneous", "variables": 4, "silos": 3, "rows": 300} | data
    tables = prepare(made.pop("kind"), **made, seed=1)
    with pytest.raises(BadInput, match=reason) as error:
        learn(tables, held_out=True, **options)
    assert str(error.value).startswith("held_out: ")
    assert "\n" not in str(error.value)


def test_the_learner_gets_the_sums_of_the_others_as_theirs():
    tables, seen = unequal({"a": 60, "b": 90, "c": 150}), []
    learner = registry.build(registry.specify("secure-linear"))

    def aggregate(server, replies):
        seen.append(replies.silos)
        return learner.aggregate(server, replies)

    *_, last = rounds(wrap(replace(learner, aggregate=aggregate), HeldOut()), federate(tables))
    assert last.outcome == "converged"
    assert sorted(seen) == [("a", "b"), ("a", "c"), ("b", "c")]
