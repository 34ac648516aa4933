"""Silos that err: the share of faults that are named or refused, and of honest federations in which a silo is accused.

`python benchmarks/silo_faults.py` learns by `auto`, masked, from silos with numbers and site effects: each silo has
other means (standard deviation 1, about a mean of 5) and other standard deviations of errors (by factors from 0.8 to
1.25). In ten federations for each fault, one silo errs; 100 federations are honest. A fault counts as named if a
finding of `ACCUSING` names this silo. The findings "shifted silo" and "silo with different weights" are not among them:
other means are a site effect, and with other variances of errors, regressions against a causal direction differ.
The last rows are silos whose program lies: it changes its part of the masked sum of the diagnosis. Seeds from 7000 on
were not used to choose any rule.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from measure import show

from fedbnsl import learn
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.diagnosis import exchange, findings
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tasks.silo.runs import built

VARIABLES, ROWS, FIRST, SEEDS, HONEST = 8, 400, 7000, 10, 100
ACCUSING = {
    "outliers": "outliers",
    "silo with another scale": "scale",
    "silo with another sign": "sign",
    "silo with far rows": "far rows",
    "silo with repeated rows": "repeated",
    "same rows": "same rows",
    "edges that fall without one silo": "edges",
}
"""the findings that accuse a silo, with their names in the table"""
ODD = "silo-3"
Tables = dict[str, FloatArray]
Fault = Callable[[Tables, np.random.Generator], None]


def federation(seed: int, silos: int) -> Tables:
    """Silos with one random linear model of Gaussian errors, and site effects."""
    rng = np.random.default_rng(seed)
    order, W = rng.permutation(VARIABLES), np.zeros((VARIABLES, VARIABLES))
    for a in range(VARIABLES):
        for b in range(a + 1, VARIABLES):
            if rng.random() < 0.3:
                W[order[a], order[b]] = rng.choice([-1, 1]) * rng.uniform(0.5, 1.2)
    total = np.linalg.inv(np.eye(VARIABLES) - W)
    return {
        f"silo-{s + 1}": (rng.normal(size=(ROWS, VARIABLES)) * rng.uniform(0.8, 1.25, VARIABLES)) @ total
        + rng.normal(5, 1, VARIABLES)
        for s in range(silos)
    }


def scaled(tables: Tables, rng: np.random.Generator) -> None:
    """All columns times 100."""
    tables[ODD] *= 100


def column_scaled(tables: Tables, rng: np.random.Generator) -> None:
    """One column times 100."""
    tables[ODD][:, rng.integers(VARIABLES)] *= 100


def flipped(tables: Tables, rng: np.random.Generator) -> None:
    """All columns times −1."""
    tables[ODD] *= -1


def centred_column_flipped(tables: Tables, rng: np.random.Generator) -> None:
    """One column times −1, where all silos have means of about 0."""
    for table in tables.values():
        table -= 5
    tables[ODD][:, rng.integers(VARIABLES)] *= -1


def rows_twice(tables: Tables, rng: np.random.Generator) -> None:
    """Each row twice."""
    tables[ODD] = np.vstack([tables[ODD], tables[ODD]])


def rows_of_another(tables: Tables, rng: np.random.Generator) -> None:
    """The rows of another silo, in another order."""
    tables[ODD] = rng.permutation(tables["silo-2"])


def invented(tables: Tables, rng: np.random.Generator) -> None:
    """A fifth of the rows is uniform over the range of each column."""
    X = tables[ODD]
    X[: ROWS // 5] = rng.uniform(X.min(axis=0), X.max(axis=0), (ROWS // 5, VARIABLES))


def shuffled(tables: Tables, rng: np.random.Generator) -> None:
    """In a fifth of the rows, each cell is from another row."""
    X = tables[ODD]
    X[: ROWS // 5] = np.column_stack([rng.permutation(X[:, j])[: ROWS // 5] for j in range(VARIABLES)])


FAULTS: tuple[Fault, ...] = (
    *(scaled, column_scaled, flipped, centred_column_flipped, rows_twice, rows_of_another, invented, shuffled),
)


def times_100(packed: FloatArray) -> FloatArray:
    """All of the silo's part times 100."""
    return 100 * packed


