"""Queries of networks against enumeration, conditional normal distributions, samples, and pgmpy."""

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters import inference
from fedbnsl.algorithms.parameters.distributions import Linear, Logistic, Tabular
from fedbnsl.algorithms.parameters.inference import Event, NetworkQuery, answer
from fedbnsl.algorithms.parameters.network_json import network_as_json
from fedbnsl.algorithms.parameters.networks import linear_network
from tests.algorithms.parameters.networks import LEVELS, discrete, exact, mixed, normal, numbered


@pytest.mark.parametrize(
    ("targets", "given", "do"),
    [
        (("e",), {}, {}),
        (("a",), {"e": "1", "c": "high"}, {}),
        (("e", "c"), {"b": "yes"}, {}),
        (("a",), {"e": "1"}, {"b": "yes"}),
        (("c",), {}, {"b": "no"}),
        (("a", "b"), {"c": "low"}, {"e": "0"}),
    ],
)
def test_tables_are_eliminated_exactly_and_sampled_alike(targets, given, do, monkeypatch):
    network = discrete()
    query = NetworkQuery(targets, given=given, do=do)
    found = answer(network, query)
    expected = exact(network, targets, given, do)
    assert found.exact
    assert next(iter(found.probabilities)) == tuple(LEVELS[name][0] for name in targets)
    np.testing.assert_allclose(list(found.probabilities.values()), expected, atol=1e-12)
    monkeypatch.setattr(inference, "MAX_CELLS", 0)
    sampled = answer(network, query, np.random.default_rng(3))
    assert not sampled.exact
    errors = [sampled.error(share) for share in expected]
    np.testing.assert_array_less(
        np.abs(np.array(list(sampled.probabilities.values())) - expected), 5 * np.array(errors)
    )


def test_events_on_labels_are_joint_probabilities():
    network = discrete()
    found = answer(network, NetworkQuery(events=(Event("a", "=", "z"), Event("e", "=", "0")), given={"c": "high"}))
    both = exact(network, ("a", "e"), {"c": "high"}).reshape(3, 2)
    assert found.probabilities[()] == pytest.approx(both[2, 0], abs=1e-12)


def test_tables_agree_with_pgmpy():
    from pgmpy.inference import VariableElimination

    from fedbnsl.tracking.model import as_pgmpy

    network = discrete(5)
    theirs = VariableElimination(as_pgmpy(network_as_json(network))).query(["a"], {"e": "1"}, show_progress=False)
    ours = answer(network, NetworkQuery(("a",), given={"e": "1"})).probabilities
    for label in LEVELS["a"]:
        assert ours[label,] == pytest.approx(theirs.get_value(a=label), abs=1e-9)


def test_numbers_have_the_conditional_normal_distribution():
    network = normal()
    rows, _ = network.sample(400_000, np.random.default_rng(0))
    design = np.column_stack([np.ones(len(rows)), rows[:, [0, 2]]])
    weights = np.linalg.lstsq(design, rows[:, 1])[0]
    found = answer(network, NetworkQuery(("y",), given={"x": "2", "z": "-3"}))
    assert found.mean == pytest.approx(weights @ [1, 2, -3], abs=0.02)
    assert found.sd == pytest.approx((rows[:, 1] - design @ weights).std(), abs=0.01)
    assert found.quantiles[0.95] == pytest.approx(found.mean + 1.6449 * found.sd, abs=1e-3)
    share = answer(network, NetworkQuery(events=(Event("y", ">", 0), Event("z", "<", 1)))).probabilities[()]
    assert share == pytest.approx(((rows[:, 1] > 0) & (rows[:, 2] < 1)).mean(), abs=0.005)


def test_an_intervention_on_a_number_leaves_its_causes_as_they_were():
    network = normal()
    after = answer(network, NetworkQuery(("z",), do={"y": 4.0}))
    assert after.mean == pytest.approx(0.5 + 2 * 4 - 0.7 * 1)
    assert after.sd == pytest.approx(np.sqrt(4 + 0.49))
    assert answer(network, NetworkQuery(("x",), do={"y": 4.0})).mean == pytest.approx(1.0)
    assert answer(network, NetworkQuery(("x",), given={"y": 4.0})).mean > 2


def test_a_network_over_time_is_asked_about_its_times():
    structure = Structure(("u", "v"), np.array([[0, 0.5], [0, 0]]), lagged=np.array([[[0.8, 0], [0, 0.3]]]))
    network = linear_network(structure, np.zeros(2), np.ones(2), np.array([1.0, 2.0]), np.ones(2))
    found = answer(network, NetworkQuery(("v",), given={"u[t-1]": 2, "v[t-1]": -1}))
    assert found.mean == pytest.approx(0.5 * 0.8 * 2 - 0.3)
    assert found.sd == pytest.approx(np.sqrt(1.25))


