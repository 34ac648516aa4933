"""Agreement with DoWhy in ten frozen cases: the adjustment set, the estimate, and the interval of linear effects."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.effects.adjusted_regressions import AdjustedRegressions, Question, answers, build, start
from fedbnsl.algorithms.effects.identification import identify
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.losing import last_of
from tests.references.dowhy_effects import CASES, D, draw

FROZEN = json.loads((Path(__file__).parents[2] / "references" / "dowhy_effects.json").read_text())
NAMES = tuple(f"v{v}" for v in range(D))


@pytest.mark.parametrize("frozen", FROZEN["cases"], ids=lambda one: f"seed {one['seed']}")
def test_the_sets_and_the_effects_are_those_of_dowhy(frozen):
    dag, (x, y), tables = draw(frozen["seed"], labels=frozen["labels"])
    assert sum(np.abs(table).sum() for table in tables.values()) == pytest.approx(frozen["sum"], abs=1e-5)
    (found,) = identify(Structure(NAMES, dag.astype(float)), x, y).sets
    assert list(found.covariates) == frozen["covariates"]
    levels = {NAMES[v]: ("no", "yes") for v in (x, y)} if frozen["labels"] else {}
    kind = "mixed" if levels else "continuous"
    rows = {silo: len(table) for silo, table in tables.items()}
    schema = Schema(NAMES, rows, kind=kind, levels=levels, units=(1.0,) * D)
    asked = [Question(x, found.covariates, (0.0, 1.0))]
    last = last_of(
        build(AdjustedRegressions(masked=True)), InProcessFederation(schema, tables), start(schema, y, asked)
    )
    (effect,) = answers(last.server, asked)
    assert effect.value == pytest.approx(frozen["estimate"], abs=1e-6)
    if frozen["interval"]:
        assert effect.interval == pytest.approx(frozen["interval"], abs=1e-6)


def test_there_are_ten_cases_of_both_kinds():
    assert [{key: one[key] for key in ("seed", "labels")} for one in FROZEN["cases"]] == CASES
