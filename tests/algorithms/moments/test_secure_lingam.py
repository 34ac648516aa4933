"""DirectLiNGAM from sums: order and contrasts equal the published program's, with masks and for any silos."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.moments import secure_lingam
from fedbnsl.algorithms.moments.non_gaussian import negentropies
from fedbnsl.tasks.transport.in_process import InProcessFederation, federate

REFERENCE = json.loads((Path(__file__).parents[2] / "references" / "lingam.json").read_text())


def rows_of(d, n, seed, errors):
    """Centred rows of a linear model with errors that are exponential or uniform, `[n, d]`."""
    rng = np.random.default_rng(seed)
    names, u = rng.permutation(d), rng.random((n, d))
    E = -np.log(1 - u) if errors == "exponential" else u
    W = np.triu((0.5 + rng.random((d, d))) * (rng.random((d, d)) < 0.4), 1)[np.ix_(names, names)]
    X = (E * (0.5 + rng.random(d))) @ np.linalg.inv(np.eye(d) - W)
    return X - X.mean(axis=0)


def learned(federation, **params):
    """The last state, the R of each step, and the structure."""
    algorithm = registry.build(registry.specify("secure-lingam", params))
    steps = []

    def aggregate(server, replies):
        if len(server.S):
            m, parts = (
                len(secure_lingam.unordered_variables(server)),
                sum(server.schema.rows[silo] for silo in replies.silos),
            )
            means = replies.total.reshape(m, m, 2) * (sum(server.schema.rows.values()) / parts)
            steps.append(secure_lingam.pairwise(negentropies(means)))
        return algorithm.aggregate(server, replies)

    *_, last = rounds(replace(algorithm, aggregate=aggregate), federation)
    return last.server, steps, algorithm.structure(last.server)


def dealt(X, silos=3):
    """Silos of very different sizes; each silo's rows are centred at its own means."""
    cuts = [len(X) * k * (k + 1) // (silos * (silos + 1)) for k in range(1, silos)]
    return {f"s{k}": part - part.mean(axis=0) for k, part in enumerate(np.split(X, cuts))}


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda case: f"{case['d']}-{case['rows']}-{case['errors']}")
def test_one_silo_has_the_order_and_the_contrasts_of_the_published_program(case):
    X = rows_of(case["d"], case["rows"], case["seed"], case["errors"])
    assert np.abs(X).sum() == pytest.approx(case["sum"])
    server, steps, _ = learned(federate({"all": X}))
    assert server.order.tolist() == case["order"]
    for found, name in ((steps[0], "first"), (steps[2], "third"), (steps[-1], "last")):
        np.testing.assert_allclose(found, case[name], atol=1e-9)


@pytest.mark.parametrize("case", REFERENCE["cases"][::3], ids=lambda case: f"{case['d']}-{case['rows']}")
def test_masked_silos_have_what_their_rows_together_have(case):
    tables = dealt(rows_of(case["d"], case["rows"], case["seed"], case["errors"]))
    server, steps, structure = learned(federate(tables))
    one, of_one, _ = learned(federate({"all": np.vstack(list(tables.values()))}))
    assert server.order.tolist() == one.order.tolist()
    for found, expected in zip(steps, of_one, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(server.negentropies, one.negentropies, atol=1e-6)
    assert structure.acyclic


def test_site_means_change_nothing():
    tables = dealt(rows_of(8, 600, 5, "uniform"))
    rng = np.random.default_rng(1)
    moved = {silo: table + rng.normal(0, 20, 8) for silo, table in tables.items()}
    (one, _, plain), (other, _, shifted) = learned(federate(tables)), learned(federate(moved))
    np.testing.assert_array_equal(one.order, other.order)
    np.testing.assert_allclose(shifted.weights, plain.weights, atol=1e-6)


def test_the_true_order_is_found_and_parents_are_pruned():
    wrong = 0
    for seed in range(5):
        rng = np.random.default_rng(2000 + seed)
        W = np.triu(rng.uniform(0.5, 1.5, (8, 8)) * (rng.random((8, 8)) < 0.3), 1)
        X = rng.exponential(size=(4000, 8)) @ np.linalg.inv(np.eye(8) - W)
        X /= X.std(axis=0)
        mixed = rng.permutation(8)
        *_, structure = learned(federate(dealt(X[:, mixed])))
        wrong += int((structure.adjacency != (W != 0)[np.ix_(mixed, mixed)]).sum())
    assert wrong <= 1


def test_known_edges_are_required_and_precede():
    tables = dealt(rows_of(6, 500, 7, "exponential"))
    plain, *_ = learned(federate(tables))
    first, last = (f"x{plain.order[place]}" for place in (0, -1))
    known = Knowledge(required=((last, first),))
    schema = replace(federate(tables).schema, knowledge=known)
    server, _, structure = learned(InProcessFederation(schema, tables))
    places = {f"x{v}": place for place, v in enumerate(server.order)}
    assert places[last] < places[first]
    assert structure.weights[int(last[1:]), int(first[1:])] != 0


def test_errors_that_look_gaussian_are_told():
    X = np.random.default_rng(3).normal(size=(900, 4))
    algorithm = registry.build(registry.specify("secure-lingam"))
    told = algorithm.basis(learned(federate(dealt(X)))[0])
    assert "4 variables look Gaussian" in told[1]
    bent_ones = algorithm.basis(learned(federate(dealt(np.abs(X))))[0])
    assert len(bent_ones) == 1


def test_too_few_rows_are_refused():
    X = np.random.default_rng(3).normal(size=(8, 8))
    with pytest.raises(BadInput, match="6 rows, less one a silo, for 8 variables"):
        learned(federate({"a": X[:4], "b": X[4:]}))


@pytest.mark.parametrize("m", [0, 2, 4])
def test_correlations_of_other_residuals_are_refused(m):
    """Compiled code does not check its indices and would read beyond the correlations."""
    table = rows_of(3, 50, 1, "uniform")
    silo = secure_lingam.open_silo(table, federate({"s": table}).schema, "s", np.random.default_rng(0))
    secure_lingam.part(silo, secure_lingam.Broadcast(np.eye(3), np.eye(3)))
    with pytest.raises(BadInput, match="has not the correlations of the 3 residuals that it defines"):
        secure_lingam.part(silo, secure_lingam.Broadcast(np.eye(3), np.eye(m)))
