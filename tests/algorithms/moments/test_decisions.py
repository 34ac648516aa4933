"""Decisions of the learners from moments on both sides of each threshold, and the exact sentences about them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.moments.pooled import information_criteria, least_bic
from fedbnsl.tasks.transport.in_process import federate
from tests.algorithms.exact import centred, exact, freedom, of_model


def learned(name, tables, **params):
    """The algorithm, the last state and the structure, learned from unmasked sums."""
    algorithm = replace(registry.build(registry.specify(name, params)), needs_secure_sum=False)
    *_, last = rounds(algorithm, federate(tables))
    return algorithm, last.server, algorithm.structure(last.server)


def edges(structure):
    return [(int(i), int(j)) for i, j in np.argwhere(structure.adjacency)]


def exponential(rng, size):
    return rng.exponential(size=size)


def correlation_worth(gain, rows):
    """The correlation at which an edge raises twice the log-likelihood of this number of rows by `gain`."""
    return math.sqrt(1 - math.exp(-gain / rows))


def one_edge(rho, d):
    """A covariance of standardised columns of which the first two have correlation `rho`."""
    S = np.eye(d)
    S[0, 1] = S[1, 0] = rho
    return S


@pytest.mark.parametrize("d", [3, 7])
@pytest.mark.parametrize("name", ["secure-linear", "secure-lingam"])
def test_an_edge_costs_ln_n_and_twice_ln_d(name, d):
    """n is the number of rows minus that of silos, because the means of the silos cost degrees of freedom."""
    params = {"error_variances": "free", "non_gaussian": False} if name == "secure-linear" else {}
    rows = freedom(exact(np.eye(d)))
    price = math.log(rows) + 2 * math.log(d)
    for worth, expected in ((0.99 * price, set()), (1.01 * price, {(0, 1)})):
        units = 10.0 ** np.linspace(0, 1, d)
        S = one_edge(correlation_worth(worth, rows), d) * np.outer(units, units)
        *_, structure = learned(name, exact(S, seed=d), **params)
        assert {tuple(sorted(edge)) for edge in edges(structure)} == expected


@pytest.mark.parametrize("d", [3, 7])
def test_with_equal_variances_an_edge_costs_the_same(d):
    rows = freedom(exact(np.eye(d)))
    price = math.log(rows) + 2 * math.log(d)
    for worth, expected in ((0.98 * price, []), (1.02 * price, [(0, 1)])):
        weights = np.zeros((d, d))
        weights[0, 1] = math.sqrt(math.expm1(worth / rows))
        tables = exact(of_model(weights, np.ones(d)))
        *_, structure = learned("secure-linear", tables, error_variances="equal", threshold=0.0)
        assert edges(structure) == expected


@pytest.mark.parametrize(("weight", "threshold", "expected"), [(0.31, 0.3, 1), (0.29, 0.3, 0), (0.29, 0.28, 1)])
def test_weights_not_above_the_threshold_are_no_edges(weight, threshold, expected):
    weights = np.zeros((3, 3))
    weights[0, 1] = weight
    tables = exact(of_model(weights, np.ones(3)), {"a": 900, "b": 500})
    *_, structure = learned("secure-linear", tables, error_variances="equal", threshold=threshold)
    assert len(edges(structure)) == expected
    tables = exact(
        of_model(weights, np.ones(3)), {"a": 900, "b": 500}, draw=lambda rng, size: rng.exponential(size=size)
    )
    *_, structure = learned("secure-lingam", tables, threshold=threshold)
    assert len(edges(structure)) == expected


def spread(variances):
    """The logarithm of the mean of `variances` minus the mean of their logarithms."""
    return float(np.log(np.mean(variances)) - np.mean(np.log(variances)))


def variances_of_spread(wanted, d):
    """Variances with the spread `wanted`, ascending."""
    low, high = 0.0, 5.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if spread(np.exp(middle * np.arange(d))) < wanted else (low, middle)
    return np.exp(low * np.arange(d))


def chain(weight, d=4):
    weights = np.zeros((d, d))
    weights[np.arange(d - 1), np.arange(1, d)] = weight
    return weights


@pytest.mark.parametrize(("wanted", "equal"), [(0.0495, True), (0.0505, False)])
def test_error_variances_are_equal_up_to_a_spread_of_a_twentieth(wanted, equal):
    S = of_model(chain(2.0), variances_of_spread(wanted, 4))
    assert spread(np.diag(S)) > 10 * 0.051
    _, server, structure = learned("secure-linear", exact(S))
    assert server.evidence.equal == equal
    assert structure.kind == ("dag" if equal else "cpdag")
    assert edges(structure) == ([(0, 1), (1, 2), (2, 3)] if equal else [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)])


@pytest.mark.parametrize(("share", "equal"), [(0.099, True), (0.101, False)])
def test_error_variances_are_equal_up_to_a_tenth_of_the_spread_of_the_variables(share, equal):
    """There are so many rows that a single variance does not fit better."""
    weights, rows = chain(1.2), {"a": 3000, "b": 1500}
    low, high = 0.0, 0.049
    for _ in range(60):
        middle = (low + high) / 2
        variances = variances_of_spread(middle, 4)
        near = middle < share * spread(np.diag(of_model(weights, variances)))
        low, high = (middle, high) if near else (low, middle)
    _, server, _ = learned("secure-linear", exact(of_model(weights, variances_of_spread(low, 4)), rows))
    assert server.evidence.equal == equal


def log_likelihood(S, dag, rows):
    """The log-likelihood of `dag`'s best linear model for `rows` rows of covariance `S`, and its error variances."""
    left = []
    for j in range(len(S)):
        of = np.flatnonzero(dag[:, j])
        left.append(S[j, j] - S[j, of] @ np.linalg.solve(S[np.ix_(of, of)], S[of, j]) if len(of) else S[j, j])
    return -0.5 * rows * (len(S) * (math.log(2 * math.pi) + 1) + np.log(left).sum()), np.array(left)


