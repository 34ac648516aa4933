"""The proof pages of docs/privacy/: the table of releases is that of the code, and of the ledgers of real runs."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.tasks.silo.service import SiloService

ROOT = Path(__file__).parents[1]


def script():
    """The script that writes the table."""
    found = importlib.util.spec_from_file_location("composition", ROOT / "benchmarks/composition.py")
    module = importlib.util.module_from_spec(found)
    sys.modules["composition"] = module
    found.loader.exec_module(module)
    return module


composition = script()


def folder_of(case, path):
    """A prepared folder whose public schema is that of `case`."""
    path.mkdir()
    schema = case.schema
    for number, (silo, rows) in enumerate(schema.rows.items()):
        random = np.random.default_rng(number)
        columns = [
            random.choice(schema.levels[name], rows) if name in schema.levels else random.normal(size=rows).round(4)
            for name in schema.variables
        ]
        lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
        (path / f"{silo}.csv").write_text("\n".join([",".join(schema.variables), *lines]) + "\n")
    kinds = {name: "continuous" for name in schema.variables if name not in schema.levels}
    about = {"kind": schema.kind, "levels": {name: [*levels] for name, levels in schema.levels.items()}}
    about |= {"columns": kinds} if schema.kind == "mixed" else {}
    (path / "about.json").write_text(json.dumps(about))
    return path


@pytest.mark.parametrize("case", composition.CASES, ids=lambda case: case.label.replace("`", ""))
def test_the_ledgers_of_a_run_have_the_releases_of_the_table(case, tmp_path):
    folder = folder_of(case, tmp_path / "data")
    learn(folder, algorithm=case.name, epsilon=composition.EPSILON, engine="inline", **case.params)
    planned = composition.lines(case)
    once, each = [one for one in planned if one.rounds == 1], [one for one in planned if one.rounds > 1]
    for silo in case.schema.silos:
        service = SiloService(silo, folder / f"{silo}.csv")
        charges = service.charges()
        service.close()
        if case.schema.kind == "discrete":
            (line,) = planned
            assert 1 <= len(charges) <= line.rounds
            assert (charges[0].what, charges[0].rho) == (line.what, line.rho)
            promise = case.algorithm.private.promise(case.schema)
            assert all(charge.rho <= promise.cost.rho / line.rounds for charge in charges)
            continue
        rounds = [(line.what, line.rho) for line in once]
        repeated = "; ".join(line.what for line in each)
        rounds += [(repeated, sum(line.rho for line in each))] * (each[0].rounds if each else 0)
        assert [charge.what for charge in charges] == [what for what, _ in rounds]
        assert [charge.rho for charge in charges] == pytest.approx([rho for _, rho in rounds], rel=1e-12)


def test_the_page_has_the_table_of_the_code():
    page = composition.PAGE.read_text("utf-8")
    assert composition.with_table(page) == page


def test_every_private_learner_is_in_the_table():
    assert {case.name for case in composition.CASES} == set(composition.private_learners())


@pytest.mark.parametrize("case", composition.CASES, ids=lambda case: case.label.replace("`", ""))
def test_all_rounds_of_the_table_are_within_the_promise(case):
    promised = case.algorithm.private.promise(case.schema).cost.rho
    assert 0.6 * promised < sum(line.rho * line.rounds for line in composition.lines(case)) <= promised * (1 + 1e-9)
