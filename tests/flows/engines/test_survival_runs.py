"""Survival outcomes through Prefect and Dask: the same node as in this process, also after an interruption."""

import json
import shutil

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import declarations
from fedbnsl.data.folder.folder import read_folder, silo_files
from fedbnsl.flows.api.loading import load
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.engines.resuming import resume_settings
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.job.reading import reading_of
from fedbnsl.flows.learn import learn, learn_flow
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo.policy import Policy
from tests.flows.owners import owners_of
from tests.flows.registries import write_registry


def stop_after_the_rounds(heard):
    raise RuntimeError("the coordinator stopped")


def in_process(data, **options):
    """The result of the same run in this process."""
    settings = LearnSettings(data=str(data), bootstrap=0, seed=3, name="run", **options)
    tables = read_folder(data, reading_of(settings))
    declared = declarations(tables.about, reading_of(settings))
    return run_inline(job_inline(settings, "inline", tables), tables, (), silo_files(data), declared)


@pytest.mark.slow(60)
def test_both_engines_and_a_resumed_run_give_the_same_node(server, tmp_path):
    data = write_registry(tmp_path / "data", 600, gaps=True)
    out = tmp_path / "out"
    settings = LearnSettings(data=str(data), out=str(out), bootstrap=0, secure=True, seed=3, name="run")
    with pytest.raises(RuntimeError, match="the coordinator stopped"):
        learn_flow(RunContext((stop_after_the_rounds,)))(settings)
    resumed = learn(resume_settings(out))
    inline = in_process(data, secure=True)
    assert resumed.result.survival[0].node == inline.survival[0].node is not None
    assert load(out).result.survival == resumed.result.survival


@pytest.mark.slow
def test_complete_rows_are_those_of_the_graph_in_both_engines(server, tmp_path):
    data = write_registry(tmp_path / "data", 600, gaps=True)
    found = learn(
        LearnSettings(data=str(data), out=str(tmp_path / "run"), bootstrap=0, seed=3, missing="complete-rows")
    )
    expected = in_process(data, missing="complete-rows")
    assert found.result.survival[0].node == expected.survival[0].node is not None
    assert found.result.schema.rows == expected.schema.rows
    assert found.result.survival[0].node.rows < sum(expected.schema.rows.values())


@pytest.mark.slow
@pytest.mark.parametrize("agreed", [True, False], ids=("declared by the owners", "declared by the coordinator"))
def test_owners_answer_for_a_declared_outcome(server, tmp_path, agreed):
    data = write_registry(tmp_path / "data", 600, gaps=agreed)
    rows = {"secure": True, "missing": "complete-rows"} if agreed else {}
    expected = in_process(data, **rows).survival[0].node
    declared = json.loads((data / "about.json").read_text()) if agreed else {"kind": "mixed"}
    policies = {"west": Policy(rows=20, masked=True)} if agreed else {}
    with owners_of(silo_files(data), tmp_path / "federation", policies, declared) as owners:
        shutil.copy(data / "about.json", owners.file.parent / "about.json")
        asked = {"data": str(owners.file.parent), "federation": str(owners.file), "bootstrap": 0, **rows}
        found = learn(LearnSettings(**asked, out=str(tmp_path / "run"))).result
    np.testing.assert_allclose(
        [one.coefficient for one in found.survival[0].node.terms],
        [one.coefficient for one in expected.terms],
        atol=1e-7,
    )
    lines = [line for line in found.disclosed["west"] if line.algorithm == "survival"]
    assert lines
    assert all(line.masked and line.silos == ("north", "south", "west") for line in lines)


@pytest.mark.slow
def test_an_owner_at_level_sums_refuses_outcomes_in_one_line(server, tmp_path):
    data = write_registry(tmp_path / "data", 300)
    declared, sums = json.loads((data / "about.json").read_text()), Policy(level="sums", masked=True, silos=3)
    with owners_of(silo_files(data), tmp_path / "federation", {"west": sums}, declared) as owners:
        shutil.copy(data / "about.json", owners.file.parent / "about.json")
        asked = {"data": str(owners.file.parent), "federation": str(owners.file), "bootstrap": 0}
        with pytest.raises(BadInput, match=r"owners at level sums do not allow them: .*--ignore days,died"):
            learn(LearnSettings(**asked, out=str(tmp_path / "run")))