def gain_of_one_variance(S, dag, rows):
    """The BIC of `dag` with one error variance minus that with one per variable; both pay the same for edges."""
    free, left = log_likelihood(S, dag, rows)
    d = len(S)
    one = -0.5 * rows * d * (math.log(2 * math.pi * left.mean()) + 1)
    return one - free + 0.5 * (d - 1) * math.log(rows)


@pytest.mark.parametrize(("sign", "equal"), [(1, True), (-1, False)])
def test_one_variance_is_believed_where_it_fits_better_and_the_sentence_has_the_gain(sign, equal):
    """Without edges, the spread of the columns is that of the errors, which would reject equal variances."""
    tables, d = exact(np.eye(4), {"a": 12, "b": 22, "c": 29}), 4
    rows = freedom(tables)
    even = 2 * 0.5 * (d - 1) * math.log(rows) / (rows * d)
    S = np.diag(variances_of_spread(even * (0.9 if sign > 0 else 1.1), d))
    gain = gain_of_one_variance(S, np.zeros((d, d), bool), rows)
    assert math.copysign(1, gain) == sign
    algorithm, server, _ = learned("secure-linear", exact(S, {"a": 12, "b": 22, "c": 29}), non_gaussian=False)
    assert server.evidence.equal == equal
    assert server.evidence.gain == pytest.approx(gain, rel=1e-6)
    D = spread(np.diag(S))
    if equal:
        assert algorithm.basis(server) == (
            f"The data support errors of equal variance (relative spread of the error variances "
            f"{D:.3g}, of the variables' variances {D:.3g}; "
            f"one variance fits better by {gain:.3g}, penalties included).",
            "All directions rest on equal error variances: in other units of measurement some might be reversed.",
        )
    else:
        assert algorithm.basis(server)[0] == (
            f"The data do not support errors of equal variance (relative spread of the error variances "
            f"{D:.3g}, of the variables' variances {D:.3g}; "
            f"a variance for each fits better by {-gain:.3g}, penalties included): no direction "
            "rests on units of measurement."
        )


