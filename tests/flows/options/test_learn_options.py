"""Every option of `learn` changes the output: a table with two values for each, and the expected difference."""

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import Overspent
from fedbnsl.flows.options.learn import LearnOptions, LearnSettings
from fedbnsl.flows.start import check_inline, learn_inline, precheck
from fedbnsl.tracking import outputs

from ..engines.reached import reach


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Folders of three unequal silos: of numbers, of labels, with gaps, with a cyclic truth."""
    home, rng = tmp_path_factory.mktemp("studies"), np.random.default_rng(3)
    for number, (silo, n) in enumerate({"clinic": 90, "lab": 61, "ward": 43}.items()):
        a = rng.normal(number, 1, n)
        b = 1.4 * a + rng.normal(size=n)
        c = rng.normal(size=n)
        d = 0.9 * b - 1.2 * c + rng.normal(size=n)
        table = np.stack([a, b, c, d], axis=1)
        write(home / "numbers" / f"{silo}.csv", [[f"{cell:.6f}" for cell in row] for row in table])
        write(home / "cyclic" / f"{silo}.csv", [[f"{cell:.6f}" for cell in row] for row in table])
        gaps = [[f"{x:.6f}" if rng.random() > 0.15 else "" for x in row] for row in table]
        write(home / "gaps" / f"{silo}.csv", gaps)
        ragged = [row[:3] if silo == "lab" else row for row in [list("abcd"), *table.tolist()]]
        (home / "ragged").mkdir(exist_ok=True)
        (home / "ragged" / f"{silo}.csv").write_text("\n".join(",".join(map(str, row)) for row in ragged))
        dated = [
            [f"{x:.4f}", f"{y:.4f}", str(np.datetime64("2020-01-05") + k)] for k, (x, y) in enumerate(table[:, :2])
        ]
        (home / "dated").mkdir(exist_ok=True)
        (home / "dated" / f"{silo}.csv").write_text("\n".join(map(",".join, [["a", "b", "d"], *dated])))
        codes = np.digitize(table - table.mean(axis=0), (-0.6, 0.6))
        season = 3.0 * np.sin(np.pi * np.arange(n) / 6)[:, None] + 0.1 * np.arange(n)[:, None]
        rows = [[str(t), *(f"{x:.6f}" for x in row)] for t, row in enumerate(table + season)]
        write(home / "series" / f"{silo}.csv", rows, ("time", *"abcd"))
        write(home / "labels" / f"{silo}.csv", [[("low", "mid", "top")[code] for code in row] for row in codes])
    whose = [(silo, home / "numbers" / f"{silo}.csv") for silo in ("clinic", "lab", "ward")]
    sites = [(line, silo) for silo, file in whose for line in file.read_text().splitlines()[1:]]
    (home / "sites").mkdir()
    halves = [f"{line},{silo},{('left', 'right')[row % 2]}" for row, (line, silo) in enumerate(sites)]
    (home / "sites" / "all.csv").write_text("\n".join(["a,b,c,d,site,half", *halves]))
    (home / "small").mkdir()
    few = [f"{line},{silo}" for line, silo in sites if silo != "ward"]
    few += [f"{sites[-1][0]},ward", f"{sites[-2][0]},"]
    (home / "small" / "all.csv").write_text("\n".join(["a,b,c,d,site", *few]))
    (home / "numbers" / "truth.csv").write_text("source,target\na,b\nb,d\nc,d\n")
    (home / "numbers" / "about.json").write_text('{"kind": "continuous"}')
    (home / "cyclic" / "truth.csv").write_text("source,target\na,b\nb,d\nd,a\n")
    (home / "targets.csv").write_text("silo,variable\nlab,a\n")
    (home / "known.csv").write_text("rule,source,target\nrequired,d,a\n")
    return home


def write(file, rows, names=tuple("abcd")):
    file.parent.mkdir(exist_ok=True)
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows([names, *rows])


@pytest.fixture(autouse=True)
def without_reports(monkeypatch):
    """Leave reports out: they take longer than to learn, and have tests of their own."""
    monkeypatch.setattr(outputs, "report_html", lambda result: "")


@dataclass(frozen=True)
class Case:
    """Two values of an option, and the outcome of a run with each, or the text of the error."""

    one: Any
    other: Any
    seen: tuple[Any, Any]
    """the outcomes with the first value and with the second"""
    of: Any
    """(finished run) -> its outcome for the comparison"""
    data: str = "numbers"
    more: dict[str, Any] = field(default_factory=dict)


def arcs(finished):
    names, weights = finished.result.structure.variables, finished.result.structure.weights
    return {f"{names[i]}->{names[j]}" for i, j in np.argwhere(weights).tolist()}


def has(arc):
    return lambda finished: arc in arcs(finished)


def files(name):
    return lambda finished: (finished.folder / name).exists()


def config(name):
    return lambda finished: json.loads((finished.folder / "config.json").read_text())[name]


def rows_of(finished):
    return finished.result.schema.rows


def tuned_candidates(done):
    """How many candidates were compared."""
    return len(done.result.tuning.candidates) if done.result.tuning else 0


def sharpest(finished):
    """The greatest probability of any table: a strong prior makes all of them flat."""
    tables = finished.result.parameters.network.tables
    return max(float(table.max()) for table in tables.values()) > 0.6


def strengths(finished):
    return finished.result.confidence.strengths


def subtracted(text):
    """Whether the model states the adjustment, with fewer windows if rows were replaced by differences."""
    return lambda finished: text in finished.result.parameters.how


SUM, PRIVATE = {"algorithm": "secure-sum"}, {"algorithm": "secure-sum", "epsilon": 90.0}
ALL, FEW = {"clinic": 90, "lab": 61, "ward": 43}, {"clinic": 90, "lab": 61}
SERIES = {"algorithm": "secure-linear"}
CASES = {
    "algorithm": Case("secure-sum", "fed-pc", ("dag", "cpdag"), lambda done: done.result.structure.kind),
    "params": Case({"threshold": 0.3}, {"threshold": 9.0}, (True, False), lambda done: bool(arcs(done)), more=SUM),
    "epsilon": Case(80.0, 90.0, (80.0, 90.0), lambda done: done.result.privacy.epsilon, more=SUM),
    "delta": Case(1e-4, 1e-6, (1e-4, 1e-6), lambda done: done.result.metrics["delta"], more=PRIVATE),
    "budget": Case(95.0, 5.0, (True, "budget of 5"), lambda done: done.result.privacy.spent > 80, more=PRIVATE),
    "budget_delta": Case(
        1e-3, 1e-9, (True, "1e-09"), lambda done: True, more=PRIVATE | {"budget": 95.0, "delta": 1e-4}
    ),
    "secure": Case(False, True, (False, True), lambda done: done.result.secure, more={"algorithm": "fed-sparse"}),
    "ignore": Case((), ("c",), ("abcd", "abd"), lambda done: "".join(done.result.structure.variables), more=SUM),
    "only": Case((), ("d", "a"), ("abcd", "ad"), lambda done: "".join(done.result.structure.variables), more=SUM),
    "by": Case("site", "half", (ALL, {"left": 97, "right": 97}), rows_of, "sites", {"algorithm": "secure-sum"}),
    "small_silos": Case(
        "leave-out",
        "merge",
        ({"clinic": 90, "lab": 61}, {"clinic": 90, "lab": 61, "others": 2}),
        rows_of,
        "small",
        {"algorithm": "secure-sum", "by": "site"},
    ),
    "outliers": Case(
        "keep",
        "set-aside",
        (False, True),
        lambda done: any(note.startswith("outliers") for note in done.result.notes),
        more={"algorithm": "secure-linear"},
    ),
    "detrend": Case(False, True, (False, True), subtracted("linear trends subtracted"), "series", SERIES),
    "deseasonalise": Case(0, 12, (False, True), subtracted("seasons of 12 rows"), "series", SERIES),
    "difference": Case(False, True, (ALL, {s: n - 1 for s, n in ALL.items()}), rows_of, "series", SERIES),
    "columns": Case(
        "same",
        "common",
        ("--columns common does so", "abc"),
        lambda done: "".join(done.result.structure.variables),
        "ragged",
        {"algorithm": "secure-linear"},
    ),
    "dates": Case(
        "set-aside",
        "days",
        ("ab", "abd"),
        lambda done: "".join(done.result.structure.variables),
        "dated",
        {"algorithm": "secure-linear"},
    ),
    "time": Case((), ("d",), ("continuous", "time-series"), config("kind"), "dated", {"algorithm": "secure-sum"}),
    "transform": Case(
        "none",
        "b=normal-scores",
        ({}, {"b": "normal-scores"}),
        lambda done: done.result.schema.transforms,
        more={"algorithm": "secure-linear"},
    ),
    "missing": Case(
        "model",
        "complete-rows",
        (ALL, {"clinic": 37, "lab": 34, "ward": 16}),
        rows_of,
        "gaps",
        {"algorithm": "secure-linear"},
    ),
    "targets": Case(
        "none",
        "targets.csv",
        (False, True),
        lambda done: bool(done.result.schema.targets),
        more={"algorithm": "secure-linear"},
    ),
    "condition": Case(
        None,
        "half",
        (5, 4),
        lambda done: len(done.result.structure.variables),
        "sites",
        {"algorithm": "auto", "by": "site", "targets": "none"},
    ),
    "cluster": Case(
        None,
        "half",
        (5, 4),
        lambda done: len(done.result.structure.variables),
        "sites",
        {"algorithm": "auto", "by": "site"},
    ),
    "knowledge": Case(None, "known.csv", (False, True), has("d->a"), more=SUM),
    "required_arcs": Case(None, "d->a", (False, True), has("d->a"), more=SUM),
    "forbidden_arcs": Case(None, "a->b", (True, False), has("a->b"), more=SUM),
    "tiers": Case(None, "d<a,b,c", (True, False), has("b->d"), more=SUM),
    "no_parents": Case(None, "d", (True, False), has("b->d"), more=SUM),
    "parameters": Case(True, False, (True, False), files("model.json"), more=SUM),
    "diagnose": Case(True, False, (True, False), lambda done: done.result.diagnosed.bytes_sent > 0, more=SUM),
    "smoothing": Case(1.0, 5000.0, (True, False), sharpest, "labels", {"algorithm": "fed-pc"}),
    "small_cells": Case(
        "blank",
        "keep",
        (False, True),
        lambda done: "counts are exact" in done.result.parameters.how,
        "labels",
        {"algorithm": "fed-pc"},
    ),
    "bootstrap": Case(3, 5, (3, 5), lambda done: strengths(done).structures, more=SUM),
    "posterior": Case(
        0, 150, (None, 150), lambda done: done.result.metrics.get("posterior"), more={"algorithm": "secure-boss"}
    ),
    "held_out": Case(False, True, (0, 3), lambda done: len(done.result.held_out.by_silo), more=SUM),
    "tune": Case("", "alpha=.01,.3", (0, 2), tuned_candidates, more={"algorithm": "fed-pc"}),
    "tune_by": Case(
        "stars",
        "held-out",
        ("stars", "held-out"),
        lambda done: done.result.tuning.by,
        more={"algorithm": "fed-pc", "tune": "alpha=.01,.3"},
    ),
    "time_limit": Case(
        None, 1e-9, ("converged", "out of time"), lambda done: done.result.outcome, more={"algorithm": "fed-sparse"}
    ),
    "megabytes": Case(
        1.0, 1e-6, ("converged", "out of bytes"), lambda done: done.result.outcome, more={"algorithm": "fed-sparse"}
    ),
    "seed": Case(1, 2, (1, 2), config("seed"), more=SUM),
    "out": Case("here", "there", ("here", "there"), lambda done: done.folder.name, more=SUM),
    "name": Case("mine", "yours", ("mine", "yours"), config("name"), more=SUM),
    "federation": Case(None, "f.toml", (True, "--federation needs the engine prefect"), lambda done: True, more=SUM),
    "platform": Case(None, "flower", (True, "--platform flower needs --federation"), lambda done: True, more=SUM),
    "register_as": Case(None, "ours", (True, "--register needs the engine prefect"), lambda done: True, more=SUM),
    "silos": Case((), ("lab", "clinic"), (ALL, FEW), rows_of, more=SUM),
    "allow_cyclic_truth": Case(
        True, False, (True, "truth has the cycle a -> b -> d -> a"), lambda done: True, "cyclic", SUM
    ),
}
"""for each option that applies to a run in this process"""
OF_WORKERS = {
    "quorum": (1, 2, lambda run: (run.quorum, run.federation.roster.quorum)),
    "silo_patience": (7.5, 431.0, lambda run: (run.patience, run.federation.roster.patience.absent)),
}
"""for options of separate workers: two values, and the component that must receive them"""


def test_every_option_has_a_case():
    assert {*CASES, *OF_WORKERS} == set(LearnOptions.model_fields)


def learned(studies, case, name, value):
    """Learn in this process; return the outcome of the run, or the text of the error."""
    value = str(studies / value) if str(value).endswith(".csv") else value
    options = (
        {"out": uuid4().hex} | case.more | {name: value}
    )  # two runs that start in the same second have the same name
    settings = LearnSettings(data=str(studies / case.data), **options).named()
    for kept in (studies / case.data).glob(".fedbnsl/*"):
        kept.unlink()
    try:
        check_inline(settings)
        return case.of(learn_inline(settings, precheck(settings)))
    except (BadInput, Overspent) as error:
        return str(error)


@pytest.mark.parametrize("name", CASES)
def test_an_option_changes_what_comes_out(studies, name):
    case = CASES[name]
    for value, wanted in zip((case.one, case.other), case.seen, strict=True):
        found = learned(studies, case, name, value)
        if isinstance(wanted, str) and isinstance(found, str) and wanted != found:
            assert wanted in found
        else:
            assert found == wanted


LOOSE = {"algorithm": "fed-pc", "params": {"alpha": 0.4}, "bootstrap": 20}


def test_another_seed_draws_other_resamples(studies):
    case = Case(1, 2, (None, None), lambda done: strengths(done).joined.tobytes(), "labels", LOOSE)
    one, again, other = (learned(studies, case, "seed", seed) for seed in (1, 1, 2))
    assert one == again != other


def test_gaps_that_are_refused_name_their_cell(studies):
    case = Case("model", "refuse", (None, None), rows_of, "gaps", {"algorithm": "secure-linear"})
    said = learned(studies, case, "missing", "refuse")
    assert "clinic.csv: line " in said


@pytest.mark.parametrize("name", OF_WORKERS)
def test_an_option_reaches_those_who_wait_for_the_silos(monkeypatch, tmp_path, name):
    one, other, of = OF_WORKERS[name]
    for value in (one, other):
        assert of(reach(monkeypatch, tmp_path, **{name: value})) == (value, value)


@pytest.mark.parametrize(
    "options",
    [
        {
            "algorithm": "fed-pc",
            "data": "labels",
            "params": {"alpha": 0.2},
            "secure": True,
            "ignore": ("c",),
            "required_arcs": "d->a",
            "forbidden_arcs": "a->b",
            "smoothing": 50.0,
            "seed": 7,
            "silos": ("lab", "clinic"),
            "bootstrap": 4,
            "diagnose": False,
        },
        {
            "algorithm": "secure-linear",
            "data": "gaps",
            "params": {"threshold": 0.8},
            "missing": "complete-rows",
            "only": ("a", "b", "d"),
            "tiers": "d<a",
            "no_parents": "b",
            "parameters": False,
            "seed": 5,
        },
    ],
    ids=lambda options: options["algorithm"],
)
def test_a_run_of_prefect_and_dask_obeys_as_one_of_this_process(server, studies, options):
    """Each option changes the outcome above, so a run with the same outcome has used all of them."""
    from fedbnsl.flows.learn import learn

    settings = LearnSettings(**options | {"data": str(studies / options["data"]), "name": "both"})
    here = settings.model_copy(update={"out": "here"})
    one, other = learn_inline(here, precheck(here)), learn(settings.model_copy(update={"out": "there"}))
    assert other.result.structure.variables == one.result.structure.variables
    assert other.result.structure.weights.tobytes() == one.result.structure.weights.tobytes()
    apart = {"seconds", "bytes_up", "bytes_down"} if one.result.secure else {"seconds"}
    found, wanted = ({k: v for k, v in run.result.metrics.items() if k not in apart} for run in (other, one))
    assert found == pytest.approx(wanted, nan_ok=True)
    texts = [
        path.name for path in Path("here").iterdir() if path.name in ("structure.csv", "averaged.csv", "model.bif")
    ]
    assert texts
    for name in texts:
        assert (Path("there") / name).read_bytes() == (Path("here") / name).read_bytes()
    kept = [json.loads((Path(run) / "config.json").read_text()) for run in ("here", "there")]
    assert {key for key in kept[0] if kept[0][key] != kept[1][key]} == {"engine"}