def negative(packed: FloatArray) -> FloatArray:
    """The silo's part times −1."""
    return -packed


def twice(packed: FloatArray) -> FloatArray:
    """The silo's part twice."""
    return 2 * packed


def moments_times_100(packed: FloatArray) -> FloatArray:
    """Only the second moments times 100."""
    return np.concatenate([packed[: 1 + VARIABLES], 100 * packed[1 + VARIABLES :]])


def moments_negative(packed: FloatArray) -> FloatArray:
    """Only the second moments times −1."""
    return np.concatenate([packed[: 1 + VARIABLES], -packed[1 + VARIABLES :]])


LIES = (times_100, negative, twice, moments_times_100, moments_negative)


def forget_built() -> None:
    """Have algorithms built again, because they keep the functions with which they were built."""
    built.cache_clear()
    registry._built.cache_clear()


@contextmanager
def lying(lie: Callable[[FloatArray], FloatArray]) -> Iterator[None]:
    """Within the block, the program of one silo changes its part of the sums of the diagnosis, and no figure."""
    honest = exchange.answer

    def answer(silo: exchange.Silo, request: exchange.Broadcast) -> FloatArray:
        packed = honest(silo, request)
        return lie(packed) if silo.place == 2 and not request.rows else packed

    exchange.answer = answer
    forget_built()
    try:
        yield
    finally:
        exchange.answer = honest
        forget_built()


def outcome(tables: Tables) -> tuple[str, dict[str, tuple[str, ...]]]:
    """What was said without a name, "refused" or "reported", and the silos that each accusing finding names."""
    frames: dict[str, Any] = {
        silo: pd.DataFrame(X, columns=[f"x{i}" for i in range(VARIABLES)]) for silo, X in tables.items()
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = learn(frames, secure=True, bootstrap=0, progress=False).result.diagnosed.findings
    except BadInput:
        return "refused", {}
    accusing = [one for one in found if one.name in ACCUSING and len(one.silos) in (1, 2)]
    reported = "reported" if any(one.name == findings.SCALES for one in found) else ""
    return reported, {ACCUSING[one.name]: one.silos for one in accusing}


def row(name: str, silos: int, outcomes: list[tuple[str, dict[str, tuple[str, ...]]]], odd: str) -> dict[str, Any]:
    """The row of the table for the `outcomes` of a fault; `odd` is the silo that errs, "" in honest federations."""
    named = [{name: who for name, who in found.items() if not odd or odd in who} for _, found in outcomes]
    return {
        "fault": name,
        "silos": silos,
        "federations": len(outcomes),
        "refused": sum(what == "refused" for what, _ in outcomes),
        "reported without a name": sum(what == "reported" for what, _ in outcomes),
        "silo named": sum(map(bool, named)),
        "by": ", ".join(
            f"{one} {sum(one in found for found in named)}"
            for one in ACCUSING.values()
            if any(one in found for found in named)
        ),
        "another named": sum(any(odd not in who for who in found.values()) for _, found in outcomes) if odd else 0,
    }


def main() -> None:
    """Learn from all federations, and print the table."""
    rows = []
    for silos in (3, 6, 10):
        honest = [outcome(federation(FIRST + 100 + seed, silos)) for seed in range(HONEST)]
        rows.append(row("none", silos, honest, ""))
        print(rows[-1], flush=True)
        for fault in FAULTS:
            found = []
            for seed in range(FIRST, FIRST + SEEDS):
                tables = federation(seed, silos)
                fault(tables, np.random.default_rng((1, seed)))
                found.append(outcome(tables))
            rows.append(row(str(fault.__doc__).rstrip("."), silos, found, ODD))
            print(rows[-1], flush=True)
        for lie in LIES:
            with lying(lie):
                found = [outcome(federation(seed, silos)) for seed in range(FIRST, FIRST + SEEDS)]
            rows.append(
                row(
                    f"Lie: {str(lie.__doc__).rstrip('.')[0].lower()}{str(lie.__doc__).rstrip('.')[1:]}",
                    silos,
                    found,
                    ODD,
                )
            )
            print(rows[-1], flush=True)
    show("silo-faults", rows, {})


if __name__ == "__main__":
    main()