def half_bent(rng, size):
    """Errors that are exponential in columns 4 and 5, and Gaussian elsewhere."""
    errors = rng.normal(size=size)
    errors[:, 4:6] = rng.exponential(size=(size[0], 2))
    return errors


TEN = np.zeros((10, 10))
TEN[[0, 1, 2, 4, 6, 8], [2, 2, 3, 5, 7, 9]] = 1.3
"""x0 → x2 ← x1, x2 → x3, and three pairs: x4 → x5 with exponential errors, and two Gaussian pairs"""


def test_what_the_directions_of_a_class_rest_on_in_full():
    """Six edges: three compelled, one directed by its errors, two undirected; and two different spreads."""
    S = of_model(TEN, np.array([9.0, 0.5, 4, 1, 2, 0.3, 7, 0.2, 5, 0.4]))
    tables = exact(S, {"a": 900, "b": 400, "c": 700}, draw=half_bent)
    rows = freedom(tables)
    algorithm, server, structure = learned("secure-linear", tables)
    gain, marginal = server.evidence.gain, spread(np.diag(S))
    assert gain < -1000
    assert server.evidence.spread != pytest.approx(marginal, rel=0.1)
    # The fit with one variance has other edges, so its spread and score belong to another graph.
    assert algorithm.basis(server) == (
        f"The data do not support errors of equal variance (relative spread of the error variances "
        f"{server.evidence.spread:.3g}, of the variables' variances {marginal:.3g}; "
        f"a variance for each fits better by {-gain:.3g}, penalties "
        f"included): "
        "no direction rests on units of measurement.",
        "Directions of v-structures, and those that follow from them, rest on conditional independences.",
        "1 further edge was directed by errors that are not Gaussian.",
        "2 edges have no direction: these data do not determine it.",
    )
    assert {(0, 2), (1, 2), (2, 3), (4, 5)} < set(edges(structure))
    assert (5, 4) not in edges(structure)
    assert algorithm.measures(server) == {
        "rows": rows,
        "spread": server.evidence.spread,
        "marginal_spread": pytest.approx(marginal),
        "gain": gain,
    }


def test_a_class_without_open_edges_says_nothing_of_them():
    tables = exact(of_model(TEN[:4, :4], np.array([9.0, 0.5, 4, 1])))
    algorithm, server, structure = learned("secure-linear", tables)
    assert structure.kind == "dag"
    assert len(algorithm.basis(server)) == 2
    assert algorithm.basis(server)[1].startswith("Directions of v-structures, and those that follow from them")


def entropy(u):
    """The approximate entropy of the standardised `u`, up to a constant (Hyvärinen 1998)."""
    return -79.047 * (np.mean(np.log(np.cosh(u))) - 0.37457) ** 2 - 7.4129 * np.mean(u * np.exp(-(u**2) / 2)) ** 2


def contrast(x, y, free):
    """H(y) + H(x|y) − H(x) − H(y|x) of centred columns with these degrees of freedom; positive for x → y."""
    x, y = x / np.sqrt(x @ x / free), y / np.sqrt(y @ y / free)
    rho = x @ y / free
    rest = np.sqrt(1 - rho**2)
    return entropy(y) + entropy((x - rho * y) / rest) - entropy(x) - entropy((y - rho * x) / rest)


@pytest.mark.parametrize(("share", "directed"), [(0.999, 1), (1.001, 0)])
def test_an_edge_is_directed_if_its_evidence_exceeds_the_setting(share, directed):
    S = of_model(np.array([[0.0, 0, 0.8], [0, 0, 0], [0, 0, 0]]), np.array([4.0, 1.0, 0.1]))
    tables = exact(S, draw=exponential, seed=4)
    X = centred(tables)
    rows = freedom(tables)
    evidence = rows * abs(contrast(X[:, 0], X[:, 2], rows))
    assert evidence > 20
    _, server, structure = learned(
        "secure-linear", tables, error_variances="free", min_log_likelihood_ratio=share * evidence
    )
    assert server.directed == directed
    assert len(edges(structure)) == 2 - directed


