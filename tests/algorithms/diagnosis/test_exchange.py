"""The two exchanges of a diagnosis against numpy: the sums, and the comparison of each silo with the others."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import gather, rounds, traffic_of
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.diagnosis.exchange import Diagnosis, start
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.statistics.transforms import transform_gain
from fedbnsl.data.federated import time_series
from fedbnsl.tasks.transport.in_process import InProcessFederation, federate

NAMES = ("x0", "x1", "x2")
CHAIN = np.array([[0, 1.0, 0], [0, 0, 1.0], [0, 0, 0]])
LEARNED = Structure(NAMES, CHAIN)


def tables(seed=0, sizes=(200, 300, 150, 250)):
    """Silos of x0 → x1 → x2; the last silo has a different weight, a different mean and outliers."""
    rng = np.random.default_rng(seed)
    found = {f"s{k}": rng.normal(size=(n, 3)) @ np.linalg.inv(np.eye(3) - CHAIN) for k, n in enumerate(sizes)}
    last = found[f"s{len(sizes) - 1}"]
    last[:, 2] += 0.7 * last[:, 1]
    last[:, 1] += 3
    last[:5, 0] = 90
    return found


def asked(federation, masked=False, structure=LEARNED):
    """The state after both exchanges about `structure`, and that after the first."""
    spec = AlgorithmSpec("diagnosis", Diagnosis(masked=masked))
    begun = start(federation.schema, structure)
    first, last = rounds(registry.build(spec), federation, resume=(0, begun))
    assert last.outcome == "converged"
    return last.server, first.server


def by_rows(given, silo):
    """The figures of `silo`: shift and its column, gain by own weights and its column, share of outliers."""
    own = given[silo]
    others = [table for name, table in given.items() if name != silo]
    rows = sum(map(len, others))
    within = np.vstack([table - table.mean(axis=0) for table in others])
    shift = np.abs(own.mean(axis=0) - np.vstack(others).mean(axis=0)) / np.sqrt((within**2).sum(axis=0) / rows)
    centred, gain = own - own.mean(axis=0), np.zeros(3)
    for j, i in ((1, 0), (2, 1)):
        left = []
        for X in (centred, within):
            weight = X[:, i] @ X[:, j] / (X[:, i] @ X[:, i])
            left.append(np.mean((centred[:, j] - weight * centred[:, i]) ** 2))
        gain[j] = np.log(left[1] / left[0]) - 1 / len(own)
    middle = np.median(own, axis=0)
    far = np.abs(own - middle) > 6 * 1.4826 * np.median(np.abs(own - middle), axis=0)
    return np.array(
        [
            [shift.max(), shift.argmax()],
            [gain.max(), gain.argmax()],
            [far.mean(), far.sum(axis=0).argmax()],
        ]
    )


@pytest.mark.parametrize("masked", [False, True])
def test_sums_and_figures_are_those_of_the_rows(masked):
    given = tables()
    server, _ = asked(federate(given), masked)
    rows = np.vstack(list(given.values()))
    np.testing.assert_allclose(server.means, rows.mean(axis=0), atol=1e-7)
    within = sum((len(t) * np.cov(t.T, bias=True) for t in given.values()), np.zeros((3, 3)))
    np.testing.assert_allclose(server.within, within / len(rows), rtol=1e-6)
    assert server.rows == len(rows)
    for place, silo in enumerate(given):
        np.testing.assert_allclose(server.figures[place, :3], by_rows(given, silo), atol=1e-5)


@pytest.mark.parametrize("first", [(), ("s1",)])
def test_a_silo_that_was_not_counted_compares_itself_with_all_who_were(first):
    """A silo is lost in the first exchange and returns for the second, or a silo is lost in the second."""
    given = tables()

    class Losing(InProcessFederation):
        def exchange(self, algorithm, number, broadcast, sparse=None):
            gone = first if number == 1 else () if first else ("s1",)
            silos = [silo for silo in self.schema.silos if silo not in gone]
            replies = {silo: self.reply(algorithm, number, silo, broadcast) for silo in silos}
            return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)

    server, begun = asked(Losing(federate(given).schema, given))
    counted = {silo: table for silo, table in given.items() if silo not in first}
    assert begun.rows == sum(map(len, counted.values()))
    np.testing.assert_allclose(server.means, np.vstack(list(counted.values())).mean(axis=0))
    for place, silo in enumerate(given):
        if silo == "s1" and not first:
            assert np.isnan(server.figures[place]).all()
        else:
            expected = by_rows({**counted, silo: given[silo]}, silo)
            np.testing.assert_allclose(server.figures[place, :3], expected, atol=1e-9)


def test_one_silo_has_nobody_to_compare_itself_with():
    given = {"s0": tables()["s3"]}
    server, _ = asked(federate(given))
    assert not server.figures[0, :2].any()
    assert server.figures[0, 2, 0] == pytest.approx(5 / (3 * 250))


def test_units_do_not_change_what_masked_silos_say():
    given = tables()
    scale = np.array([1e-6, 1.0, 1e5])
    federation = federate({silo: table * scale for silo, table in given.items()})
    schema = replace(federation.schema, units=(2.0**-20, 1.0, 2.0**17))
    masked, _ = asked(InProcessFederation(schema, federation.tables), masked=True)
    plain, _ = asked(federate(given))
    np.testing.assert_allclose(masked.figures, plain.figures, atol=1e-5)
    np.testing.assert_allclose(masked.means / scale, plain.means, atol=1e-6)


@pytest.mark.parametrize("lost", [(), ("s1",)])
def test_the_gain_of_transforms_is_the_mean_over_the_rows_that_answered(lost):
    given = {silo: np.exp(table[:400]) for silo, table in tables().items()}
    transforms = {1: "log", 2: "normal-scores"}

    class Losing(InProcessFederation):
        def exchange(self, algorithm, number, broadcast, sparse=None):
            silos = [silo for silo in self.schema.silos if number == 1 or silo not in lost]
            replies = {silo: self.reply(algorithm, number, silo, broadcast) for silo in silos}
            return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)

    schema = replace(federate(given).schema, skewed={NAMES[v]: one for v, one in transforms.items()})
    server, _ = asked(Losing(schema, given))
    answered = {silo: table for silo, table in given.items() if silo not in lost}
    gains, rows = [transform_gain(table, transforms) for table in answered.values()], [*map(len, answered.values())]
    assert server.transform_gain == pytest.approx(np.average(gains, weights=rows))


def test_a_graph_without_the_slow_cause_of_a_variable_is_not_said_to_be_curved():
    """Unrelated slow series are joined by an edge without a lag, and have a curved relation by chance."""
    rng = np.random.default_rng(7)
    tables = {f"s{k}": rng.normal(size=(250, 3)) for k in range(6)}
    for X in tables.values():
        for t in range(1, len(X)):
            X[t] += 0.95 * X[t - 1]
    lengths = {silo: (len(X),) for silo, X in tables.items()}
    federation = InProcessFederation(time_series(tables, lengths, NAMES), tables)
    structure = Structure(NAMES, CHAIN, lagged=np.zeros((1, 3, 3)))
    begun, spec = start(federation.schema, structure), AlgorithmSpec("diagnosis", Diagnosis(lags=1))
    *_, last = rounds(registry.build(spec), federation, resume=(0, begun))
    assert (last.server.figures[:, 3, 0] == 0).all()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_level_of_one_silo_is_no_shift_of_its_mean(seed):
    """The other silos' share of the level is 0, without a variance: its distance was 77,000 standard deviations."""
    rng, tables = np.random.default_rng(seed), {}
    for silo in "abc":
        x, g = rng.normal(size=400), rng.choice(["p", "q"], size=400).astype(object)
        if silo == "b":
            g[rng.random(400) < 0.2] = "z"
        tables[silo] = pd.DataFrame({"x": x, "y": x + rng.normal(size=400), "g": g})
    found = learn(tables, bootstrap=0).result.diagnosed.findings
    assert not [one.message for one in found if "shift" in one.name]
