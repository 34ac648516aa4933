"""The advice of findings: its options work on the data of the finding, and it never repeats what was already done."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.diagnosis import findings
from fedbnsl.flows.cli.main import main

OPTION = re.compile(r"(--[a-z]+(?:-[a-z]+)* [\w=-]+|-p [\w=-]+)")


def silos(make, count=3, rows=400):
    """`count` tables of `make(rng, rows)`."""
    rng = np.random.default_rng(7)
    return {f"silo-{p}": make(rng, rows) for p in range(count)}


def chain(rng, n):
    a = rng.normal(size=n)
    b = 1.2 * a + rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "c": b - 0.8 * a + rng.normal(size=n)})


def wrong_cells(rng, n):
    table = chain(rng, n)
    table.loc[::40, "b"] += 90.0
    return table


def curved(rng, n):
    a = rng.normal(size=n)
    b = 2 * np.tanh(2 * a) + 0.3 * rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "c": b**2 + 0.3 * rng.normal(size=n)})


def gaps(rng, n):
    table = curved(rng, n)
    table.loc[rng.random(n) < 0.05, "a"] = np.nan
    return table


def in_units(rng, n):
    return chain(rng, n) * [1.0, 1000.0, 1.0]


def twice(rng, n):
    table = chain(rng, n)
    return table.assign(twice=2 * table["a"])


def hidden_causes(rng, n):
    """Five pairs of variables; each pair has a hidden common cause, and each variable an observed one."""
    own, hidden = rng.normal(size=(n, 10)), np.repeat(rng.normal(size=(n, 5)), 2, axis=1)
    table = np.hstack([own, own + hidden + 0.7 * rng.normal(size=(n, 10))])
    return pd.DataFrame(table, columns=[f"v{column}" for column in range(20)])


def changing(rng, n):
    """Series of x → y → z with lags, in which the effect of x changes sign half-way."""
    x = np.zeros((n, 3))
    for t in range(1, n):
        e = rng.normal(size=3)
        x[t, 0] = 0.4 * x[t - 1, 0] + e[0]
        x[t, 1] = (0.5 if t < n / 2 else -0.3) * x[t, 0] + 0.4 * x[t - 1, 1] + e[1]
        x[t, 2] = 0.5 * x[t, 1] + 0.4 * x[t - 1, 2] + e[2]
    return pd.DataFrame(x, columns=["x", "y", "z"]).assign(time=np.arange(n))


def shares(rng, n):
    """Shares of a whole, whose logarithms have a chain of effects."""
    parts = np.exp(0.3 * pd.concat([chain(rng, n), chain(rng, n)], axis=1, ignore_index=True)).add_prefix("v")
    return parts.div(parts.sum(axis=1), axis=0)


CASES = {
    "few rows": (lambda rng, n: chain(rng, 6), ()),
    "outliers": (wrong_cells, ()),
    "not linear": (curved, ("-a", "secure-linear")),
    "not linear, with gaps": (gaps, ("-a", "secure-linear")),
    "units": (in_units, ("-a", "fed-sparse")),
    "unequal errors": (in_units, ("-a", "fed-sparse")),
    "cap reached": (chain, ("-a", "secure-sum", "-p", "max_parents=1")),
    "one-to-one": (twice, ()),
    "misfit": (hidden_causes, ()),
    "arithmetic": (shares, ()),
    "weights change": (changing, ("-a", "secure-linear")),
}
"""of each finding: its data, and the options of the run that reports it"""
STAYS = ("few rows", "weights change")
"""findings that the advised options do not end"""


def run(folder, out, *options):
    """The findings of a run on `folder`, from the command line: their advice by name."""
    with pytest.raises(SystemExit) as left:
        main(["learn", str(folder), "--engine", "inline", "--bootstrap", "0", "--out", str(out), *options])
    assert left.value.code == 0
    return {one["name"]: one["advice"] for one in json.loads((out / "config.json").read_text())["findings"]}


@pytest.mark.parametrize("case", CASES)
def test_advised_options_work_on_the_data_of_the_finding(case, tmp_path):
    make, options = CASES[case]
    name, folder = case.split(",")[0], tmp_path / "data"
    folder.mkdir()
    for silo, table in silos(make).items():
        table.to_csv(folder / f"{silo}.csv", index=False)
    advice = run(folder, tmp_path / "first", *options)[name]
    advised = [word for option in OPTION.findall(advice) for word in option.split()]
    assert advised, advice
    if advised[0] == "--ignore":
        assert advised[1] in ("a", "b", "twice")
    again = run(folder, tmp_path / "again", *options[: 0 if "--algorithm" in advised else None], *advised)
    assert (name in again) == (name in STAYS)
    assert again.get(name) != advice


def test_a_run_that_set_outliers_aside_is_not_told_to_do_so(monkeypatch):
    """Although the finding is raised in every run, only the first one gets the advice to set outliers aside."""
    excesses = findings.excesses
    monkeypatch.setattr(
        findings, "excesses", lambda server, rules: excesses(server, rules) | {"outliers": np.full(3, 2.0)}
    )
    tables, advice = silos(wrong_cells), {}
    for outliers in ("keep", "set-aside"):
        found = learn(tables, outliers=outliers, bootstrap=0).result.diagnosed.findings
        advice[outliers] = next(one.advice for one in found if one.name == findings.OUTLIERS)
    assert advice == {"keep": f"{findings.SET_ASIDE} {findings.LOOK}", "set-aside": findings.LOOK}
