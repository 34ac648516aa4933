"""Survival outcomes through Prefect and Dask: the same node as in this process, also after an interruption."""

import pytest

from fedbnsl.data.folder.about import declarations
from fedbnsl.data.folder.folder import read_folder, silo_files
from fedbnsl.flows.api.loading import load
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.engines.resuming import resume_settings
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.job.reading import reading_of
from fedbnsl.flows.learn import learn, learn_flow
from fedbnsl.flows.options.learn import LearnSettings
from tests.flows.registries import write_registry


def stop_after_the_rounds(heard):
    raise RuntimeError("the coordinator stopped")


@pytest.mark.slow(60)
def test_both_engines_and_a_resumed_run_give_the_same_node(server, tmp_path):
    data = write_registry(tmp_path / "data", 600, gaps=True)
    out = tmp_path / "out"
    settings = LearnSettings(data=str(data), out=str(out), bootstrap=0, secure=True, seed=3, name="run")
    with pytest.raises(RuntimeError, match="the coordinator stopped"):
        learn_flow(RunContext((stop_after_the_rounds,)))(settings)
    resumed = learn(resume_settings(out))
    tables = read_folder(data)
    files, declared = silo_files(data), declarations(tables.about, reading_of(settings))
    inline = run_inline(job_inline(settings, "inline", tables), tables, (), files, declared)
    assert resumed.result.survival[0].node == inline.survival[0].node is not None
    assert load(out).result.survival == resumed.result.survival
