"""Coverage of the 95 % intervals of doubly robust effects, if both models are right, or if one of them is wrong.

Four silos of 150, 300, 600 and 950 rows have their own frequencies of the treatment, their own means of the outcome,
and their own means of two covariates z, w; a label has three levels. The effect depends on z. A wrong model misses a
term: the log odds of the treatment z², or the outcome exp(.7 z) (numbers) or 1.2 z² (log odds of labels). "regression"
is the effect that `fedbnsl effect --data` estimates without `--doubly-robust`, from the same rows. Writes
`results/doubly-robust.json`.

    .venv/bin/python benchmarks/doubly_robust.py [--draws 500]
"""

import argparse
import time

import numpy as np
from measure import show
from numpy.typing import NDArray

from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.effects import adjusted_regressions, doubly_robust
from fedbnsl.algorithms.effects.adjusted_regressions import AdjustedRegressions, Question
from fedbnsl.algorithms.effects.linear import Estimate
from fedbnsl.tasks.transport.in_process import InProcessFederation

FIRST_SEED = 1000
SILOS = {"a": 150, "b": 300, "c": 600, "d": 950}
NAMES = ("x", "z", "w", "label", "number", "yes")
LEVELS = {"x": ("0", "1"), "label": ("i", "ii", "iii"), "yes": ("no", "yes")}
QUESTION = Question(0, (1, 2, 3), (0.0, 1.0))
WRONG = ("neither", "treatment", "outcome")
LARGE = 500
"""how many times more rows the true effect is computed from"""


def expit(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logistic function."""
    return np.asarray(1 / (1 + np.exp(-x)))


def drawn(wrong: str, seed: int, times: int = 1) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]]:
    """The tables of the silos, and the sums over all rows of the effect of x on the number and on P(yes)."""
    rng, tables, effects = np.random.default_rng(seed), {}, np.zeros(2)
    for number, (silo, rows) in enumerate(SILOS.items()):
        n, about = times * rows, 0.4 * number - 0.6
        z, w, label = rng.normal(about, 1, n), rng.normal(-about, 1, n), rng.integers(0, 3, n)
        x = rng.random(n) < expit(0.7 * z - 0.4 * w + 0.3 * label - about + (wrong == "treatment") * 0.4 * (z**2 - 1))
        base = z + 0.5 * w - 0.4 * label
        means = [base + a * (1 + 0.5 * z) + 3 * number + (wrong == "outcome") * np.exp(0.7 * z) for a in (0, 1)]
        odds = [0.7 * base + a * (0.8 + 0.3 * z) - about + (wrong == "outcome") * 1.2 * (z**2 - 1) for a in (0, 1)]
        effects += [(means[1] - means[0]).sum(), (expit(odds[1]) - expit(odds[0])).sum()]
        y, yes = np.where(x, means[1], means[0]) + rng.normal(size=n), rng.random(n) < expit(np.where(x, *odds[::-1]))
        tables[silo] = np.column_stack([x, z, w, label, y, yes]).astype(np.float64)
    return tables, effects


def estimates(tables: dict[str, NDArray[np.float64]], outcome: int) -> dict[str, Estimate | str]:
    """The doubly robust estimate, and that of the adjusted regression."""
    schema = Schema(NAMES, SILOS, kind="mixed", levels=LEVELS)
    robust = doubly_robust.build(doubly_robust.DoublyRobust())
    *_, last = rounds(
        robust, InProcessFederation(schema, tables), (0, doubly_robust.start(schema, outcome, [QUESTION]))
    )
    plain = adjusted_regressions.build(AdjustedRegressions())
    start = adjusted_regressions.start(schema, outcome, [QUESTION])
    *_, other = rounds(plain, InProcessFederation(schema, tables), (0, start))
    return {
        "doubly robust": doubly_robust.answers(last.server)[0],
        "regression": adjusted_regressions.answers(other.server, [QUESTION])[0],
    }


def coverage(wrong: str, draws: int) -> list[dict[str, str]]:
    """The coverage of both intervals on both outcomes, with the bias in standard deviations of the estimates."""
    rows = []
    truth = drawn(wrong, 1, LARGE)[1] / (LARGE * sum(SILOS.values()))
    tables = [drawn(wrong, seed)[0] for seed in range(FIRST_SEED, FIRST_SEED + draws)]
    for place, outcome in enumerate(("number", "yes")):
        found = [estimates(own, NAMES.index(outcome)) for own in tables]
        for method in found[0]:
            usable = [one[method] for one in found]
            numbers = [one for one in usable if isinstance(one, Estimate) and one.interval]
            values = np.array([one.value for one in numbers])
            ends = np.array([one.interval for one in numbers])
            covered = (ends[:, 0] <= truth[place]) & (truth[place] <= ends[:, 1])
            rows.append(
                {
                    "wrong model": wrong,
                    "outcome": "number" if outcome == "number" else "label",
                    "intervals of": method,
                    "draws": f"{len(numbers)}",
                    "coverage": f"{100 * covered.mean():.1f} %",
                    "asked": "93 to 97 %" if method == "doubly robust" else "",
                    "bias / standard deviation": f"{(values.mean() - truth[place]) / values.std():+.2f}",
                    "median width": f"{np.median(ends[:, 1] - ends[:, 0]):.3f}",
                }
            )
    return rows


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    options, begin = parser.parse_args(), time.perf_counter()
    show("doubly-robust", [row for wrong in WRONG for row in coverage(wrong, options.draws)], {})
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
