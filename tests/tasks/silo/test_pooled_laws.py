"""Silos that differ in rows, means and units, called through their services: each sum equals that of pooled rows.

Each sum over rows is recomputed from the stacked tables with numpy, pandas and scipy. This is done for all silos and
for those that remain after one is lost, unmasked and masked.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.diagnosis import exchange, missingness, tables
from fedbnsl.algorithms.dynamic.lag_order import LagOrder
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters import mixed_families, regressions
from fedbnsl.algorithms.parameters import tables as family_tables
from fedbnsl.algorithms.statistics.em import ExpectationMaximisation
from fedbnsl.algorithms.statistics.moments import Units, units_of
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.transport.federation import Patience, Roster, SiloFederation
from fedbnsl.tasks.transport.in_process import InProcessTransport

SIZES = {"a": 60, "b": 150, "c": 90, "d": 240}
LOST = "b"
PATIENCE = Patience(absent=60.0)


def last_of(owners, spec, start=None, lost=(), secure=False, run="run", **schema):
    """The last round of `spec` over the services of `owners`, without the silos `lost`."""
    known = replace(owners.data.schema, **schema)
    terms = RunTerms(run, registry.pack(spec), known, 3)
    roster = Roster(InProcessTransport(owners.services), known.silos, PATIENCE, dict.fromkeys(lost, "it is gone"))
    *_, last = rounds(
        registry.build(spec), SiloFederation(roster, terms, secure), None if start is None else (0, start)
    )
    return last


everyone = pytest.mark.parametrize("lost", [(), (LOST,)], ids=["all", "without one"])
either_way = pytest.mark.parametrize(
    ("lost", "secure"), [((), False), ((LOST,), True)], ids=["all, in the clear", "without one, masked"]
)


def write(folder, frames):
    """Write a file a silo, each with its columns in another order; the first silo's is that of the schema."""
    folder.mkdir()
    for k, (silo, frame) in enumerate(frames.items()):
        frame[list(np.roll(frame.columns, k))].to_csv(folder / f"{silo}.csv", index=False)
    return folder


def centred(parts):
    return np.vstack([part - part.mean(axis=0) for part in parts])


# Numbers.


def number_frames(seed=1):
    """Tables of x → y → z ← w in other units, with other means, spreads and orders of columns at each silo."""
    rng, frames = np.random.default_rng(seed), {}
    for k, (silo, n) in enumerate(SIZES.items()):
        x, w = (1 + k) * rng.normal(size=n), rng.normal(size=n)
        y = 0.8 * x + rng.normal(size=n)
        z = y - 0.5 * w + rng.normal(size=n)
        frame = pd.DataFrame({"w": w - k, "x": x + 3 * k, "y": 10 * (y + k), "z": 0.1 * (z - 2 * k)})
        frames[silo] = frame
    return frames


