"""A coordinator that lies: every broadcast of every learner, with one part of it replaced, is sent to a silo.

`python benchmarks/lies.py [LEARNER ...]` runs the learners, by default all without an ε, on five kinds of data. In the
first rounds of a run, a copy of a silo's state also gets some 50 to 120 lies in place of each broadcast: numbers that
are not finite, huge or negative, arrays that are shorter, longer, narrower, wider or empty, pairs in both orders, other
words. A silo must answer or refuse within 20 s; compiled code must not read or write outside its arrays. Compiled
functions have bounds checks here, which takes minutes to compile. Exit code 1 if compiled code leaves its arrays or a
silo does not end.
`--record` writes the table to `results/lies.json`.
"""

import copy
import dataclasses
import json
import os
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ["NUMBA_BOUNDSCHECK"] = "1"
    os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()  # functions with bounds checks have the same names as others

import numpy as np

from fedbnsl import learn, prepare
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import require_bounded
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService

RESULTS = Path(__file__).parent / "results"
ROUNDS = 4
"""number of broadcasts of each type that are replaced by lies in a run"""
TIMEOUT_SECONDS = 20
OUTSIDE = "index is out of bounds"
"""the message of numba's bounds checks; NumPy's own errors name the index"""
DATA = {
    "continuous": ("homogeneous", {"variables": 6, "silos": 3, "rows": 120}),
    "discrete": ("discrete", {"variables": 6, "silos": 3, "rows": 300}),
    "mixed": ("mixed", {"variables": 6, "silos": 3, "rows": 300}),
    "time-series": ("dynamic", {"variables": 4, "silos": 3, "rows": 150}),
    "events": ("events", {}),
}
FLOATS = (np.nan, np.inf, 1e300, -1e300, -1.0)
INTEGERS = (-1, -1000, 1000, 10**9)
Lies = Iterator[tuple[str, Any]]


def lies_about(value: Any) -> Lies:
    """Yield names and false versions of `value`, a message or a part of one."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            for name, lie in lies_about(getattr(value, field.name)):
                yield f"{field.name}.{name}", dataclasses.replace(value, **{field.name: lie})
    elif isinstance(value, np.ndarray):
        yield from false_entries(value)
        yield from false_shapes(value)
    elif isinstance(value, bool):
        yield "flipped", not value
    elif isinstance(value, float):
        yield from ((f"{n}", n) for n in (*FLOATS, 0.0))
    elif isinstance(value, int):
        yield from ((f"{n}", n) for n in (-1, 0, 7, 1000, 10**6))
    elif isinstance(value, str):
        yield "unknown", "no such name"
    elif isinstance(value, tuple | list):
        kind = type(value)
        yield "empty", kind(())
        if value:
            yield "twice", kind([*value, value[-1]])
            yield from ((f"last.{name}", kind([*value[:-1], lie])) for name, lie in lies_about(value[-1]))
    elif isinstance(value, dict) and value:
        key = next(iter(value))
        yield from ((f"{key}.{name}", {**value, key: lie}) for name, lie in lies_about(value[key]))


def false_entries(value: np.ndarray[Any, Any]) -> Lies:
    """Yield the array with one entry, and with all entries replaced."""
    if value.dtype.kind == "b":
        yield from (("all true", np.ones_like(value)), ("all false", np.zeros_like(value)))
        return
    limits = np.iinfo(value.dtype) if value.dtype.kind in "iu" else None
    for number in FLOATS if limits is None else (n for n in INTEGERS if limits.min <= n <= limits.max):
        one = value.copy()
        if one.size:
            one.flat[one.size // 2] = number
            yield f"one {number}", one
        yield f"all {number}", np.full_like(value, number)


def false_shapes(value: np.ndarray[Any, Any]) -> Lies:
    """Yield the array with a row or column less or more, without any, with equal columns, and in both orders."""
    if value.ndim and len(value):
        yield from (("shorter", value[:-1].copy()), ("longer", np.concatenate([value, value[-1:]])))
        yield "empty", value[:0].copy()
    if value.ndim == 2 and value.shape[1]:
        yield from (("narrower", value[:, :-1].copy()), ("wider", np.concatenate([value, value[:, -1:]], axis=1)))
        yield from (("without columns", value[:, :0].copy()), ("in one dimension", value.ravel()))
        yield "columns alike", np.repeat(value[:, :1], value.shape[1], axis=1)
        yield "both ways", np.concatenate([value, value[:, ::-1]])


def is_sent(lie: Any) -> bool:
    """Whether a silo decodes the lie at all: it refuses every message with numbers that are not finite."""
    try:
        require_bounded(lie)
    except BadInput:
        return False
    return True


def outcome(solve: Any, state: Any, lie: Any) -> str:
    """What a silo does with a lie: answer, refuse with an error, leave an array, or not end."""
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT_SECONDS)
    try:
        with np.errstate(all="ignore"):
            solve(copy.deepcopy(state), lie)
    except TimeoutError:
        return "did not end"
    except IndexError as error:
        return "left an array" if str(error) == OUTSIDE else "refused"
    except Exception:
        return "refused"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "answered"


def run_with_lies(learner: str, kind: str) -> tuple[Counter[str], list[str]]:
    """The number of lies by outcome in a run of `learner` on data of this `kind`, and the lies that did harm."""
    found: Counter[str] = Counter()
    harmful: list[str] = []
    broadcasts: defaultdict[type, int] = defaultdict(int)
    honest = SiloService._run_before

    def with_lies(service: SiloService, terms: RunTerms, number: int) -> Any:
        run = honest(service, terms, number)
        solve = run.algorithm.local_solve
        if getattr(solve, "has_lies", False) or run.algorithm.private is not None:
            return run

        def solve_with_lies(state: Any, message: Any) -> Any:
            broadcasts[type(message)] += 1
            for name, lie in lies_about(message) if broadcasts[type(message)] <= ROUNDS else ():
                done = outcome(solve, state, lie) if is_sent(lie) else "not decoded"
                found[done] += 1
                if done in ("left an array", "did not end"):
                    harmful.append(f"{type(message).__name__}.{name} {done}")
            return solve(state, message)

        solve_with_lies.has_lies = True  # type: ignore[attr-defined]
        algorithm = dataclasses.replace(run.algorithm, local_solve=solve_with_lies)
        return dataclasses.replace(run, algorithm=algorithm)

    SiloService._run_before = with_lies  # type: ignore[method-assign]
    try:
        recipe, sizes = DATA[kind]
        learn(prepare(recipe, seed=2, **sizes), learner, engine="inline")
    finally:
        SiloService._run_before = honest  # type: ignore[method-assign]
    return found, harmful


def main() -> None:
    """Run the learners that are named, or all, with lies, and print the outcomes."""
    words = [word for word in sys.argv[1:] if word != "--record"]

    def slow(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, slow)
    rows, harm = [], 0
    for learner, entry in registry.ALGORITHMS.items():
        skipped = (words and learner not in words) or registry.build(registry.specify(learner, {})).private is not None
        for kind in () if skipped else DATA:
            if kind not in entry.kinds:
                continue
            found, harmful = run_with_lies(learner, kind)
            rows.append({"learner": learner, "data": kind, "lies": sum(found.values()), **found})
            harm += len(harmful)
            print(*(f"{key} {value}," for key, value in rows[-1].items()), *harmful, flush=True)
    if "--record" in sys.argv:
        (RESULTS / "lies.json").write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
    sys.exit(bool(harm))


if __name__ == "__main__":
    main()
