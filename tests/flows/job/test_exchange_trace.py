"""Which exchanges a run makes with its silos, whether they are masked, and whether they are charged, over both engines.

Two faults would disclose data: a step before or after the rounds that sends unmasked sums although the rounds are
masked, and a step of a private run that is not charged.
"""

from dataclasses import dataclass, field

import pandas as pd
import pytest

from fedbnsl import learn, prepare
from fedbnsl.algorithms import registry
from fedbnsl.data.folder.folder import silo_files
from fedbnsl.tasks.silo.ledger import ledger_of
from fedbnsl.tasks.transport.federation import Roster

MAKE = {
    "numbers": ("homogeneous", {"variables": 5, "silos": 3, "rows": 600, "seed": 1}),
    "labels": ("discrete", {"variables": 5, "silos": 3, "rows": 600, "seed": 1}),
    "series": ("dynamic", {"variables": 4, "silos": 3, "rows": 300, "seed": 1}),
    "mixed": ("mixed", {"variables": 6, "silos": 3, "rows": 600, "seed": 1}),
}
EMPTIED = {"numbers with gaps": "numbers", "labels with gaps": "labels", "mixed with gaps": "mixed"}

RUNS = {
    "default": (
        "numbers",
        {},
        (
            "units units: 1 masked",
            "rounds secure-linear: 1 masked",
            "diagnosis diagnosis: 2 masked",
            "errors error-checks: 1 masked",
            "bootstrap secure-linear+bootstrap: 1 masked",
        ),
    ),
    "private": (
        "numbers",
        {"epsilon": 3.0},
        ("rounds secure-sum: 2 masked, charged",),
    ),
    "masked": (
        "numbers",
        {"algorithm": "fed-sparse", "secure": True},
        (
            "units units: 1 masked",
            "rounds fed-sparse: 38 masked",
            "diagnosis diagnosis: 2 masked",
        ),
    ),
    "in the clear": (
        "numbers",
        {"algorithm": "fed-sparse"},
        (
            "rounds fed-sparse: 38 clear",
            "diagnosis diagnosis: 2 clear",
            "refit refit: 1 clear",
        ),
    ),
    "gaps": (
        "numbers with gaps",
        {"bootstrap": 3},
        (
            "units units: 1 masked",
            "em em: 5 masked",
            "rounds secure-linear: 1 masked",
            "diagnosis diagnosis: 2 masked",
            "missingness missingness: 1 masked",
            "bootstrap secure-linear+bootstrap: 1 masked",
        ),
    ),
    "gaps of labels": (
        "labels with gaps",
        {},
        (
            "filling-1-search secure-boss: 7 masked",
            "filling-1-tables family-tables: 1 masked",
            "filling-2-search secure-ges: 3 masked",
            "filling-2-tables family-tables: 1 masked",
            "filling-3-search secure-ges: 3 masked",
            "rounds secure-boss: 6 masked",
            "diagnosis diagnosis-tables: 2 masked",
            "missingness missingness: 1 masked",
            "parameters family-tables: 1 masked",
        ),
    ),
    "gaps of mixed data": (
        "mixed with gaps",
        {"bootstrap": 3},
        (
            "units units: 1 masked",
            "em em: 5 masked",
            "rounds secure-boss: 1 masked",
            "diagnosis diagnosis: 2 masked",
            "missingness missingness: 1 masked",
            "parameters mixed-families: 30 masked",
            "bootstrap secure-boss+bootstrap: 1 masked",
        ),
    ),
    "series": (
        "series",
        {"bootstrap": 3},
        (
            "units units: 1 masked",
            "rounds secure-linear: 1 masked",
            "diagnosis diagnosis: 2 masked",
            "parameters lagged-regressions: 1 masked",
            "bootstrap secure-linear+bootstrap: 1 masked",
        ),
    ),
    "lags of series, masked": (
        "series",
        {"algorithm": "fdbnl", "lags": "auto", "secure": True},
        (
            "units units: 1 masked",
            "lags lag-order: 1 masked",
            "rounds fdbnl: 37 masked",
            "diagnosis diagnosis: 2 masked",
            "parameters lagged-regressions: 1 masked",
        ),
    ),
    "mixed": (
        "mixed",
        {"bootstrap": 3},
        (
            "units units: 1 masked",
            "rounds secure-boss: 1 masked",
            "diagnosis diagnosis: 2 masked",
            "parameters mixed-families: 7 masked",
            "bootstrap secure-boss+bootstrap: 1 masked",
        ),
    ),
    "bootstrap": (
        "numbers",
        {"bootstrap": 3},
        (
            "units units: 1 masked",
            "rounds secure-linear: 1 masked",
            "diagnosis diagnosis: 2 masked",
            "errors error-checks: 1 masked",
            "bootstrap secure-linear+bootstrap: 1 masked",
        ),
    ),
    "knowledge": (
        "numbers",
        {"forbidden_arcs": "x1->x2", "bootstrap": 3},
        (
            "units units: 1 masked",
            "rounds secure-linear: 1 masked",
            "diagnosis diagnosis: 2 masked",
            "errors error-checks: 1 masked",
            "bootstrap secure-linear+bootstrap: 1 masked",
        ),
    ),
    "private labels": (
        "labels",
        {"epsilon": 3.0, "algorithm": "fed-pc", "insecure_seed": 1},
        ("rounds fed-pc: 4 masked, charged",),
    ),
    "streamed": (
        "streamed",
        {},
        (
            "units units: 1 masked",
            "rounds secure-linear: 1 masked",
            "diagnosis diagnosis: 2 masked",
            "errors error-checks: 1 masked",
        ),
    ),
    "held out": (
        "numbers",
        {"held_out": True, "bootstrap": 0},
        (
            "units units: 1 masked",
            "rounds secure-linear: 1 masked",
            "diagnosis diagnosis: 2 masked",
            "errors error-checks: 1 masked",
            "held-out secure-linear+held-out: 2 masked",
        ),
    ),
    "labels": (
        "labels",
        {},
        (
            "rounds secure-boss: 6 masked",
            "fit fit-tables: 1 masked",
            "diagnosis diagnosis-tables: 1 masked",
        ),
    ),
    "labels, masked tests": (
        "labels",
        {"algorithm": "fed-pc", "secure": True},
        (
            "rounds fed-pc: 4 masked",
            "fit fit-tables: 1 masked",
            "diagnosis diagnosis-tables: 1 masked",
        ),
    ),
}
"""run -> data set, options, and its steps: "step algorithm: number of exchanges masked|clear[, charged]" """


