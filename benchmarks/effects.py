"""Coverage of the 95 % intervals of effects, given the true graph: linear effects, and effects between labels.

Each draw has its own graph of d = 8 variables with shuffled columns, four silos of unequal size with their own offsets,
and a pair of treatment and outcome that a directed path joins. "rows" takes the second moments about the silos' own
means, as `fedbnsl effect --data` sums them; "model" takes those that the regressions along the graph imply. Labels are
tables estimated from the pooled counts. Writes `results/effects.json`.

With `--learned`, the graph is learned by `auto` from the same rows, and the treatment may be any other variable: the
table compares the interval for the learned graph with the interval of `--bootstrap 100`. Writes
`results/effects-learned.json`.

    .venv/bin/python benchmarks/effects.py [--draws 1000]
With `--clipped`, rows are clipped to the norm of `-p clip`. The moments are then those that a private run would release
without noise. Writes `results/effects-clipped.json`.

    .venv/bin/python benchmarks/effects.py --learned [--draws 200]
    .venv/bin/python benchmarks/effects.py --clipped [--draws 300]
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from measure import RESULTS, show
from numpy.typing import NDArray

import fedbnsl
from fedbnsl.algorithms.effects.g_formula import discrete_effect
from fedbnsl.algorithms.effects.identification import optimal_adjustment_set
from fedbnsl.algorithms.effects.linear import Estimate, WithinMoments, adjusted_effect, joint_effects
from fedbnsl.algorithms.graphs.dag import reachable
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.networks import Network, linear_network
from fedbnsl.algorithms.parameters.tables import smooth_counts
from fedbnsl.algorithms.privacy import gram
from fedbnsl.algorithms.statistics.moments import regression_weights, residual_variances

FIRST_SEED = 1000
D, SILOS = 8, (30, 70, 150, 350)
Draw = dict[str, tuple[bool, float]]
"""whether an interval contains the effect, and its width, by name"""


def random_dag(rng: np.random.Generator) -> NDArray[np.bool_]:
    """A DAG of D variables with two edges per variable on average, columns shuffled; [D, D]."""
    upper = np.triu(rng.random((D, D)) < 4 / (D - 1), 1)
    order = rng.permutation(D)
    return upper[np.ix_(order, order)]


def question(dag: NDArray[np.bool_], rng: np.random.Generator) -> tuple[int, int] | None:
    """A random treatment and a descendant of it; None if the graph has no edge."""
    pairs = [(x, y) for x in range(D) for y in np.flatnonzero(reachable(dag, (x,))).tolist() if x != y]
    return pairs[rng.integers(len(pairs))] if pairs else None


def drawn_effects(dag: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.float64]:
    """The total effects `[D, D]` of a linear model over `dag` with random weights."""
    weights = dag * rng.uniform(0.3, 1.5, (D, D)) * rng.choice([-1, 1], (D, D))
    return np.asarray(np.linalg.inv(np.eye(D) - weights))


def numbers(seed: int) -> Draw | None:
    """Whether the intervals of one draw contain the effect: from the rows, from the model, and by path products."""
    rng = np.random.default_rng(seed)
    dag = random_dag(rng)
    pair = question(dag, rng)
    if pair is None:
        return None
    x, y = pair
    mixing = drawn_effects(dag, rng)
    spread = rng.uniform(0.5, 2.0, D)
    products = np.zeros((D, D))
    for n in SILOS:
        rows = (rng.normal(size=(n, D)) * spread) @ mixing + 5 * rng.normal(size=D)
        rows -= rows.mean(axis=0)
        products += rows.T @ rows
    own = WithinMoments(products / sum(SILOS), sum(SILOS), len(SILOS))
    fitted = regression_weights(own.covariance, dag)
    names, variances = tuple(f"v{i}" for i in range(D)), residual_variances(own.covariance, fitted)
    _, covariance = linear_network(Structure(names, fitted), np.zeros(D), variances).joint_normal()
    implied = WithinMoments(covariance, own.rows, own.silos)
    covariates = optimal_adjustment_set(dag, x, y).covariates
    found = {
        "linear, rows": adjusted_effect(own, x, y, covariates),
        "linear, model": adjusted_effect(implied, x, y, covariates),
        "linear, path products": joint_effects(own, dag, [x], y)[0],
    }
    return {name: covers(one, mixing[x, y]) for name, one in found.items()}


def learned(seed: int, *, standardised: bool = False) -> dict[str, tuple[float, float, float]]:
    """The interval of the effect in a learned graph and that over resamples, with the true effect; 2,400 rows."""
    rng = np.random.default_rng(seed)
    dag = random_dag(rng)
    x, y = rng.choice(D, 2, replace=False).tolist()
    mixing = drawn_effects(dag, rng)
    spread = np.ones(D) if not standardised else rng.uniform(0.5, 2.0, D)
    scale = np.sqrt((spread[:, None] ** 2 * mixing**2).sum(axis=0)) if standardised else np.ones(D)
    names = [f"v{i}" for i in range(D)]
    with tempfile.TemporaryDirectory() as folder:
        for number, n in enumerate(SILOS):
            rows = (rng.normal(size=(4 * n, D)) * spread) @ mixing + 5 * rng.normal(size=D)
            pd.DataFrame(rows / scale, columns=names).to_csv(f"{folder}/s{number}.csv", index=False)
        found = fedbnsl.learn(folder, engine="inline", bootstrap=0, diagnose=False, seed=seed)
        one = found.effect(names[x], names[y], data=folder, bootstrap=100).effects[0]
    assert one.resampled is not None
    assert one.resampled.interval is not None
    truth = float(mixing[x, y] * scale[x] / scale[y])
    own = one.interval or (0.0, 0.0)
    return {"learned graph": (*own, truth), "learned anew in 100 resamples": (*one.resampled.interval, truth)}


def learned_rows(draws: int) -> list[dict[str, str]]:
    """The coverage of both intervals over `draws`, of equal error variances and of standardised columns."""
    rows = []
    for standardised in (False, True):
        found = [learned(seed, standardised=standardised) for seed in range(FIRST_SEED, FIRST_SEED + draws)]
        for name in found[0]:
            ends = np.array([one[name] for one in found])
            covered = (ends[:, 0] <= ends[:, 2] + 1e-9) & (ends[:, 2] <= ends[:, 1] + 1e-9)
            causes = np.abs(ends[:, 2]) > 1e-9
            rows.append(
                {
                    "columns": "standardised" if standardised else "equal error variances",
                    "interval of": name,
                    "draws": f"{draws:,}",
                    "coverage": f"{100 * covered.mean():.1f} %",
                    "of causes": f"{100 * covered[causes].mean():.1f} % of {causes.sum()}",
                    "asked": "≥ 90 %" if "anew" in name else "",
                    "median width of causes": f"{np.median((ends[:, 1] - ends[:, 0])[causes]):.3f}",
                }
            )
    return rows


def clipped(seed: int, clip: float, rows: int) -> tuple[bool, float] | None:
    """Whether an interval from clipped rows without noise contains the effect, and its distance in standard errors.

    The standard error is that of the same regression on rows that are not clipped.
    """
    rng = np.random.default_rng(seed)
    dag = random_dag(rng)
    pair = question(dag, rng)
    if pair is None:
        return None
    x, y = pair
    mixing = drawn_effects(dag, rng)
    table = (rng.normal(size=(rows, D)) * rng.uniform(0.5, 2.0, D)) @ mixing
    scales = np.sqrt((table**2).mean(axis=0))
    unit, norm, bits = gram.units(scales), gram.radius(scales, clip), gram.bits_for(rows)
    released = gram.covariance(gram.integer_gram(table, unit, norm, bits), unit, norm, bits, rows)
    covariates = optimal_adjustment_set(dag, x, y).covariates
    found = adjusted_effect(WithinMoments(released, rows, 1), x, y, covariates)
    error = adjusted_effect(WithinMoments(table.T @ table / rows, rows, 1), x, y, covariates).standard_error
    assert error is not None
    distance = abs(found.value - mixing[x, y]) / error
    return distance < 1.96, distance


def clipped_rows(draws: int) -> list[dict[str, str]]:
    """The coverage by clipping norm and number of rows; .6 is the default of `secure-sum`, 3 the default for tests."""
    rows = []
    for clip in (0.6, 3.0, 6.0):
        for n in (2400, 10_000):
            found = [one for k in range(2 * draws) if (one := clipped(FIRST_SEED + k, clip, n))][:draws]
            rows.append(
                {
                    "clip": f"{clip:g}",
                    "rows": f"{n:,}",
                    "draws": str(len(found)),
                    "covered, without any noise": f"{100 * np.mean([one[0] for one in found]):.1f} %",
                    "median distance in standard errors": f"{np.median([one[1] for one in found]):.1f}",
                    "asked": "≥ 93 %",
                }
            )
    return rows


def labels(seed: int) -> Draw | None:
    """The same for binary variables with 2,400 rows, from tables that are smoothed by one row."""
    rng = np.random.default_rng(seed)
    dag = random_dag(rng)
    pair = question(dag, rng)
    if pair is None or dag.sum(axis=0).max() > 3:
        return None
    names = tuple(f"v{i}" for i in range(D))
    parents = {name: tuple(names[u] for u in np.flatnonzero(dag[:, v])) for v, name in enumerate(names)}
    tables = {name: rng.uniform(0.15, 0.85, (2,) * len(own)) for name, own in parents.items()}
    levels = dict.fromkeys(names, ("no", "yes"))
    true = Network(names, levels, parents, {v: np.stack([1 - p, p], axis=-1) for v, p in tables.items()})
    n = 4 * sum(SILOS)
    rows = true.sample(n, rng)[0].astype(np.int64)
    fitted = {}
    for v, name in enumerate(names):
        counts = np.zeros((2,) * (len(parents[name]) + 1))
        np.add.at(counts, tuple(rows[:, [*np.flatnonzero(dag[:, v]), v]].T), 1)
        fitted[name] = smooth_counts(counts, 1.0)
    model = Network(names, levels, parents, fitted)
    x, y = (names[v] for v in pair)
    covariates = [names[v] for v in optimal_adjustment_set(dag, *pair).covariates]
    truth, found = (discrete_effect(one, x, y, covariates, ("no", "yes"), n)[1].estimate for one in (true, model))
    return {"labels, model": covers(found, truth.value)}


def covers(estimate: Estimate, truth: float) -> tuple[bool, float]:
    """Whether the interval contains the truth, and its width."""
    assert estimate.interval is not None
    low, high = estimate.interval
    return bool(low <= truth <= high), high - low


def coverage(draw: Callable[[int], Draw | None], draws: int) -> dict[str, dict[str, str]]:
    """The share of `draws` that cover the truth, by name, with the median width of the intervals."""
    found: list[Draw] = []
    seed = FIRST_SEED
    while len(found) < draws:
        one = draw(seed)
        found += [one] if one else []
        seed += 1
    return {
        name: {
            "intervals from": name,
            "draws": f"{draws:,}",
            "coverage": f"{100 * np.mean([one[name][0] for one in found]):.1f} %",
            "asked": "93 to 97 %",
            "median width": f"{np.median([one[name][1] for one in found]):.3f}",
        }
        for name in found[0]
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--learned", action="store_true")
    parser.add_argument("--clipped", action="store_true")
    options, start = parser.parse_args(), time.perf_counter()
    if options.learned:
        show("effects-learned", learned_rows(options.draws), {})
        return
    if options.clipped:
        show("effects-clipped", clipped_rows(options.draws), {})
        return
    draws = options.draws
    results = {**coverage(numbers, draws), **coverage(labels, draws)}
    for one in results.values():
        print("  ".join(one.values()))
    content = json.dumps({"rows": list(results.values())}, indent=1, ensure_ascii=False)
    (RESULTS / "effects.json").write_text(content + "\n", encoding="utf-8")
    print(f"{time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
