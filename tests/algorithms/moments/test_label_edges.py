"""In mixed tables, `auto` tests edges into labels by logistic regressions after the search."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from fedbnsl import learn
from fedbnsl.algorithms.core.knowledge import no_prior
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.moments.label_edges import edges_to_test, labels_late_dag, unsupported_edges
from fedbnsl.algorithms.parameters import mixed_families
from fedbnsl.algorithms.statistics.coding import Coding
from fedbnsl.flows.job import continuation, follow_up

OPTIONS = {"seed": 1, "bootstrap": 0, "diagnose": False}


def steep(seed, slope=2.0, n=6000, *, collider=False):
    """region → x → y → sick, with P(sick) = logistic(slope·y), over three silos of unequal size; and z → sick."""
    rng = np.random.default_rng(seed)
    region = rng.integers(4, size=n)
    x = 2 * rng.normal(size=4)[region] + rng.normal(size=n)
    y, z = 0.9 * x + rng.normal(size=n), rng.normal(size=n)
    sick = rng.random(n) < expit(slope * (y - y.mean() + collider * z))
    table = pd.DataFrame({"sick": np.where(sick, "yes", "no"), "y": y, "region": np.array([*"nesw"])[region], "x": x})
    if collider:
        table["z"] = z
    return {f"silo {i}": table.iloc[rows] for i, rows in enumerate(np.split(np.arange(n), (2500, 4500)))}


@pytest.fixture(scope="module")
def tables():
    return steep(1000)


def skeleton(found):
    names = found.weights.columns
    joined = (found.weights != 0) | (found.weights != 0).T
    return {f"{a} {b}" for i, a in enumerate(names) for b in names[i + 1 :] if joined.loc[a, b]}


TRUE = {"sick y", "y x", "region x"}


def test_a_steep_slope_draws_no_false_edge_into_a_label(tables):
    assert "sick region" in skeleton(learn(tables, "secure-boss", **OPTIONS))
    found = learn(tables, **OPTIONS)
    assert skeleton(found) == TRUE
    assert any(line.startswith("Not in the graph: region → sick") for line in found.result.basis)
    assert found.metrics["diagnosis_bytes"] > 0


def test_the_fit_that_drops_nothing_is_that_of_the_parameters(monkeypatch):
    """One fit serves the check and the model."""
    fits, fit = [], follow_up.fit_mixed_families
    for module in (continuation, follow_up):
        monkeypatch.setattr(
            module, "fit_mixed_families", lambda *given, **more: fits.append(given[-1]) or fit(*given, **more)
        )
    found = learn(steep(1001, collider=True), **OPTIONS)
    assert fits == ["labels"]
    assert found.metrics["parameter_bytes"] > 0
    assert found.metrics["diagnosis_bytes"] == 0
    network = found.result.parameters.network
    assert set(network.parents["sick"]) == {"y", "z"}


def test_each_check_is_a_run_of_its_own(monkeypatch):
    """A silo answers a round of a run once: its journal refuses a second graph under the same run id."""
    names, fit = [], continuation.fit_mixed_families

    def noted(*given, **more):
        names.append(given[-1])
        return fit(*given, **more)

    monkeypatch.setattr(continuation, "fit_mixed_families", noted)
    more = steep(1001, collider=True)
    both = {
        silo: pd.concat([table, more[silo].add_suffix("2")[["sick2", "y2", "z2"]]], axis=1)
        for silo, table in steep(1000).items()
    }
    found = learn(both, **OPTIONS)
    assert any("Not in the graph" in line for line in found.result.basis)
    assert len(names) == len(set(names)) > 1


def test_masked_and_in_any_split_the_result_is_the_same(tables):
    whole = pd.concat(tables.values())
    other = {"a": whole.iloc[:1000], "b": whole.iloc[1000:]}
    one, two, masked = (
        learn(*words, **OPTIONS, **more)
        for words, more in (((tables,), {}), ((other,), {}), ((tables,), {"secure": True}))
    )
    assert skeleton(one) == skeleton(two)
    assert (one.weights == masked.weights).all().all()


def test_a_required_edge_stays(tables):
    found = learn(tables, required_arcs="region->sick", **OPTIONS)
    assert "sick region" in skeleton(found)
    assert not any("region → sick" in line for line in found.result.basis)


CODING = Coding(("a", "b", "c"), (2, 1, 1), (True, False, True))


def test_labels_come_late_and_only_labels_with_a_number_among_other_parents_are_tested():
    clique = Structure(CODING.variables, np.ones((3, 3)) - np.eye(3), "cpdag")
    dag = labels_late_dag(clique, CODING)
    assert dag[1, [0, 2]].all()
    tested = edges_to_test(dag, CODING)
    late = 0 if dag[2, 0] else 2
    assert tested[2 - late, late]
    assert not tested[1].any()  # The other parent of `late` is a label.
    assert not tested[:, 1].any()


def fitted(weights, information, dag, correlation=0.0):
    S = np.eye(4)
    S[2, 3] = correlation
    moments = np.concatenate([[1.0], np.zeros(4), S[np.triu_indices(4)]])
    nothing = np.empty(0)
    q = weights.size
    sums = np.concatenate([[0.0], np.zeros(q), information[np.triu_indices(q)]])
    schema = Schema(CODING.variables, {"silo": 1000}, "mixed", {"a": ("r", "s", "t"), "c": ("u", "v")})
    return mixed_families.Server(schema, dag, moments, nothing, weights, nothing, 0.0, 1000, sums, done=True)


def test_wald_s_statistic_is_that_of_the_inverse_of_the_information():
    dag = np.zeros((3, 3), np.bool_)
    dag[[0, 1], 2] = True
    tested = np.zeros_like(dag)
    tested[0, 2] = True
    information = np.eye(4) + 0.5 * (np.ones((4, 4)) - np.eye(4))
    covariance = np.linalg.inv(1000 * information)[1:3, 1:3]
    direction = np.array([1.0, -0.5])
    unit = direction @ np.linalg.inv(covariance) @ direction
    price = 2 * np.log(1000) * 2
    for factor, dropped in ((0.99, [(0, 2)]), (1.01, [])):
        weights = np.array([0.3, *(direction * np.sqrt(factor * price / unit)), 2.0])
        assert unsupported_edges(fitted(weights, information, dag), tested, no_prior(3)) == dropped


def test_an_edge_of_a_large_linear_gain_is_kept_whatever_wald_s_statistic_is():
    """With nearly separated levels, Wald's statistic vanishes for the strongest effects."""
    dag = np.zeros((3, 3), np.bool_)
    dag[[0, 1], 2] = True
    weights = np.array([0.3, 1.0, 1.0, 0.01])
    for correlation, dropped in ((0.0, [(1, 2)]), (0.9, [])):
        server = fitted(weights, np.eye(4), dag, correlation)
        tested = np.zeros_like(dag)
        tested[1, 2] = True
        assert unsupported_edges(server, tested, no_prior(3)) == dropped