NUMBERS = ("w", "x", "y", "z")
GRAPH = np.array([[0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], bool)


@pytest.fixture(scope="module")
def given():
    return {silo: frame[list(NUMBERS)].to_numpy() for silo, frame in number_frames().items()}


@pytest.fixture
def numbers(host, tmp_path):
    return host(write(tmp_path / "numbers", number_frames()))


def left_of(given, lost):
    return [table for silo, table in sorted(given.items()) if silo not in lost]


@either_way
@pytest.mark.parametrize("center", [True, False])
def test_second_moments(numbers, given, lost, secure, center):
    parts = left_of(given, lost)
    found = last_of(numbers, registry.specify("secure-sum", {"center": center}), lost=lost, secure=secure).server
    rows = centred(parts) if center else np.vstack(parts)
    free = len(rows) - center * len(parts)
    assert found.counted == free
    np.testing.assert_allclose(found.S, rows.T @ rows / free, rtol=1e-6, atol=1e-6)


@either_way
@pytest.mark.parametrize("center", [True, False])
def test_regressions(numbers, given, lost, secure, center):
    parts = left_of(given, lost)
    how = regressions.Regressions(center)
    start = regressions.start(numbers.data.schema, GRAPH)
    server = last_of(numbers, AlgorithmSpec("regressions", how), start, lost, secure).server
    found, rows = regressions.network(server, how), np.vstack(parts)
    about = centred(parts) if center else rows - rows.mean(axis=0)
    assert regressions.contributing_rows(server) == len(rows)
    for j in range(4):
        of = np.flatnonzero(GRAPH[:, j])
        weights = np.linalg.lstsq(about[:, of], about[:, j], rcond=None)[0]
        np.testing.assert_allclose(found.structure.weights[of, j], weights, rtol=1e-5)
        assert found.intercepts[j] == pytest.approx(rows[:, j].mean() - rows[:, of].mean(axis=0) @ weights, abs=1e-5)
        assert found.variances[j] == pytest.approx(np.mean((about[:, j] - about[:, of] @ weights) ** 2), rel=1e-5)


@either_way
def test_the_diagnosis_of_numbers(numbers, given, lost, secure):
    parts = left_of(given, lost)
    structure = Structure(NUMBERS, GRAPH.astype(float))
    start = exchange.start(numbers.data.schema, structure)
    found = last_of(numbers, AlgorithmSpec("diagnosis", exchange.Diagnosis()), start, lost, secure).server
    rows, about = np.vstack(parts), centred(parts)
    assert found.rows == len(rows)
    np.testing.assert_allclose(found.means, rows.mean(axis=0), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.within, about.T @ about / len(rows), rtol=1e-6, atol=1e-7)
    for place, silo in enumerate(sorted(given)):
        if silo in lost:
            assert np.isnan(found.figures[place]).all()
            continue
        others = [table for other, table in given.items() if other not in (silo, *lost)]
        spread = np.sqrt(np.mean(centred(others) ** 2, axis=0))
        apart = np.abs(given[silo].mean(axis=0) - np.vstack(others).mean(axis=0)) / spread
        np.testing.assert_allclose(found.figures[place, 0], [apart.max(), apart.argmax()], rtol=1e-6)


@everyone
def test_units_are_those_of_the_silos_that_answer(numbers, given, lost):
    """Powers of two about the mean of the logarithms of the silos' standard deviations."""
    found = units_of(last_of(numbers, AlgorithmSpec("units", Units()), lost=lost).server)
    logs = np.mean([np.log2(part.std(axis=0)) for part in left_of(given, lost)], axis=0)
    assert np.abs(np.log2(found) - logs).max() <= 0.51


# Numbers with empty cells.


@pytest.fixture(scope="module")
def holed_given(given):
    rng = np.random.default_rng(9)
    shares = np.array([0.1, 0.25, 0.0, 0.4])
    return {silo: np.where(rng.random(t.shape) < shares * (1 + (silo == "c")), np.nan, t) for silo, t in given.items()}


@pytest.fixture
def holed(host, tmp_path, holed_given):
    return host(write(tmp_path / "holed", {silo: pd.DataFrame(t, columns=NUMBERS) for silo, t in holed_given.items()}))


def expected_by_rows(table, S):
    """A silo's expected second moments about the likeliest mean given `S`, row by row (Little & Rubin)."""
    precision, weighted, d = np.zeros_like(S), np.zeros(len(S)), len(S)
    for x in table:
        o = np.flatnonzero(~np.isnan(x))
        K = np.linalg.pinv(S[np.ix_(o, o)])
        precision[np.ix_(o, o)] += K
        weighted[o] += K @ x[o]
    mean, total = np.linalg.lstsq(precision, weighted, rcond=None)[0], np.zeros((d, d))
    for x in table:
        o, m = np.flatnonzero(~np.isnan(x)), np.flatnonzero(np.isnan(x))
        B = S[np.ix_(m, o)] @ np.linalg.pinv(S[np.ix_(o, o)])
        deviation = np.where(np.isnan(x), 0.0, x - mean)
        deviation[m] = B @ (x[o] - mean[o])
        total += np.outer(deviation, deviation)
        total[np.ix_(m, m)] += S[np.ix_(m, m)] - B @ S[np.ix_(o, m)]
    return total


@either_way
def test_moments_expected_by_em(holed, holed_given, lost, secure):
    """The covariance is a fixed point of EM over the rows of the answering silos, minus one row for each mean."""
    parts = left_of(holed_given, lost)
    units = tuple(2.0 ** np.round(np.log2(np.nanstd(np.vstack(parts), axis=0))))
    how = AlgorithmSpec("em", ExpectationMaximisation(tolerance=1e-6, rounds=200))
    S = last_of(holed, how, lost=lost, secure=secure, units=units).server.covariance
    free = sum(map(len, parts)) - len(parts)
    again = sum(expected_by_rows(part, S) for part in parts) / free
    scale = np.sqrt(np.outer(np.diag(S), np.diag(S)))
    np.testing.assert_allclose(again / scale, S / scale, atol=2e-5)


@either_way
def test_what_gaps_depend_on(holed, holed_given, lost, secure):
    parts = left_of(holed_given, lost)
    sums = last_of(holed, AlgorithmSpec("missingness", missingness.Missingness()), lost=lost, secure=secure).server.sums
    for i in range(4):
        for j in range(4):
            differences = chance = rows = 0.0
            for part in parts:
                column, there = part[:, j], np.isnan(part[:, i]) & ~np.isnan(part[:, j])
                known = column[~np.isnan(column)]
                differences += (column[there] - known.mean()).sum() / known.std()
                chance += there.sum() * (1 - there.sum() / len(known))
                rows += there.sum()
            np.testing.assert_allclose(sums[:, i, j], [differences, chance, rows], rtol=1e-5, atol=1e-6)


# Time series.


def series_frames():
    """Two stretches at each silo, of unequal lengths, about levels of their own, in other units."""
    rng, frames = np.random.default_rng(4), {}
    for k, (silo, n) in enumerate(SIZES.items()):
        x = rng.normal(size=(n, 3))
        for t in range(2, n):
            x[t, 0] += 0.6 * x[t - 2, 0]
            x[t, 1] += 0.7 * x[t - 1, 0] + 0.3 * x[t - 1, 1]
            x[t, 2] += 0.5 * x[t, 1]
        time = np.arange(n) + 40 * (np.arange(n) >= n // 3)
        frames[silo] = pd.DataFrame({"time": time, "x": x[:, 0] + k, "y": 20 * x[:, 1], "z": x[:, 2] - 5 * k})
    return frames


@pytest.fixture
def series(host, tmp_path):
    return host(write(tmp_path / "series", series_frames()))


def windows(frame, lags):
    """Windows of X_t and the rows before it side by side; no window extends over the gap."""
    table, cut = frame[["x", "y", "z"]].to_numpy(), len(frame) // 3
    return np.vstack(
        [
            np.hstack([part[lags - lag : len(part) - lag] for lag in range(lags + 1)])
            for part in (table[:cut], table[cut:])
        ]
    )


@either_way
def test_lagged_moments(series, lost, secure):
    """About the means of all windows, without the levels of the silos."""
    frames = [frame for silo, frame in series_frames().items() if silo not in lost]
    rows = np.vstack([windows(frame, 5) for frame in frames])
    found = last_of(series, AlgorithmSpec("lag-order", LagOrder()), lost=lost, secure=secure).server
    assert found.rows == len(rows)
    levels = []
    for frame in frames:
        own = windows(frame, 5)
        n, now = len(own), own[:, :3]
        # A mean is a level if it exceeds five standard errors, given the effective number of independent rows.
        level = np.abs(now.mean(axis=0)) > 5 * now.std(axis=0) * np.sqrt((1 + 40 / n) / n)
        levels.append(own - np.where(np.tile(level, 6), own.mean(axis=0), 0.0))
    np.testing.assert_allclose(found.covariance, np.cov(np.vstack(levels).T, bias=True), rtol=1e-5, atol=1e-5)


@either_way
@pytest.mark.parametrize("center", [True, False])
def test_lagged_regressions_and_forecasts(series, lost, secure, center):
    frames = [frame for silo, frame in series_frames().items() if silo not in lost]
    lagged = np.zeros((2, 3, 3))
    lagged[0, 0, 1] = lagged[0, 1, 1] = lagged[1, 0, 0] = 1.0
    within = np.zeros((3, 3))
    within[1, 2] = 1.0
    how = regressions.Regressions(center, lags=2)
    start = regressions.start(series.data.schema, within != 0, lagged)
    server = last_of(series, AlgorithmSpec("lagged-regressions", how), start, lost, secure).server
    network = regressions.network(server, how)
    forecasts = regressions.forecasts(server, how, network)
    parts = [windows(frame, 2) for frame in frames]
    rows = np.vstack(parts)
    about = centred(parts) if center else rows - rows.mean(axis=0)
    parents = {0: [6], 1: [3, 4], 2: [1]}
    for j, of in parents.items():
        weights = np.linalg.lstsq(about[:, of], about[:, j], rcond=None)[0]
        learned = np.concatenate([network.structure.weights, *network.structure.lagged])[of, j]
        np.testing.assert_allclose(learned, weights, rtol=1e-5)
        assert network.variances[j] == pytest.approx(np.mean((about[:, j] - about[:, of] @ weights) ** 2), rel=1e-5)
        assert network.intercepts[j] == pytest.approx(rows[:, j].mean() - rows[:, of].mean(axis=0) @ weights, abs=1e-4)
    gaps = about[:, :3] - about[:, 3:6]
    kept = np.mean(gaps**2, axis=0) + (rows[:, :3] - rows[:, 3:6]).mean(axis=0) ** 2
    np.testing.assert_allclose(forecasts.persistence, kept, rtol=1e-5)
    # z is forecast from the lagged causes of y, through y.
    of_y = np.linalg.lstsq(about[:, [3, 4]], about[:, 1], rcond=None)[0]
    slope = (about[:, 1] @ about[:, 2]) / (about[:, 1] @ about[:, 1])
    left = about[:, 2] - slope * about[:, [3, 4]] @ of_y
    assert forecasts.model[2] == pytest.approx(np.mean(left**2), rel=1e-5)


# Labels.

LEVELS = {"cough": ("no", "yes"), "smoke": ("no", "now", "once"), "stage": ("i", "ii", "iii")}


def label_frames(gaps=False):
    rng, frames = np.random.default_rng(6), {}
    for k, (silo, n) in enumerate(SIZES.items()):
        smoke = rng.choice(3, n, p=[0.5 - 0.1 * k, 0.3, 0.2 + 0.1 * k])
        stage = np.where(rng.random(n) < 0.6, smoke, rng.integers(0, 3, n))
        cough = (rng.random(n) < 0.2 + 0.2 * stage + 0.05 * k).astype(int)
        frame = pd.DataFrame({"cough": cough, "smoke": smoke, "stage": stage})
        for name in frame:
            frame[name] = np.array(LEVELS[name])[frame[name]]
            if gaps:
                frame[name] = frame[name].mask(rng.random(n) < 0.1 + 0.05 * k)
        frames[silo] = frame
    return frames


TREE = np.zeros((3, 3), bool)
TREE[1, 2] = TREE[2, 0] = TREE[1, 0] = True
"""smoke → stage → cough ← smoke: cough has two parents"""


def pooled_labels(lost, gaps):
    return pd.concat([frame for silo, frame in label_frames(gaps).items() if silo not in lost])


@either_way
def test_tables_of_families(host, tmp_path, lost, secure):
    owners, rows = host(write(tmp_path / "labels", label_frames())), pooled_labels(lost, False)
    assert owners.data.schema.variables == tuple(LEVELS)
    how = family_tables.FamilyTables(2.5)
    start = family_tables.start(owners.data.schema, TREE)
    server = last_of(owners, AlgorithmSpec("family-tables", how), start, lost, secure).server
    found = family_tables.network(server, how.ess)
    assert family_tables.contributing_rows(server) == len(rows)
    for child, parents in (("cough", ["smoke", "stage"]), ("smoke", []), ("stage", ["smoke"])):
        index = pd.MultiIndex.from_product([LEVELS[name] for name in (*parents, child)])
        counts = rows.groupby([*parents, child]).size()
        counts.index = pd.MultiIndex.from_arrays([counts.index.get_level_values(k) for k in range(len(parents) + 1)])
        shape = [len(LEVELS[name]) for name in (*parents, child)]
        table = counts.reindex(index, fill_value=0).to_numpy().reshape(shape) + 2.5 / np.prod(shape)
        np.testing.assert_allclose(found.tables[child], table / table.sum(axis=-1, keepdims=True), rtol=1e-12)


@either_way
def test_the_diagnosis_of_labels(host, tmp_path, lost, secure):
    owners, rows = host(write(tmp_path / "labels", label_frames())), pooled_labels(lost, False)
    start = tables.start(owners.data.schema, Structure(tuple(LEVELS), TREE.astype(float)))
    found = last_of(owners, AlgorithmSpec("diagnosis-tables", tables.TableDiagnosis()), start, lost, secure).server
    counts = [rows[name].value_counts().reindex(LEVELS[name], fill_value=0).to_numpy() for name in LEVELS]
    for one, other in (("cough", "smoke"), ("cough", "stage"), ("smoke", "stage")):
        both = pd.crosstab(rows[one], rows[other]).reindex(index=LEVELS[one], columns=LEVELS[other], fill_value=0)
        counts.append(both.to_numpy().ravel())
    np.testing.assert_array_equal(found.counts, np.concatenate(counts))


@everyone
def test_what_gaps_of_labels_depend_on(host, tmp_path, lost):
    owners, frames = host(write(tmp_path / "labels", label_frames(True))), label_frames(True)
    sums = last_of(owners, AlgorithmSpec("missingness", missingness.Missingness()), lost=lost).server.sums
    differences = rows = 0.0
    for silo, frame in frames.items():
        if silo in lost:
            continue
        high, empty = frame["stage"].dropna().eq("iii"), frame["cough"].isna()
        there = high[empty.reindex(high.index)]
        differences += (there - high.mean()).sum() / high.std(ddof=0)
        rows += len(there)
    # Coded columns: cough=yes, smoke=now, smoke=once, stage=ii, stage=iii.
    np.testing.assert_allclose(sums[[0, 2], 0, 4], [differences, rows], rtol=1e-9)


# Numbers and labels together.


def mixed_frames():
    frames = {}
    for (silo, labels), numbers in zip(label_frames().items(), number_frames(2).values(), strict=True):
        frame = labels.assign(dose=numbers["x"], pulse=numbers["z"])
        frame["pulse"] += 2.0 * labels["smoke"].eq("once")
        frames[silo] = frame[list(MIXED)]
    return frames


MIXED = ("cough", "dose", "pulse", "smoke", "stage")
MIXED_GRAPH = np.zeros((5, 5), bool)
MIXED_GRAPH[1, 2] = MIXED_GRAPH[3, 2] = MIXED_GRAPH[1, 4] = MIXED_GRAPH[3, 4] = MIXED_GRAPH[3, 0] = True
"""pulse on dose and smoke by least squares, stage on both by a logistic regression, cough on smoke by a table"""


def coded(frame):
    """The columns cough=yes, dose, pulse, smoke=now, smoke=once, stage=ii, stage=iii."""
    return np.column_stack(
        [
            frame["cough"] == "yes",
            frame["dose"],
            frame["pulse"],
            *(frame["smoke"] == level for level in ("now", "once")),
            *(frame["stage"] == level for level in ("ii", "iii")),
        ]
    ).astype(float)


@either_way
def test_mixed_moments(host, tmp_path, lost, secure):
    owners = host(write(tmp_path / "mixed", mixed_frames()))
    assert owners.data.schema.variables == MIXED
    found = last_of(owners, registry.specify("secure-sum"), lost=lost, secure=secure).server
    parts = [coded(frame) for silo, frame in mixed_frames().items() if silo not in lost]
    rows = centred(parts)
    free = len(rows) - len(parts)
    assert found.counted == free
    np.testing.assert_allclose(found.S, rows.T @ rows / free, rtol=1e-6, atol=1e-6)


@either_way
@pytest.mark.parametrize("ess", [1.0, 6.0])
def test_mixed_families(host, tmp_path, lost, secure, ess):
    """Numbers are about the means of their silos, indicators about those of all; the prior counts for `ess` rows."""
    owners = host(write(tmp_path / "mixed", mixed_frames()))
    how = mixed_families.MixedFamilies(ess)
    start = mixed_families.start(owners.data.schema, MIXED_GRAPH)
    server = last_of(owners, AlgorithmSpec("mixed-families", how), start, lost, secure).server
    network = mixed_families.network(server, ess)
    frames = [frame for silo, frame in mixed_frames().items() if silo not in lost]
    parts = [coded(frame) for frame in frames]
    rows, about, labels = np.vstack(parts), centred(parts), pd.concat(frames)
    assert mixed_families.contributing_rows(server) == len(rows)
    pulse = network.local[2]
    weights = np.linalg.lstsq(about[:, [1, 3, 4]], about[:, 2], rcond=None)[0]
    np.testing.assert_allclose(pulse.weights, weights, rtol=1e-5)
    assert pulse.intercept == pytest.approx(rows[:, 2].mean() - rows[:, [1, 3, 4]].mean(axis=0) @ weights, abs=1e-5)
    assert pulse.variance == pytest.approx(np.mean((about[:, 2] - about[:, [1, 3, 4]] @ weights) ** 2), rel=1e-5)
    both = pd.crosstab(labels["smoke"], labels["cough"]).to_numpy() + ess / 6
    np.testing.assert_allclose(network.local[0].table, both / both.sum(axis=1, keepdims=True), rtol=1e-9)
    # The logistic regression: a Gaussian prior on the slopes of columns in standard deviations within the silos.
    shift, scale = rows.mean(axis=0)[[1, 3, 4]], np.sqrt(np.mean(about**2, axis=0))[[1, 3, 4]]
    columns = np.column_stack([about[:, 1], rows[:, 3] - shift[1], rows[:, 4] - shift[2]]) / scale
    design = np.column_stack([np.ones(len(rows)), columns])
    hit = np.column_stack([labels["stage"] == level for level in LEVELS["stage"]])

    def loss(flat):
        scores = np.column_stack([np.zeros(len(rows)), design @ flat.reshape(2, 4).T])
        fit = scores[hit].sum() - np.logaddexp.reduce(scores, axis=1).sum()
        return -fit + 0.5 * ess * (flat.reshape(2, 4)[:, 1:] ** 2).sum()

    best = minimize(loss, np.zeros(8), method="BFGS", options={"gtol": 1e-6}).x.reshape(2, 4)
    slopes = best[:, 1:] / scale
    stage = network.local[4]
    np.testing.assert_allclose(stage.weights[1:], slopes, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(stage.intercepts[1:], best[:, 0] - slopes @ shift, rtol=2e-3, atol=1e-3)