@dataclass
class Trace:
    """The exchanges of a run in their order: (step, algorithm, "masked" or "clear") and the numbers of the rounds."""

    steps: list[tuple[tuple[str, str, str], list[int]]] = field(default_factory=list)

    def hear(self, call):
        if call.method not in ("solve", "secure_answer"):
            return
        terms, number, *_ = call.arguments
        spec = registry.unpack(terms.spec)
        step = terms.run_id.removeprefix(terms.pinned_run).removeprefix("-") or "rounds"
        name = "+".join((spec.name, *(wrapper.name for wrapper in spec.wrappers)))
        which = (step, name, "clear" if call.method == "solve" else "masked")
        if not self.steps or self.steps[-1][0] != which:
            self.steps.append((which, []))
        if number not in self.steps[-1][1]:
            self.steps[-1][1].append(number)

    def lines(self, charged):
        """The steps as the table writes them; `charged` has the rounds on the silos' ledgers."""
        found = []
        for (step, name, how), numbers in self.steps:
            assert numbers == list(range(1, len(numbers) + 1))
            paid = ", charged" if step == "rounds" and set(numbers) <= charged else ""
            found.append(f"{step} {name}: {len(numbers)} {how}{paid}")
        return found


@pytest.fixture
def trace(monkeypatch):
    """Record what the coordinator sends to the first of its silos."""
    found, ask = Trace(), Roster.ask

    def recorded(self, calls, **how):
        found.hear(next(iter(calls.values())))
        return ask(self, calls, **how)

    monkeypatch.setattr(Roster, "ask", recorded)
    return found


def make(folder, name):
    """Write the data set `name` to `folder`."""
    if name == "streamed":
        frames = {silo: pd.read_csv(path) for silo, path in silo_files(make(folder / "files", "numbers")).items()}
        for silo, frame in frames.items():
            (folder / "parts" / silo).mkdir(parents=True)
            frame.to_parquet(folder / "parts" / silo / "p1.parquet")
        return folder / "parts"
    if name in EMPTIED:
        prepare("amputate", folder / "gaps", source=str(make(folder / "whole", EMPTIED[name])), share=0.05)
        return folder / "gaps"
    kind, options = MAKE[name]
    prepare(kind, folder / name, **options)
    return folder / name


QUICK = ("default", "private")
"""the runs whose exchanges over Prefect and Dask are not left to the slow tests: summed, and charged"""


@pytest.mark.parametrize(
    ("run", "engine"),
    [
        pytest.param(run, engine, marks=() if engine == "inline" or run in QUICK else pytest.mark.slow(60))
        for run in RUNS
        for engine in ("inline", "prefect")
    ],
)
def test_the_exchanges_of_a_run(run, engine, request, tmp_path, trace):
    if engine == "prefect":
        request.getfixturevalue("server")
    name, options, expected = RUNS[run]
    folder = make(tmp_path, name)
    learn(folder, engine=engine, out=tmp_path / "out", **options)
    ledgers = [ledger_of(path, silo).charges() for silo, path in silo_files(folder).items()]
    rounds = [{charge.number for charge in charges} for charges in ledgers]
    assert all(numbers == rounds[0] for numbers in rounds)
    assert len({charge.run for charges in ledgers for charge in charges}) <= 1
    assert trace.lines(rounds[0]) == list(expected)