def test_with_empty_cells_the_edge_is_dropped_too(tables):
    rng = np.random.default_rng(3)
    gaps = {silo: table.mask(rng.random(table.shape) < 0.05) for silo, table in tables.items()}
    assert "sick region" in skeleton(learn(gaps, "secure-boss", **OPTIONS))
    assert skeleton(learn(gaps, **OPTIONS)) == TRUE


def test_the_strengths_of_resamples_agree_with_the_graph(tables):
    """The search draws the edge in nearly every resample, which the verdict on all rows removes."""
    before = learn(tables, "secure-boss", **(OPTIONS | {"bootstrap": 10})).result.confidence.strengths
    found = learn(tables, **(OPTIONS | {"bootstrap": 10}))
    after = found.result.confidence.strengths
    names = found.result.schema.variables
    pair = names.index("region"), names.index("sick")
    assert max(before.strength[pair], before.strength[pair[::-1]]) > 0.5
    assert after.strength[pair] == after.strength[pair[::-1]] == 0
    joined = np.maximum(after.strength, after.strength.T) > 0.5
    assert {f"{min(a, b)} {max(a, b)}" for a, b in (pair.split() for pair in TRUE)} == {
        " ".join(sorted((names[i], names[j]))) for i, j in np.argwhere(np.triu(joined))
    }
