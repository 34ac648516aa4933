"""`auto` on all kinds of time series: scores of W and A, lag orders, false alarms, CPU seconds.

`python benchmarks/series.py` runs all tables, `--table NAME` one of them. Seeds are from 1000 on and were not used for
choices. Silos have different lengths, and columns are in random order (`series_cases.py`).
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from measure import mean_and_sd, run, run_tables, show
from measure_series import Cell, Maker, series_table, with_units
from series_cases import CASES, LARGE, PERIOD, Case, case

from fedbnsl import learn
from fedbnsl.algorithms.choose import AUTO
from fedbnsl.algorithms.core.adjustment import Adjustment
from fedbnsl.algorithms.diagnosis.findings import NOT_LINEAR, WEIGHTS_DIFFER
from fedbnsl.algorithms.diagnosis.series_findings import CHANGE, SLOW, UNIT_ROOT
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.dag import topological_order
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.statistics.lagged import centred_windows
from fedbnsl.data.federated import FederatedData, time_series, with_gaps
from fedbnsl.data.generators.dynamic import dynamic

FRESH = range(1000, 1010)
TESTED = ("equal variances", "unequal variances", "standardised", "weak", "n = 50 x 3")
"""cases that `fed-pc` is measured on, too, at the true lag order"""
ADJUSTED = {"trend": Adjustment(detrend=True), "season": Adjustment(period=PERIOD)}


def adjusted(data: FederatedData, adjustment: Adjustment) -> FederatedData:
    """`data` as silos adjust it for a run with such options."""
    tables = {silo: adjustment.adjusted(table, data.schema.stretches[silo]) for silo, table in data.tables.items()}
    return replace(data, tables=tables)


def of_case(drawn_as: Case, name: str = "") -> Maker:
    """The maker of a case of `series_cases.py`; trend and season are removed as the diagnosis advises."""
    change = ADJUSTED.get(name, Adjustment())
    return lambda seed: with_units(adjusted(drawn_as.data(seed), change) if change else drawn_as.data(seed))


def default() -> None:
    """What `auto` runs on series of every kind, d = 10, 9 edges within a step and 20 across; fresh seeds."""
    cells = []
    for said, (drawn_as, asked) in CASES.items():
        cells.append(Cell(said, AUTO, of_case(drawn_as, said), asked=asked, seeds=FRESH))
        if said in TESTED:
            cells.append(Cell(f"{said}, fed-pc", "fed-pc", of_case(drawn_as), {"lags": 1}, seeds=FRESH))
        if drawn_as.slopes:
            beside: tuple[tuple[str, dict[str, Any]], ...] = (("secure-linear", {}), ("pfdbnl", {"lags": 1}))
            cells += [
                Cell(f"{said}, {name}", name, of_case(drawn_as), params, asked=asked, seeds=FRESH)
                for name, params in beside
            ]
    series_table("dynamic-default", cells)


def default_large() -> None:
    """The CPU seconds of `auto` on series of many variables, 5,000 rows over 10 silos."""
    cells = [
        Cell(said, "secure-linear", of_case(drawn_as), asked=asked, seeds=FRESH[:3])
        for said, (drawn_as, asked) in LARGE.items()
    ]
    series_table("dynamic-default-large", cells)


def default_lags() -> None:
    """The lag order that `auto` chooses where 1 is true."""
    lines = []
    kinds = {f"d = {d}": Case(variables=d, within=d - 1, across=2 * d) for d in (10, 20, 50)}
    for said, drawn_as in (kinds | {said: CASES[said][0] for said in ("unequal variances", "AR .93", "weak")}).items():
        found = Counter(run("secure-linear", {}, of_case(drawn_as)(seed)).structure.lags for seed in FRESH)
        lines.append({"data": said, "seeds": len(FRESH), "chose 1": found[1], "asked": "9 of 10"})
    show("dynamic-default-lags", lines, {})


def alarms() -> None:
    """What `auto` finds in 200 clean data sets of each kind, and in 50 of each kind whose weights differ."""
    lines = []
    for said, drawn_as in KINDS.items():
        counts, sets = Counter[str](), 50 if drawn_as.slopes else 200
        for seed in range(1000, 1000 + sets):
            found = learn(drawn_as.data(seed), parameters=False, bootstrap=0, seed=seed).result
            names = {one.name for one in found.diagnosed.findings} - TRUE_OF_CLEAN
            counts.update(names - set(WEIGHTS_DIFFER))
            counts["weights"] += bool(names & set(WEIGHTS_DIFFER))
            counts["own scores"] += found.algorithm == "secure-boss"
        shares = {name: f"{100 * counts.pop(name, 0) / sets:.1f} %" for name in COUNTED}
        others = ", ".join(f"{name} {100 * count / sets:.1f} %" for name, count in counts.most_common()) or "none"
        asked = {"other findings": others, "asked": "" if drawn_as.slopes else "≤ 2 %"}
        lines.append({"data": said, "data sets": sets} | shares | asked)
    show("dynamic-alarms", lines, {})


COUNTED = ("trend", "season", UNIT_ROOT, SLOW, CHANGE, "weights", "own scores")
"""the findings that `alarms` counts, and how often own scores were preferred"""


def unit_roots() -> None:
    """How often stationary series are called random walks, and random walks are found; with and without empty cells."""
    slow = {f"AR {own}": case(own_past=own) for own in (0.5, 0.93, 0.97)}
    slow |= {
        "AR .93, 1,000 rows x 1": case(own_past=0.93, silos=1),
        "AR .93, 200 rows x 1": case(own_past=0.93, rows=200, silos=1),
    }
    lines = [_walks_found(said, drawn_as, 200) for said, drawn_as in slow.items()]
    lines.append(_walks_found("AR .93, 10 % empty cells", slow["AR 0.93"], 50, share=0.1))
    short = {f"AR .97, {rows // silos} rows x {silos}": (rows, silos) for rows, silos in ((5000, 5), (150, 3), (50, 1))}
    lines += [_walks_found(said, case(own_past=0.97, rows=n, silos=p), 50) for said, (n, p) in short.items()]
    sizes = ((1000, 5), (1000, 1), (5000, 5), (200, 1), (150, 3), (50, 1))
    for d, count in ((10, 1), (10, 10), (1, 1), (5, 5)):
        for rows, silos in sizes if d == 10 else (sizes[0], sizes[2], sizes[5]):
            drawn_as = case(variables=d, within=d - 1, across=2 * d - (d == 1), rows=rows, silos=silos, walks=count)
            lines.append(_walks_found(f"{count} of {d} walk, {rows // silos:,} rows x {silos}", drawn_as, 20))
    lines.append(_walks_found("10 of 10 walk, 200 rows x 5, 10 % empty cells", case(walks=10), 20, share=0.1))
    show("dynamic-unit-roots", lines, {})


def _walks_found(said: str, drawn_as: Case, sets: int, share: float = 0.0) -> dict[str, Any]:
    counts = Counter[str]()
    for seed in range(1000, 1000 + sets):
        data = emptied(drawn_as.data(seed), share, seed) if share else drawn_as.data(seed)
        found = learn(data, "secure-linear", parameters=False, bootstrap=0, seed=seed).result
        counts.update({one.name for one in found.diagnosed.findings} - TRUE_OF_CLEAN)
    shares = {name: f"{100 * counts.pop(name, 0) / sets:.1f} %" for name in (UNIT_ROOT, SLOW)}
    others = ", ".join(f"{name} {100 * count / sets:.1f} %" for name, count in counts.most_common()) or "none"
    asked = {"other findings": others, "asked": "" if drawn_as.walks else "≤ 2 %, but slow series"}
    return {"data": said, "data sets": sets} | shares | asked


CURVE_SEEDS = range(20_000, 20_100)
"""seeds on which no rule for curves was chosen"""


def curves() -> None:
    """How often effects of clean series are called curved, 200 data sets of each AR, and one that is, 12 of each."""
    lines = []
    for rows in (1000, 200):
        for own in (0.0, 0.5, 0.93, 0.97):
            row = {"data": f"AR {own:g}, {rows:,} rows x 5"}
            for curve, seeds in ((0.0, CURVE_SEEDS), (0.4, CURVE_SEEDS[:12]), (0.8, CURVE_SEEDS[:12])):
                drawn_as, found = case(own_past=own, rows=5 * rows, curve=curve), 0
                for seed in seeds:
                    data = drawn_as.data(seed)
                    result = learn(data, "secure-linear", parameters=False, bootstrap=0, seed=seed).result
                    found += any(one.name == NOT_LINEAR for one in result.diagnosed.findings)
                row[f"square of {curve:g}" if curve else "clean"] = f"{found} of {len(seeds)}"
            lines.append(row | {"asked": "clean ≤ 2 %"})
    show("dynamic-curves", lines, {})


def gap_alarms() -> None:
    """What is found in clean series of which 10 % of the cells are empty at random, and in the same without gaps."""

    def shares(drawn_as: Case, share: float) -> str:
        counts = Counter[str]()
        for seed in GAP_SEEDS:
            data = drawn_as.data(seed)
            data = emptied(data, share, seed) if share else data
            found = learn(data, "secure-linear", parameters=False, bootstrap=0, seed=seed).result
            counts.update({one.name for one in found.diagnosed.findings} - TRUE_OF_CLEAN)
        return ", ".join(f"{name} {count} of {len(GAP_SEEDS)}" for name, count in counts.most_common()) or "none"

    lines = [
        {"data": said, "data sets": len(GAP_SEEDS), "10 % empty cells": shares(drawn_as, 0.1)}
        | {"complete": shares(drawn_as, 0.0), "asked": "≤ 2 %"}
        for said, drawn_as in ((said, CASES[said][0]) for said in CLEAN)
    ]
    show("dynamic-gap-alarms", lines, {})


def level_alarms() -> None:
    """What is found in 200 clean data sets of each kind in which the levels of all silos are equal, too."""
    lines = []
    for said in CLEAN:
        counts, sets = Counter[str](), 200
        for seed in range(1000, 1000 + sets):
            data = replace(CASES[said][0], levels=0.0).data(seed)
            found = learn(data, "secure-linear", parameters=False, bootstrap=0, seed=seed).result
            counts.update({one.name for one in found.diagnosed.findings} - {"few rows"})
        named = ", ".join(f"{name} {100 * count / sets:.1f} %" for name, count in counts.most_common()) or "none"
        lines.append({"data": said, "data sets": sets, "findings": named, "asked": "≤ 2 %"})
    show("dynamic-level-alarms", lines, {})


def change() -> None:
    """How often weights are said to change over time: 200 clean data sets a kind, and 200 in which some do half way."""
    lines = []
    changing = {f"{count} of 29 weights changes by .3": Case(changing=count) for count in (1, 3, 9)}
    for said, drawn_as in {**{said: CASES[said][0] for said in CLEAN}, **changing}.items():
        found, scores = 0, list[tuple[float, float]]()
        for seed in range(1000, 1200):
            result = learn(drawn_as.data(seed), "secure-linear", parameters=False, bootstrap=0, seed=seed).result
            found += any(one.name == CHANGE for one in result.diagnosed.findings)
            scores.append((float(result.metrics["shd"] or 0), float(result.metrics["lagged_shd"] or 0)))
        w, a = np.mean(scores, axis=0)
        means = {"W SHD": f"{w:.2f}", "A SHD": f"{a:.2f}"}
        asked = "" if drawn_as.changing else "≤ 2 %"
        lines.append({"data": said, "data sets": 200, "weights change": f"{found / 2:.1f} %", **means, "asked": asked})
    show("dynamic-change", lines, {})


SHORT_SEEDS = range(21_000, 21_100)
"""seeds on which no search of short series was chosen"""


def short() -> None:
    """150 rows over 3 silos, 100 seeds: what `auto` runs, and a search that is given the true order and lag order."""
    scores: dict[str, list[tuple[float, float]]] = {"auto (secure-linear)": [], "BIC, given the true order": []}
    drawn_as = CASES["n = 50 x 3"][0]
    for seed in SHORT_SEEDS:
        data = of_case(drawn_as)(seed)
        assert data.truth is not None
        for name, structure in zip(scores, (run("secure-linear", {}, data).structure, given_order(data)), strict=True):
            found = compare(structure, data.truth)
            scores[name].append((float(found["shd"] or 0), float(found["lagged_shd"] or 0)))
    lines = [
        {"run": name, "seeds": len(each), "asked": "≤ 1, ≤ 3"}
        | {f"{which} SHD": mean_and_sd(list(one), 2) for which, one in zip("WA", zip(*each, strict=True), strict=True)}
        for name, each in scores.items()
    ]
    show("dynamic-short", lines, {})


def given_order(data: FederatedData) -> Structure:
    """The parents of each variable by backward elimination from all that precede it in the true order, by BIC."""
    truth, names = data.truth, data.schema.variables
    assert truth is not None
    rows = np.concatenate([centred_windows(one, data.schema.stretches[silo], 1) for silo, one in data.tables.items()])
    n, d, order = len(rows), len(names), list(topological_order(truth.adjacency))
    edges = np.zeros((2 * d, d))
    for place, j in enumerate(order):

        def cost(parents: list[int], j: int = j) -> float:
            left = rows[:, j] - rows[:, parents] @ np.linalg.lstsq(rows[:, parents], rows[:, j])[0]
            return float(n * np.log(left @ left) + np.log(n) * len(parents))

        kept = [*order[:place], *range(d, 2 * d)]
        while kept:
            best = min(([one for one in kept if one != out] for out in kept), key=cost)
            if cost(best) > cost(kept):
                break
            kept = best
        edges[kept, j] = 1.0
    return Structure(names, edges[:d], lagged=edges[None, d:])


def emptied(data: FederatedData, share: float, seed: int) -> FederatedData:
    """`data` with this share of empty cells, at random; with share 0, the middle third of one column at every silo."""
    rng = np.random.default_rng([seed, 240])
    tables = {silo: table.copy() for silo, table in data.tables.items()}
    column = int(rng.integers(len(data.schema.variables)))
    for table in tables.values():
        if share:
            table[rng.random(table.shape) < share] = np.nan
        else:
            table[len(table) // 3 : 2 * len(table) // 3, column] = np.nan
    return replace(data, schema=with_gaps(data.schema, tables), tables=tables)


def rows_left_out(data: FederatedData) -> FederatedData:
    """`data` as learners have it that do not model empty cells: a row with one ends a stretch."""
    tables, stretches = dict[str, Any](), dict[str, tuple[int, ...]]()
    for silo, table in data.tables.items():
        complete = ~np.isnan(table).any(axis=1)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], complete, [0]])))
        tables[silo], stretches[silo] = table[complete], tuple(map(int, edges[1::2] - edges[::2]))
    return replace(data, schema=time_series(tables, stretches, data.schema.variables), tables=tables)


def gaps() -> None:
    """Series with empty cells: EM over windows, which `auto` runs, and the same learner without the rows that have one.

    A seed counts for the second only if every silo has a stretch that is long enough for one lag.
    """
    ten = CASES["unequal variances"][0]
    kinds = {"2 % at random": 0.02, "10 % at random": 0.1, "30 % at random": 0.3, "a third of one column": 0.0}
    lines = [
        _with_gaps(said, ten, share, treated=treated) for said, share in kinds.items() for treated in (False, True)
    ]
    show("dynamic-gaps", lines, {})


def gaps_large() -> None:
    """EM over windows of more variables, 10 % of the cells empty, beside the same series without gaps."""
    lines = []
    for d in (20, 30):
        drawn_as = replace(CASES["unequal variances"][0], variables=d, within=d - 1, across=2 * d)
        lines.append(_with_gaps(f"10 % at random, d = {d}", drawn_as, 0.1, seeds=FRESH[:3]))
        lines.append(_with_gaps(f"none, d = {d}", drawn_as, None, seeds=FRESH[:3]))
    show("dynamic-gaps-large", lines, {})


def _with_gaps(
    said: str, drawn_as: Case, share: float | None, *, treated: bool = False, seeds: Sequence[int] = FRESH
) -> dict[str, Any]:
    """A line of `gaps`: series of which this `share` is empty (`emptied`), none if it is None."""
    scores, sent, seconds = list[tuple[float, float]](), list[float](), list[float]()
    for seed in seeds:
        data = drawn_as.data(seed) if share is None else emptied(drawn_as.data(seed), share, seed)
        begin = time.process_time()
        try:
            found = learn(rows_left_out(data) if treated else data, parameters=False, bootstrap=0, seed=seed)
        except BadInput:
            continue
        seconds.append(time.process_time() - begin)
        metrics = found.result.metrics
        scores.append((float(metrics["shd"] or 0), float(metrics["lagged_shd"] or 0)))
        sent.append(float(metrics.get("filling_exchanges") or 0))
    treatment = "rows left out" if treated else "complete" if share is None else "EM over windows"
    row: dict[str, Any] = {"empty cells": said, "treatment": treatment, "seeds": len(scores)}
    row |= dict.fromkeys(("W SHD", "A SHD", "exchanges of EM", "CPU s"), "–")
    if scores:
        w, a = (mean_and_sd(list(one), 1) for one in zip(*scores, strict=True))
        row |= {"W SHD": w, "A SHD": a, "exchanges of EM": mean_and_sd(sent, 1).split(" ")[0]}
        row |= {"CPU s": mean_and_sd(seconds, 2)}
    return row


CLEAN = ("equal variances", "unequal variances", "AR .93", "n = 50 x 3")
GAP_SEEDS = range(1000, 1050)
TRUE_OF_CLEAN = {"site means", "shifted silo", "few rows"}
"""findings that are right in them: levels differ between silos, and 150 rows are few"""
KINDS = {said: CASES[said][0] for said in CLEAN} | {
    f"slopes sd {sd:.2g} between silos": Case(slopes=sd) for sd in (0.05, 0.1, 0.15, 0.25)
}
"""kinds of series of which findings are counted: clean ones, and silos whose weights differ"""


def unequal(data: FederatedData) -> FederatedData:
    """`data` with 100, 80, 60, ... % of the rows of its silos."""
    lengths = {silo: round((1 - 0.2 * k) * len(table)) for k, (silo, table) in enumerate(sorted(data.tables.items()))}
    tables = {silo: table[: lengths[silo]] for silo, table in data.tables.items()}
    schema = replace(data.schema, rows=lengths, stretches={silo: (length,) for silo, length in lengths.items()})
    return replace(data, schema=schema, tables=tables)


def labelled_alarms() -> None:
    """How often a finding names what clean series with numbers and states do not have; 200 data sets of each kind."""
    lines = []
    for rows in (200, 600):
        counts = Counter[str]()
        for seed in range(1000, 1200):
            data = unequal(dynamic(6, 4, rows, seed, degree=2.0, labels=3))
            counts.update({one.name for one in learn(data, parameters=False, bootstrap=0).result.diagnosed.findings})
        named = ", ".join(f"{name} {count / 2:.1f} %" for name, count in sorted(counts.items())) or "none"
        lines.append({"rows of the longest of 4 silos": rows, "data sets": 200, "findings": named, "asked": "≤ 2 %"})
    show("dynamic-labelled-alarms", lines, {})


LABELLED = ((10, 5, 1000), (10, 10, 1000), (10, 5, 300), (10, 10, 300), (20, 10, 1000))
"""numbers of variables, of states among them, and of rows of the longest silo"""


def labelled() -> None:
    """What `auto` learns from series with states: 4 silos, a mean of two neighbours within a step, one child across."""
    lines = []
    for d, labels, rows in LABELLED:
        found = []
        for seed in FRESH:
            data = unequal(dynamic(d, 4, rows, seed, degree=2.0, labels=labels))
            start = time.process_time()
            result = learn(data, parameters=False, bootstrap=0, seed=seed).result
            found.append((result, time.process_time() - start))

        def mean(name: str, digits: int = 1, found: Sequence[tuple[Any, float]] = tuple(found)) -> str:
            return mean_and_sd([float(one.metrics[name]) for one, _ in found], digits)

        lines.append(
            {
                "data": f"d = {d}, {labels} states, rows {rows}, {rows * 8 // 10}, ...",
                "seeds": len(found),
                "W skeleton": mean("shd_skeleton"),
                "W wrong or missing": mean("shd_lenient"),
                "W SHD": mean("shd"),
                "A SHD": mean("lagged_shd"),
                "true edges W, A": f"{mean('true_edges').split()[0]}, {mean('lagged_true_edges').split()[0]}",
                "one lag": f"{sum(one.structure.lags == 1 for one, _ in found)}/{len(found)}",
                "exchanges": mean("rounds"),
                "MB": mean_and_sd([(one.metrics["bytes_up"] + one.metrics["bytes_down"]) / 1e6 for one, _ in found], 2),
                "CPU s": mean_and_sd([seconds for _, seconds in found], 2),
            }
        )
    show("dynamic-labelled", lines, {})


TABLES: dict[str, Callable[[], None]] = {
    "default": default,
    "default-large": default_large,
    "default-lags": default_lags,
    "short": short,
    "gaps": gaps,
    "gaps-large": gaps_large,
    "unit-roots": unit_roots,
    "gap-alarms": gap_alarms,
    "alarms": alarms,
    "level-alarms": level_alarms,
    "curves": curves,
    "change": change,
    "labelled": labelled,
    "labelled-alarms": labelled_alarms,
}


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    run_tables(TABLES, __doc__, __file__)
