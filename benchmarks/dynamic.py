"""The time-series learners in the settings of Chen, Ma & Yue 2025 and in others: scores of W and A, bytes, CPU.

`python benchmarks/dynamic.py` runs all tables, `--table NAME` one of them. Seeds 2 to 11, fewer where a row says so.
The columns of the data are in random order. SHD, TPR and FDR are means over the silos; a silo with its own true graph
is compared with that graph.
"""

import multiprocessing
import os
import re
import resource
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import mean_and_sd, run, run_tables, show
from measure_series import SEEDS, Cell, Maker, learn_series, over_series, series_table, with_units

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Algorithm, Replies, SiloLost, Sparse, Traffic, rounds
from fedbnsl.algorithms.dynamic import lag_order
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import unstacked
from fedbnsl.algorithms.moments import secure_sum
from fedbnsl.data.federated import FederatedData, pool, time_series
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.data.recordings.series import series
from fedbnsl.tasks.silo.messages import MethodCall
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.federation import SiloTransport
from fedbnsl.tasks.transport.in_process import ImmediateAnswer, InProcessFederation, InProcessTransport

SOME, FEW = range(2, 7), range(2, 5)
SHARED = Path(os.environ.get("FEDBNSL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def drawn(variables: int, silos: int, rows: int, **options: Any) -> Maker:
    """The maker of data of so many windows a silo."""
    return lambda seed: dynamic(variables, silos, rows, seed, **options)


def own(variables: int, silos: int, rows: int, degree: float = 4.0) -> Maker:
    """The maker of data whose silos have structures of their own."""
    return drawn(variables, silos, rows, degree=degree, own_structures=True)


def halving(make: Maker) -> Maker:
    """The maker of the same data; each silo has half as many windows as the one before, at least 4."""

    def cut(seed: int) -> FederatedData:
        data = make(seed)
        lags = data.truth.lags if data.truth else 1
        windows = max(data.schema.rows.values()) - lags
        lengths = {silo: max(windows // 2**k, 4) + lags for k, silo in enumerate(data.schema.silos)}
        tables = {silo: data.tables[silo][:length] for silo, length in lengths.items()}
        stretches = {silo: (length,) for silo, length in lengths.items()}
        return replace(data, schema=time_series(tables, stretches, data.schema.variables), tables=tables)

    return cut


def table1() -> None:
    """Table 1: a structure of each silo's own, d = 5, K = 6, n_k = 30; and one structure with weights of each's own."""
    settings = {
        "own structures": (own(5, 6, 30), "10.2, 12.7", "6.2, 5.4"),
        "own structures, 4/d an edge": (own(5, 6, 30, 3.2), "10.2, 12.7", "6.2, 5.4"),
        "one structure, weights ± 0.1": (drawn(5, 6, 30, heterogeneity=0.1), "", ""),
    }
    cells = []
    for said, (make, fdbnl, pfdbnl) in settings.items():
        asked = "W ≤ 6.2, A ≤ 5.4" if pfdbnl else ""
        cells += [
            Cell(f"pfdbnl, {said}", "pfdbnl", make, paper=pfdbnl, asked=asked),
            Cell(f"pfdbnl, paper's settings, {said}", "pfdbnl", make, {"preset": "paper"}, pfdbnl),
            Cell(f"fdbnl, {said}", "fdbnl", make, paper=fdbnl, asked="clearly above pfdbnl" if fdbnl else ""),
            Cell(f"dynotears-best, {said}", "dynotears-best", make),
            Cell(f"dynotears-average, {said}", "dynotears-average", make),
            Cell(f"secure-sum, {said}", "secure-sum", make),
        ]
    series_table("dynamic-table1", cells)


def connectivity(title: str, settings: Mapping[str, tuple[int, float, str]]) -> None:
    """Show `title`: K = 6 silos with structures of their own and 6d windows each, by label (d, degree, paper).

    The paper's settings are those of `papers/dynamic-table-2.yaml` and `papers/dynamic-table-3.yaml`.
    """
    cells = []
    for said, (d, degree, paper) in settings.items():
        make, seeds = own(d, 6, 6 * d, degree), SEEDS if d <= 10 else SOME
        cells += [
            Cell(f"pfdbnl, {said}", "pfdbnl", make, paper=paper, asked="beside the paper", seeds=seeds),
            Cell(f"fdbnl, {said}", "fdbnl", make),
            Cell(f"secure-sum, {said}", "secure-sum", make),
        ]
    series_table(title, cells)


def table2() -> None:
    """Table 2: low connectivity, degree ⌊d/2⌋ − ⌊d/5⌋."""
    paper = {5: "4.4, 2.8", 10: "16.8, 10.9", 15: "44.7, 29.6", 20: "79.2, 32.2"}
    degrees = {d: d // 2 - d // 5 for d in paper}
    settings = {f"d = {d}, degree {degrees[d]}": (d, float(degrees[d]), paper[d]) for d in paper}
    connectivity("dynamic-table2", settings)


def table3() -> None:
    """Table 3: high connectivity, degree d − ⌊d/5⌋; d = 10 with degree 4, too, as its figures imply."""
    paper = {5: "6.2, 5.4", 10: "13.6, 8.3", 15: "52.0, 41.0", 20: "110.0, 31.0"}
    settings = {f"d = {d}, degree {d - d // 5}": (d, float(d - d // 5), paper[d]) for d in paper}
    connectivity("dynamic-table3", settings | {"d = 10, degree 4": (10, 4.0, paper[10])})


def table4() -> None:
    """Table 4: j of 6 silos take part in a round, d = 10, n_k = 60."""
    paper = {1: "14.2, 8.1", 2: "13.6, 8.3", 3: "14.3, 8.7", 4: "14.9, 7.7", 5: "14.5, 8.5", 6: ""}
    cells = []
    for j, reported in paper.items():
        for said, preset, seeds in (("", {}, SEEDS), (", paper's settings", {"preset": "paper"}, FEW)):
            params = preset | {"participants": j}
            cells.append(Cell(f"pfdbnl{said}, j = {j}", "pfdbnl", own(10, 6, 60), params, reported, seeds=seeds))
    series_table("dynamic-table4", cells)


def over_silos(title: str, variables: int, paper: Mapping[int, str], seeds: Callable[[int], Sequence[int]]) -> None:
    """Show `title`: 512 windows in all over K silos with structures of their own, degree 4."""
    cells = []
    for silos, reported in paper.items():
        make, of = own(variables, silos, 512 // silos), seeds(silos)
        cells.append(Cell(f"pfdbnl, K = {silos}", "pfdbnl", make, paper=reported, asked="beside the paper", seeds=of))
        cells.append(Cell(f"fdbnl, K = {silos}", "fdbnl", make, seeds=of))
    series_table(title, cells)


def table5() -> None:
    """Table 5: d = 10."""
    paper = {2: "11.3, 6.7", 4: "20.6, 10.5", 8: "17.4, 10.7", 16: "18.2, 10.8", 32: "19.4, 14.8"}
    over_silos("dynamic-table5", 10, paper, lambda silos: SEEDS if silos <= 4 else SOME)


def table6() -> None:
    """Table 6: d = 20."""
    paper = {2: "56.2, 33.2", 4: "57.5, 36.1", 8: "54.3, 40.8", 16: "52.1, 55.6", 32: "56.1, 56.3"}
    over_silos("dynamic-table6", 20, paper, lambda silos: SOME if silos <= 4 else FEW)


ASKED_20 = {
    ("fdbnl", 100): "W ≤ 20, A ≤ 8, ≤ 2 CPU s (published program 32, 14, 40 s)",
    ("fdbnl", 120): "W ≤ 20, A ≤ 8, ≤ 2 CPU s (published program 32, 14, 40 s)",
    ("secure-sum", 120): "W ≤ 16, A ≤ 6",
    ("secure-sum", 1000): "W ≤ 3.5, A ≤ 2.5",
}
BESIDE = ("secure-sum", "dynotears", "dynotears-average", "dynotears-best", "var")


def homogeneous() -> None:
    """Figure 3: one structure, K = 10, few rows; and more of them."""
    cells = []
    for d, n in ((5, 30), (10, 50), (15, 90), (20, 100), (20, 120), (20, 1000)):
        make, said = drawn(d, 10, n // 10), f"d = {d}, n = {n}"
        program = {5: "published program 3.0, 4.7", 10: "published program 10, 12"}.get(d, "")
        cells.append(Cell(f"fdbnl, {said}", "fdbnl", make, paper=program, asked=ASKED_20.get(("fdbnl", n), "")))
        cells.append(Cell(f"fdbnl, paper's settings, {said}", "fdbnl", make, {"preset": "paper"}))
        cells += [Cell(f"{name}, {said}", name, make, asked=ASKED_20.get((name, n), "")) for name in BESIDE]
    series_table("dynamic-homogeneous", cells)


def pooled() -> None:
    """Masked sums against the same learner on the pooled series: equal edges, and the difference of weights."""
    lines = []
    for d, n in ((10, 50), (20, 120), (20, 1000)):
        same, apart = 0, 0.0
        for seed in SEEDS:
            data = dynamic(d, 10, n // 10, seed)
            algorithm = secure_sum.build(secure_sum.SecureSum())
            *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables, secure=True))
            masked, whole = (unstacked(one)[0] for one in (algorithm.structure(last.server), of_all_rows(data)))
            same += bool(((masked != 0) == (whole != 0)).all())
            apart = max(apart, float(np.abs(masked - whole).max()))
        found = {"data": f"d = {d}, n = {n}, K = 10", "seeds": len(SEEDS), "same edges": f"{same}/{len(SEEDS)}"}
        lines.append(found | {"weights apart, at most": f"{apart:.1e}", "asked": "the pooled result exactly"})
    show("dynamic-pooled", lines, {})


def of_all_rows(data: FederatedData) -> Any:
    """Return what `secure-sum` learns from all series in one place."""
    return run("secure-sum", {}, pool(data)).structure


def clients() -> None:
    """Figures 4 to 7: 512 and 256 windows in all, over K silos."""
    cells = []
    for d in (10, 20):
        for n in (512, 256):
            for silos in (2, 4, 8, 16, 32, 64):
                make = drawn(d, silos, n // silos)
                cells.append(Cell(f"fdbnl, d = {d}, n = {n}, K = {silos}", "fdbnl", make, seeds=FEW))
            cells.append(Cell(f"secure-sum, d = {d}, n = {n}, K = {silos}", "secure-sum", make, seeds=FEW))
    series_table("dynamic-clients", cells)


def uneven() -> None:
    """Unequal silos: each has half as many windows as the one before, 4 at least."""
    one, several = halving(drawn(10, 8, 256)), halving(own(10, 6, 180))
    more = halving(drawn(20, 8, 256))
    names = ("fdbnl", "secure-sum", "pfdbnl", "dynotears-average", "dynotears-best")
    cells = [Cell(f"{name}, one structure, d = 10, 256, 128, ...", name, one) for name in names]
    cells += [Cell(f"{name}, one structure, d = 20, 256, 128, ...", name, more) for name in names[:2]]
    cells += [Cell(f"{name}, own structures, d = 10, 180, 90, ...", name, several) for name in ("pfdbnl", "fdbnl")]
    series_table("dynamic-uneven", cells)


def peak_megabytes() -> float:
    """The peak resident memory of this process, minus its memory before its program began."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.findall(r"VmHWM:\s+(\d+)", status.read_text())[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def large_run(name: str | None, seed: int) -> dict[str, Any]:
    """Learn the large data with `name`, or only import if it is None; return the figures of this process."""
    if name is None:
        return {"run": "import alone", "peak MB": round(peak_megabytes())}
    (found,) = over_series(Cell(name, name, drawn(100, 10, 500), seeds=(seed,)))
    return {
        "run": f"{name}, seed {seed}",
        "W SHD": found.shd,
        "A SHD": found.lagged_shd,
        "true edges W, A": f"{found.true_edges:.0f}, {found.lagged_true_edges:.0f}",
        "MB": round(found.megabytes, 2),
        "CPU s": round(found.cpu_seconds, 2),
        "peak MB": round(peak_megabytes()),
        "asked": "≤ 60 CPU s, ≤ 300 MB",
    }


def large() -> None:
    """D = 100, K = 10, 5000 windows in all: each run in a process of its own."""
    lines = []
    for name, seed in [(name, seed) for name in ("fdbnl", "secure-sum") for seed in FEW] + [(None, 0)]:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
            lines.append(fresh.submit(large_run, name, seed).result())
    columns = dict.fromkeys(lines[0], "")
    show("dynamic-large", [columns | line for line in lines], {})


def pfdbnl_time() -> None:
    """D = 10, K = 6, n_k = 60."""
    asked = "≤ 10 CPU s (published program: no end in 500 s)"
    cell = Cell("pfdbnl, d = 10, K = 6, n_k = 60", "pfdbnl", own(10, 6, 60), asked=asked)
    series_table("dynamic-pfdbnl-time", [cell])


def lags() -> None:
    """The number of lags that BIC chooses out of 5, for models of 1, 2 and 3 lags: n rows in all, over 5 silos."""
    lines = []
    for d, n, true in [(d, n, true) for d in (5, 10) for n in (200, 1000) for true in (1, 2, 3)]:
        algorithm = lag_order.build(lag_order.LagOrder())
        found: Counter[int] = Counter()
        for seed in SEEDS:
            data = dynamic(d, 5, n // 5, seed, lags=true)
            *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables))
            found[lag_order.choose_lag_order(last.server)[0]] += 1
        counts = {f"chose {lag}": found[lag] for lag in range(1, 6)}
        lines.append({"d": d, "n": n, "true lags": true, "seeds": len(SEEDS), "right": found[true]} | counts)
    show("dynamic-lags", lines, {})


def standardised(data: FederatedData) -> FederatedData:
    """`data` in units of each column's standard deviation over all silos, its mean taken away."""
    together = np.concatenate(list(data.tables.values()))
    mean, unit = together.mean(axis=0), together.std(axis=0)
    return replace(data, tables={silo: (table - mean) / unit for silo, table in data.tables.items()})


def in_units(data: FederatedData) -> FederatedData:
    """`data` with its columns in units from 1 to 1/1000 of the first one's."""
    units = np.geomspace(1, 1000, len(data.schema.variables))
    return replace(data, tables={silo: table * units for silo, table in data.tables.items()})


def changed(change: Callable[[FederatedData], FederatedData], make: Maker) -> Maker:
    """The maker of the data after `change`."""
    return lambda seed: change(make(seed))


def standard() -> None:
    """Further cases without a requirement: other units, and noise that is not Gaussian."""
    one, several = drawn(10, 10, 50), own(10, 6, 60)
    cells = []
    for name, make in (("fdbnl", one), ("secure-sum", one), ("pfdbnl", several)):
        makers = {
            "as drawn": make,
            "standardised": changed(standardised, make),
            "units 1 to 1000": changed(in_units, make),
        }
        cells += [Cell(f"{name}, {said}", name, of) for said, of in makers.items()]
    for noise in ("exponential", "gumbel"):
        cells += [
            Cell(f"{name}, {noise} noise", name, drawn(10, 10, 50, noise=noise)) for name in ("fdbnl", "secure-sum")
        ]
    series_table("dynamic-standard", cells)


class WithoutOne(InProcessFederation):
    """A masked federation whose first silo stops answering in round 1, or in round 20 if round 1 would end the run."""

    def exchange(
        self, algorithm: Algorithm, number: int, broadcast: Any, sparse: Sparse | None = None
    ) -> tuple[Replies[Any], Traffic]:
        """Run a round, or report the silo whose answer is missing (see `Federation.exchange`)."""
        if number == 20 and not algorithm.tolerates_dropout:
            raise SiloLost(self.schema.silos[:1], "silent")
        self.secure = algorithm.tolerates_dropout
        return super().exchange(algorithm, number, broadcast, sparse)

    def transport(self, services: Mapping[str, SiloService]) -> SiloTransport:
        """The usual transport, on which one silo is lost after it has advertised its keys."""
        return Lossy(services, self.schema.silos[0])


@dataclass(frozen=True)
class Lossy(InProcessTransport):
    """A transport on which the silo `gone` advertises its keys and answers nothing after that."""

    gone: str

    def submit(self, silo: str, call: MethodCall) -> ImmediateAnswer:
        """Carry out `call`, unless it is lost."""
        if silo == self.gone and call.method == "secure_answer" and call.arguments[-1].phase != "advertise":
            raise SiloLost((silo,), "silent")
        return super().submit(silo, call)


def lost() -> None:
    """One silo of 10 stops answering: the outcome for d = 10, n = 500, seed 2."""
    lines = []
    data = dynamic(10, 10, 50, 2)
    assert data.truth is not None
    for name in ("secure-sum", "var", "fdbnl", "pfdbnl"):
        algorithm = registry.build(registry.specify(name))
        *_, last = rounds(algorithm, WithoutOne(data.schema, data.tables))
        found = compare(algorithm.structure(last.server), data.truth)
        whole = compare(run(name, {}, data).structure, data.truth)
        ended = {"run": name, "outcome": last.outcome, "rounds": last.number, "lost": ", ".join(last.lost)}
        figures = {"W SHD, A SHD": found, "with all silos": whole}
        lines.append(ended | {said: f"{one['shd']}, {one['lagged_shd']}" for said, one in figures.items()})
    show("dynamic-lost", lines, {})


def by_series(data: FederatedData, *, units: bool) -> FederatedData:
    """`data` with every series' own means taken away, and in its own standard deviations if `units`."""
    tables = {}
    for silo, table in data.tables.items():
        parts = np.split(table, np.cumsum(data.schema.stretches[silo])[:-1])
        centred = [part - part.mean(axis=0) for part in parts]
        tables[silo] = np.concatenate([part / (part.std(axis=0) if units else 1.0) for part in centred])
    return replace(data, tables=tables)


def part_of_series(data: FederatedData, first: int, last: int) -> FederatedData:
    """`data` with the times from `first` to before `last` of each series alone."""
    tables, stretches = {}, {}
    for silo, table in data.tables.items():
        parts = np.split(table, np.cumsum(data.schema.stretches[silo])[:-1])
        tables[silo] = np.concatenate([part[first:last] for part in parts])
        stretches[silo] = tuple(len(part[first:last]) for part in parts)
    return replace(data, tables=tables, schema=time_series(tables, stretches, data.schema.variables))


CHANGES: dict[str, Callable[[FederatedData], FederatedData]] = {
    "as recorded": lambda data: data,
    "times 100": lambda data: replace(data, tables={silo: 100 * table for silo, table in data.tables.items()}),
    "standardised": standardised,
    "each series centred": partial(by_series, units=False),
    "each series standardised": partial(by_series, units=True),
    "while perturbed": partial(part_of_series, first=0, last=11),
    "after the perturbation": partial(part_of_series, first=10, last=21),
}
VARIANTS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("secure-linear", {}, "as recorded", "what auto runs: no worse than var"),
    ("var", {}, "as recorded", "AUROC ≥ .70, AUPR ≥ .12 (pooled ridge VAR .689, .115)"),
    ("var", {"hubs": True}, "as recorded", "AUROC ≥ .70, AUPR ≥ .12"),
    *(("var", {"ridge": ridge}, "as recorded", "") for ridge in (0.0, 0.1, 1.0, 3.0, 30.0, 100.0)),
    ("var", {}, "each series centred", ""),
    ("var", {}, "each series standardised", ""),
    ("var", {}, "while perturbed", ""),
    ("var", {}, "after the perturbation", ""),
    ("var", {"hubs": True}, "after the perturbation", ""),
    ("var", {"lags": 2}, "as recorded", ""),
    ("secure-sum", {}, "times 100", ""),
    ("secure-sum", {}, "standardised", ""),
    ("secure-sum", {}, "each series standardised", ""),
    ("fdbnl", {"preset": "paper-dream4"}, "as recorded", "(paper .600, .040)"),
    ("fdbnl", {"rounds": 20}, "as recorded", ""),
    ("fdbnl", {}, "standardised", ""),
    ("fdbnl", {"rounds": 5}, "standardised", ""),
    ("fdbnl", {"rounds": 5}, "each series standardised", ""),
)


def dream4() -> None:
    """DREAM4, size 100, the networks in the folder, 10 series of 21 times dealt to 5 silos: 9,900 pairs to rank."""
    tables = sorted((SHARED / "dream4").glob("insilico_size100_?_timeseries.csv.gz"))
    if not tables:
        print("dream4: the recordings are not here")
        return
    recorded = [
        with_units(series(table, silos=5, truth=table.with_name(table.name.replace("timeseries.csv.gz", "truth.json"))))
        for table in tables
    ]
    lines = []
    for name, params, change, asked in VARIANTS:
        found = [learn_series(name, params, CHANGES[change](data)) for data in recorded]
        settings = ", ".join([name, *(f"{key} = {value}" for key, value in params.items()), change])
        lines.append(
            {
                "run": settings,
                "AUROC by network": ", ".join(f"{one.auroc:.3f}" for one in found),
                "AUPR by network": ", ".join(f"{one.aupr:.3f}" for one in found),
                "mean AUROC": mean_and_sd([one.auroc for one in found], 3),
                "mean AUPR": mean_and_sd([one.aupr for one in found], 3),
                "CPU s": mean_and_sd([one.cpu_seconds for one in found], 2),
                "asked": asked,
            }
        )
    show("dynamic-dream4", lines, {})


TABLES: dict[str, Callable[[], None]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table4": table4,
    "table5": table5,
    "table6": table6,
    "homogeneous": homogeneous,
    "pooled": pooled,
    "clients": clients,
    "uneven": uneven,
    "large": large,
    "pfdbnl-time": pfdbnl_time,
    "lags": lags,
    "standard": standard,
    "lost": lost,
    "dream4": dream4,
}


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    run_tables(TABLES, __doc__, __file__)
