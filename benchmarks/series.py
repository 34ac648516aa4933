"""What `auto` learns from time series of every kind: W and A apart, lag orders, false alarms, CPU seconds.

`python benchmarks/series.py` runs all tables, `--table NAME` one of them. Fresh seeds from 1000 on; silos are of
unequal lengths, and columns in random order (`series_cases.py`).
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from measure import mean_and_sd, run, run_tables, show
from measure_series import Cell, Maker, series_table, with_units
from series_cases import CASES, LARGE, PERIOD, Case

from fedbnsl import learn
from fedbnsl.algorithms.choose import AUTO
from fedbnsl.algorithms.core.adjustment import Adjustment
from fedbnsl.algorithms.diagnosis.findings import WEIGHTS_DIFFER
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.generators.dynamic import dynamic

FRESH = range(1000, 1010)
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
    """How often clean series are said to have a trend, a season, weights that differ; 200 data sets of each kind."""
    lines = []
    for said, drawn_as in KINDS.items():
        counts = Counter[str]()
        for seed in range(1000, 1200):
            found = learn(drawn_as.data(seed), parameters=False, bootstrap=0, seed=seed).result
            counts.update({one.name for one in found.diagnosed.findings})
            counts["weights"] += any(one.name in WEIGHTS_DIFFER for one in found.diagnosed.findings)
            counts["own scores"] += found.algorithm == "secure-boss"
        shares = {name: f"{counts[name] / 2:.1f} %" for name in ("trend", "season", "weights", "own scores")}
        asked = "" if drawn_as.slopes else "≤ 2 %"
        lines.append({"data": said, "data sets": 200} | shares | {"asked": asked})
    show("dynamic-alarms", lines, {})


KINDS = {said: CASES[said][0] for said in ("equal variances", "unequal variances", "AR .93", "n = 50 x 3")} | {
    f"slopes sd {sd:.2g} between silos": Case(slopes=sd) for sd in (0.05, 0.1, 0.15, 0.25)
}
"""kinds of series of which findings are counted: clean ones, and silos whose weights differ"""


def unequal(data: FederatedData) -> FederatedData:
    """`data` with 100, 80, 60, ... % of the rows of its silos."""
    lengths = {silo: round((1 - 0.2 * k) * len(table)) for k, (silo, table) in enumerate(sorted(data.tables.items()))}
    tables = {silo: table[: lengths[silo]] for silo, table in data.tables.items()}
    schema = replace(data.schema, rows=lengths, stretches={silo: (length,) for silo, length in lengths.items()})
    return replace(data, schema=schema, tables=tables)


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
    "alarms": alarms,
    "labelled": labelled,
}


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    run_tables(TABLES, __doc__, __file__)
