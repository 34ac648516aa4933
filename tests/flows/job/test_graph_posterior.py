"""`--posterior`: sums, masks, engines, lost silos, refusals, files, effects and what the report says."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn, load
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.data.generators.mixed import mixed
from fedbnsl.flows.job import graph_posterior
from tests.flows.commands import assert_same_files, run, stop_and_resume

OPTIONS = {"posterior": 200, "bootstrap": 0}


def sampled(data, algorithm="secure-boss", **options):
    return learn(data, algorithm, **OPTIONS | options).result.graph_posterior


@pytest.fixture(scope="module")
def data():
    return homogeneous(variables=6, silos=3, rows=120, seed=5)


@pytest.fixture(scope="module")
def labels():
    return discrete(variables=6, silos=3, rows=200, seed=2)


def test_numbers_need_no_further_exchange(data):
    plain, sure = learn(data, "secure-boss", bootstrap=0), learn(data, "secure-boss", **OPTIONS)
    assert sure.metrics["posterior_bytes"] == 0
    assert sure.metrics["diagnosis_bytes"] == plain.metrics["diagnosis_bytes"]
    assert (sure.weights == plain.weights).all().all()
    found = sure.result.graph_posterior.posterior
    true = data.truth.adjacency | data.truth.adjacency.T
    assert found.graphs == 200
    assert found.joined[true].mean() > 0.9
    assert found.joined[~true & ~np.eye(6, dtype=bool)].mean() < 0.15
    assert plain.result.graph_posterior.posterior is None


def test_without_a_diagnosis_one_sum_gives_the_same_graphs(data):
    one, other = sampled(data), sampled(data, diagnose=False)
    assert other.bytes_sent > 0 == one.bytes_sent
    assert (one.posterior.weights != 0).tolist() == (other.posterior.weights != 0).tolist()
    np.testing.assert_allclose(one.posterior.weights, other.posterior.weights, rtol=1e-3)


def test_federated_is_pooled(data):
    """Rows about the means of their silos, in one silo, less the rows that the other means cost."""
    from fedbnsl.algorithms.posterior.bge import gaussian_posterior
    from fedbnsl.algorithms.statistics.moments import SummedMomentsWithin

    rows = np.vstack([table - table.mean(axis=0) for table in data.tables.values()])
    pooled = gaussian_posterior(SummedMomentsWithin(len(rows) - 2, np.zeros(6), rows.T @ rows / len(rows)), 1)
    seen = []

    def watch(moments, silos, share):
        seen.append(original(moments, silos, share))
        return seen[0]

    import fedbnsl.algorithms.posterior.bge as module

    original = module.gaussian_posterior
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "gaussian_posterior", watch)
        sampled(data, secure=True)
    np.testing.assert_allclose(seen[0].R, pooled.R, rtol=1e-6, atol=1e-6)
    assert seen[0].rows == pooled.rows


@pytest.mark.parametrize("kind", ["data", "labels"])
def test_masks_do_not_change_the_graphs(kind, request):
    tables = request.getfixturevalue(kind)
    plain, masked = sampled(tables).posterior, sampled(tables, secure=True).posterior
    assert (plain.weights != 0).tolist() == (masked.weights != 0).tolist()


def test_a_seed_gives_the_same_graphs_and_another_seed_others(data):
    one, again, other = (sampled(data, seed=seed).posterior.weights for seed in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()


def test_labels_are_counted_once(labels, tmp_path):
    found = learn(labels, "secure-boss", **OPTIONS, secure=True, out=tmp_path / "out")
    posterior = found.result.graph_posterior.posterior
    true = labels.truth.adjacency | labels.truth.adjacency.T
    assert found.metrics["posterior_bytes"] > 0
    assert posterior.joined[true].mean() > 0.5 > posterior.joined[~true].mean()
    statements = json.loads((tmp_path / "out" / "disclosure.json").read_text())["silos"]
    (line,) = (one for one in statements["silo-1"] if one["part"] == "posterior")
    assert (line["statistic"], line["masked"], line["times"]) == ("counts", True, 1)


def test_empty_cells_of_numbers_count_less(data):
    tables = {silo: rows.copy() for silo, rows in data.tables.items()}
    for rows in tables.values():
        rows[np.random.default_rng(0).random(rows.shape) < 0.3] = np.nan
    assert "independent complete rows" in sampled(tables, "secure-linear").how


def test_knowledge_holds_in_every_graph(data):
    first, second, third = data.schema.variables[:3]
    found = sampled(data, required_arcs=f"{first}->{second}", forbidden_arcs=f"{third}->{first}").posterior
    assert found.edges[0, 1] == 1
    assert found.edges[2, 0] == 0


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("data", {"algorithm": "secure-sum", "epsilon": 5.0}, "ε have noise"),
        ("data", {"weights": "own"}, "silos weigh edges of their own"),
        (mixed(5, 2, 60, 1), {}, "numbers or of labels, and data is mixed"),
        (dynamic(4, 3, 150, 2), {}, "is time-series"),
    ],
)
def test_what_has_no_posterior_is_refused_in_one_line(kind, options, reason, request):
    tables = request.getfixturevalue(kind) if isinstance(kind, str) else kind
    with pytest.raises(BadInput, match=f"posterior: .*{reason}"):
        sampled(tables, **{"algorithm": "secure-boss", **options})


def test_few_graphs_are_refused(data):
    with pytest.raises(BadInput, match="posterior is 5: probabilities need 100 graphs"):
        sampled(data, posterior=5)


def test_curved_effects_have_no_posterior(data, monkeypatch):
    monkeypatch.setattr(graph_posterior, "is_nonlinear", lambda job, last: True)
    assert sampled(data).why == "effects are curved, and BGe is the score of linear effects"


def test_chains_that_disagree_are_reported(data, tmp_path, monkeypatch):
    from fedbnsl.algorithms.posterior import sampling

    monkeypatch.setattr(sampling, "largest_r_hat", lambda dags: 1.7)
    monkeypatch.setattr(sampling, "MAX_WORK", 1.0)
    learn(data, "secure-boss", **OPTIONS, out=tmp_path / "out")
    assert "The chains do not agree (R̂ = 1.7" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("kind", ["data", "labels"])
def test_files_report_and_loading(kind, request, tmp_path):
    tables = request.getfixturevalue(kind)
    learned = learn(tables, "secure-boss", posterior=200, bootstrap=10, out=tmp_path / "out")
    found, again = learned.result.graph_posterior, load(tmp_path / "out").result.graph_posterior
    assert (again.how, again.bytes_sent) == (found.how, found.bytes_sent)
    assert again.posterior.r_hat == found.posterior.r_hat
    assert (again.posterior.weights == found.posterior.weights).all()
    pairs = pd.read_csv(tmp_path / "out" / "posterior.csv")
    i, j = (tables.schema.variables.index(pairs.iloc[0][end]) for end in ("source", "target"))
    assert pairs.iloc[0]["edge"] == pytest.approx(found.posterior.edges[i, j], abs=1e-3)
    assert ("effect" in pairs) == (kind == "data")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "How sure: the posterior over graphs" in page
    assert "The probability of an edge is not its strength over resamples" in page
    assert learned.posterior.equals(load(tmp_path / "out").posterior)


def test_an_effect_is_averaged_over_graphs(data):
    learned = learn(data, "secure-boss", posterior=2000, bootstrap=0)
    source, target = (data.schema.variables[at] for at in np.argwhere(data.truth.weights)[0])
    report = learned.effect(source, target, compare=(0, 2))
    averaged, posterior = report.effects[0].averaged, learned.result.graph_posterior.posterior
    i, j = map(data.schema.variables.index, (source, target))
    assert averaged.median == pytest.approx(2 * np.median(posterior.effects[:, i, j]))
    assert averaged.no_cause == pytest.approx(1 - posterior.paths[i, j])
    assert "averaged over 2000 graphs of the posterior: 95 % interval" in str(report)
    assert "except those averaged over the posterior" in str(report)
    assert report.as_json()["effects"][0]["posterior"]["median"] == averaged.median


def test_the_effect_of_a_certain_graph_is_that_of_its_regression():
    """With many rows and known order, the interval over graphs is the interval of the regression."""
    data = homogeneous(variables=4, silos=2, rows=20_000, seed=3)
    order = "<".join(data.schema.variables[v] for v in np.argsort(_depth(data.truth.adjacency), kind="stable"))
    learned = learn(data, "secure-boss", posterior=2000, bootstrap=0, tiers=order)
    source, target = (data.schema.variables[at] for at in np.argwhere(data.truth.weights)[0])
    one = learned.effect(source, target).effects[0]
    width = one.interval[1] - one.interval[0]
    np.testing.assert_allclose(one.averaged.interval, one.interval, atol=0.25 * width)


def _depth(dag):
    from fedbnsl.algorithms.posterior.partition_sampler import layers_of

    return layers_of(dag)


def test_an_effect_between_labels_is_averaged_over_graphs(labels):
    learned = learn(labels, "secure-boss", **OPTIONS)
    posterior = learned.result.graph_posterior.posterior
    i, j = np.unravel_index(posterior.paths.argmax(), posterior.paths.shape)
    report = learned.effect(labels.schema.variables[i], labels.schema.variables[j])
    for one in report.effects:
        assert one.averaged.no_cause == pytest.approx(1 - posterior.paths[i, j])
        assert one.averaged.interval[0] <= one.averaged.median <= one.averaged.interval[1]


def test_a_lost_silo_is_not_in_the_rows(data, monkeypatch):
    from fedbnsl.flows.job import run as running

    whole = running.graph_posterior

    def without_one(job, session, algorithm, last, structure, sums):
        counted = sums.counted.copy()
        counted[0] = False
        rest = replace(sums, counted=counted, rows=240)
        return whole(job, session, algorithm, last, structure, rest)

    monkeypatch.setattr(running, "graph_posterior", without_one)
    assert "240 rows" in sampled(data).how


@pytest.mark.slow
def test_both_engines_give_the_same_graphs(server, example, tmp_path, capsys):
    for engine in ("inline", "prefect"):
        words = ("learn", example, "-a", "secure-boss", "--posterior", 200, "--engine", engine, "--secure")
        code, said, err = run(capsys, *words, "--out", tmp_path / engine)
        assert code == 0, err
        assert "posterior over graphs: 200 DAGs" in said
    assert_same_files(tmp_path / "inline", tmp_path / "prefect", ("posterior.csv", "posterior_graphs.csv"))


@pytest.mark.slow
def test_a_run_resumed_after_its_rounds_gives_the_same(server, example, tmp_path, monkeypatch, capsys):
    words = ("learn", example, "-a", "fed-sparse", "-p", "rounds=6", "--posterior", 200)
    assert run(capsys, *words, "--engine", "inline", "--out", tmp_path / "whole")[0] == 0

    def crash(*given):
        raise RuntimeError("the coordinator stopped")

    stop_and_resume(capsys, monkeypatch, "fedbnsl.flows.job.run.graph_posterior", words, tmp_path / "out", crash)
    assert_same_files(tmp_path / "out", tmp_path / "whole", ("posterior.csv", "posterior_graphs.csv"))