def test_labels_and_numbers_are_sampled_with_an_error():
    network = mixed()
    x = np.linspace(-6, 10, 4001)
    density = np.exp(-((x[:, None] - [1, 3]) ** 2) / (2 * 0.5)) * [0.7, 0.3]
    yes = 1 / (1 + np.exp(1 - 0.8 * x[:, None] - np.array([0, 0.5])))
    weights = density * yes
    found = answer(network, NetworkQuery(("g",), given={"h": "yes"}), np.random.default_rng(1))
    truth = weights.sum(axis=0) / weights.sum()
    assert not found.exact
    assert 1000 < found.samples < 100_000
    assert abs(found.probabilities["b",] - truth[1]) < 4 * found.error(truth[1])
    number = answer(network, NetworkQuery(("x",), given={"h": "yes"}), np.random.default_rng(1))
    assert number.mean == pytest.approx((weights.sum(axis=1) @ x) / weights.sum(), abs=0.03)
    above = answer(network, NetworkQuery(events=(Event("x", ">", 2),), given={"h": "yes"}), np.random.default_rng(1))
    assert above.probabilities[()] == pytest.approx(weights[x > 2].sum() / weights.sum(), abs=0.02)
    assert answer(network, NetworkQuery(("h",), do={"x": 50.0, "g": "b"})).probabilities["yes",] == pytest.approx(
        1, abs=1e-3
    )


@pytest.mark.parametrize(("comparison", "bound"), [("<", 0.5), ("<", 2.0), ("<", 3.5), (">", 0.5)])
def test_the_error_of_a_sampled_share_is_the_one_that_other_samples_show(comparison, bound):
    """This also holds for a share near 1, whose error equals that of the complementary share near 0."""
    query = NetworkQuery(events=(Event("x", comparison, bound),), given={"h": "yes"})
    found = [answer(mixed(), query, np.random.default_rng(seed), 1500) for seed in range(150)]
    shares = np.array([one.probabilities[()] for one in found])
    errors = [one.error(share) for one, share in zip(found, shares, strict=True)]
    assert shares.std() == pytest.approx(np.mean(errors), rel=0.3)
    assert found[0].error(0.9) == pytest.approx(found[0].error(0.1))


def test_an_intervention_removes_the_arrows_into_what_is_set():
    network = mixed().intervened({"h": "no"})
    assert network.parents == {"g": (), "x": ("g",), "h": ()}
    assert network.local[2].table.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (NetworkQuery(), "has no target"),
        (NetworkQuery(("q",)), "there is no variable 'q'"),
        (NetworkQuery(("g",), given={"g": "a"}), "'g' is both a target and evidence"),
        (NetworkQuery(("g",), given={"x": "1"}, do={"x": "2"}), "'x' is both evidence and set by do"),
        (NetworkQuery(("g", "x")), "'x' is a number: ask for the distribution of one number at a time"),
        (NetworkQuery(("g", "g")), "'g' is a target twice"),
        (NetworkQuery(events=(Event("g", "=", "a"), Event("g", "=", "b"))), "'g' is a target twice"),
        (NetworkQuery(events=(Event("x", "=", "2"),)), "'x' is a number: a single value has no probability"),
        (NetworkQuery(events=(Event("g", "<", "a"),)), "'g' has labels: ask for g=LABEL"),
        (NetworkQuery(("g",), given={"x": "tall"}), "x: 'tall' is not a number"),
        (NetworkQuery(("g",), given={"x": "nan"}), "x: 'nan' is not a number"),
        (NetworkQuery(("g",), given={"h": "maybe"}), "h: there is no label 'maybe': available: no, yes"),
        (NetworkQuery(("g",), do={"h": "maybe"}), "h: there is no label 'maybe'"),
    ],
)
def test_a_question_without_an_answer_is_refused(query, message):
    with pytest.raises(BadInput, match=message):
        answer(mixed(), query)


def test_impossible_and_unlikely_evidence_is_refused():
    network = discrete()
    network.tables["b"][..., :] = [1.0, 0.0]
    with pytest.raises(BadInput, match="the evidence b=yes has probability 0 under the model"):
        answer(network, NetworkQuery(("a",), given={"b": "yes"}))
    never = numbered(
        ("h", "x"),
        {"h": ("no", "yes")},
        ((), (0,)),
        (Tabular(np.array([1.0, 0.0])), Linear(0.0, np.array([1.0]), 1.0)),
    )
    with pytest.raises(BadInput, match="the evidence h=yes has probability 0 under the model"):
        answer(never, NetworkQuery(("x",), given={"h": "yes"}))
    wide = numbered(
        ("u", "x", "h"),
        {"h": ("no", "yes")},
        ((), (0,), (1,)),
        (
            Linear(0.0, np.empty(0), 1.0),
            Linear(0.0, np.array([10.0]), 1e-4),
            Logistic(np.zeros(2), np.array([[0.0], [1.0]])),
        ),
    )
    with pytest.raises(BadInput, match="x=9, h=yes is too unlikely under the model: 2,000 samples count as"):
        answer(wide, NetworkQuery(("u",), given={"x": "9", "h": "yes"}), samples=2000)