def negentropies(tables, order):
    """The negentropy of each variable's residual after regression on the variables before it in `order`."""
    X, found = centred(tables), []
    for place, v in enumerate(order):
        before = X[:, order[:place]]
        u = X[:, v] - before @ np.linalg.lstsq(before, X[:, v], rcond=None)[0] if place else X[:, v]
        found.append(-entropy(u / np.sqrt(np.mean(u * u))))
    return np.array(found)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bent", [(0, 1, 2), (0, 1), (0, 2), (2, 1)])
def test_the_errors_of_an_order_are_as_far_from_gaussian_as_those_of_its_rows(bent, seed):
    """This holds for every variable including the last two, in any order."""

    def draw(rng, size):
        errors = rng.normal(size=size)
        errors[:, list(bent)] = rng.exponential(size=(size[0], len(bent)))
        return errors

    weights = np.array([[0, 1.1, 0.4], [0, 0, -0.9], [0, 0, 0]])
    tables = exact(of_model(weights, np.array([1.0, 2.0, 0.5])), seed=seed, draw=draw)
    _, server, _ = learned("secure-lingam", tables)
    np.testing.assert_allclose(server.negentropies, negentropies(tables, server.order), rtol=1e-6, atol=1e-9)


FIRST = "All directions rest on errors that are not Gaussian and on effects that are linear."


@pytest.mark.parametrize(
    ("worth", "expected"),
    [
        ((9.9, 10.1, 9.8, 30.0), "x2, x3"),
        ((9.9, 10.1, 10.2, 30.0), None),
        ((9.9, 1.0, 2.0, 3.0), "x2, x0, x3, x1"),
    ],
)
def test_errors_that_may_be_gaussian_are_named_in_the_order_found(worth, expected):
    algorithm, server, _ = learned("secure-lingam", exact(np.eye(4)))
    server = replace(server, order=np.array([2, 0, 3, 1]), negentropies=np.array(worth) / server.rows)
    said = (
        ()
        if expected is None
        else (
            f"The errors of {expected.count('x')} variables look Gaussian ({expected}): edges between these could as "
            "well point the other way.",
        )
    )
    assert algorithm.basis(server) == (FIRST, *said)


def test_an_order_needs_more_rows_than_variables():
    with pytest.raises(BadInput, match="5 rows, less one a silo, for 5 variables"):
        learned("secure-lingam", unequal_rows(3, 4, d=5))
    *_, structure = learned("secure-lingam", unequal_rows(3, 5, d=5))
    assert structure.acyclic


def unequal_rows(*rows, d):
    rng = np.random.default_rng(1)
    return {f"s{k}": rng.exponential(size=(n, d)) for k, n in enumerate(rows)}


@pytest.mark.parametrize("rows", [300, 3000])
def test_a_further_lag_costs_ln_n_and_twice_the_ln_of_all_lagged_edges(rows):
    """One variable, which depends on itself two steps ago only; the windows reach three steps back."""
    price = math.log(rows) + 2 * math.log(3)
    for worth, expected in ((0.98 * price, 1), (1.02 * price, 2)):
        S = np.eye(4)
        S[0, 2] = S[2, 0] = S[1, 3] = S[3, 1] = correlation_worth(worth, rows)
        criteria = information_criteria(S, rows, 1)
        assert least_bic(criteria) == expected
        np.testing.assert_allclose(criteria[0] - criteria[1], worth - price if expected == 2 else 0.0, atol=1e-6)


def test_of_lags_that_are_equal_but_for_rounding_the_fewest_are_taken():
    assert least_bic(np.array([7.0009, 7.0, 9.0])) == 1
    assert least_bic(np.array([7.0011, 7.0, 9.0])) == 2
    assert least_bic(np.array([9.0, 7.0, 6.9995])) == 2
