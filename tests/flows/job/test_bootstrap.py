"""`--bootstrap` from the command line and Python: both engines, masks, time series, and after a crash."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Round, Traffic
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.data.networks.lucas import lucas
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.job.follow_up import resample_spec, with_resamples
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.terminal.summary import progress_bar
from tests.flows.commands import assert_same_files, run, stop_and_resume

WRITTEN = ("structure.csv", "averaged.csv")


def edges(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def data():
    return homogeneous(variables=6, silos=3, rows=120, seed=5)


def test_the_run_stays_what_it_is_and_its_edges_get_strengths(data):
    plain, sure = learn(data, "secure-boss"), learn(data, "secure-boss", bootstrap=30)
    assert (sure.weights == plain.weights).all().all()
    assert {key: sure.metrics[key] for key in plain.metrics if key != "seconds"} == {
        key: value for key, value in plain.metrics.items() if key != "seconds"
    }
    assert sure.metrics["bootstrap"] == 30
    assert sure.metrics["bootstrap_rounds"] == 1
    assert sure.metrics["averaged_shd"] is not None
    strengths = sure.result.confidence.strengths
    true = data.truth.adjacency | data.truth.adjacency.T
    assert strengths.strength[true].mean() > 0.9
    assert strengths.strength[~true].mean() < 0.3
    assert plain.result.confidence is None


@pytest.mark.parametrize("algorithm", ["secure-linear", "secure-boss"])
def test_a_single_empty_cell_is_resampled_like_many(algorithm):
    """A resample of half the rows has half a cell, which once counted as none: its sums were not numbers."""
    tables = {silo: rows.copy() for silo, rows in homogeneous(3, 3, 60, 1).tables.items()}
    tables["silo-1"][7, 0] = np.nan
    found = learn(tables, algorithm, bootstrap=20).result
    assert found.unresampled == ""
    assert found.confidence.strengths.structures == 20


def test_a_seed_gives_the_same_strengths_and_another_seed_others(data):
    one, again, other = (learn(data, "secure-boss", bootstrap=20, seed=seed) for seed in (1, 1, 2))
    found = [learned.result.confidence.strengths.strength for learned in (one, again, other)]
    assert (found[0] == found[1]).all()
    assert (found[0] != found[2]).any()


@pytest.mark.slow
def test_both_engines_give_the_same_strengths_masked_or_not(server, example, tmp_path, capsys):
    options = ("-a", "secure-boss", "--bootstrap", 12, "--seed", 3)
    for engine, secure in (("inline", ()), ("prefect", ()), ("prefect", ("--secure",)), ("inline", ("--secure",))):
        out = tmp_path / "-".join((engine, *secure))
        code, said, err = run(capsys, "learn", example, *options, *secure, "-v", "--engine", engine, "--out", out)
        assert code == 0, err
        assert "bootstrap: 12 resamples in 1 more exchange, " in said
        assert "strength 1.00" in said
    for name in WRITTEN:
        plain, *others = ((tmp_path / which / name).read_text() for which in ("inline", "prefect"))
        assert others == [plain]
        masked, *others = ((tmp_path / f"{which}---secure" / name).read_text() for which in ("inline", "prefect"))
        assert others == [masked]
    assert json.loads((tmp_path / "inline" / "config.json").read_text())["bootstrap"] == 12
    bytes_sent = {
        json.loads((tmp_path / which / "metrics.json").read_text())["bootstrap_bytes"]
        for which in ("inline---secure", "prefect---secure")
    }
    assert len(bytes_sent) == 1


@pytest.mark.slow
def test_a_run_resumed_among_its_resamples_gives_the_same(server, example, tmp_path, monkeypatch, capsys):
    from fedbnsl.flows.job import run as running

    words = ("learn", example, "-a", "fed-sparse", "-p", "rounds=6", "--bootstrap", 4)
    assert run(capsys, *words, "--engine", "inline", "--out", tmp_path / "whole")[0] == 0
    whole = running.confidence

    def crash(*given):
        whole(*given)
        raise RuntimeError("the coordinator stopped")

    stop_and_resume(capsys, monkeypatch, "fedbnsl.flows.job.run.confidence", words, tmp_path / "out", crash)
    assert_same_files(tmp_path / "out", tmp_path / "whole", WRITTEN)


@pytest.mark.parametrize("name", ["secure-sum", "var"])
def test_of_time_series_the_lags_that_were_chosen_are_resampled(name):
    series = dynamic(4, 3, 150, 2)
    found = learn(series, name, bootstrap=8, lags="auto")
    confidence = found.result.confidence
    assert confidence.averaged.lags == found.result.structure.lags == 1
    learned = found.result.structure.lagged != 0
    true = series.truth.lagged != 0
    assert confidence.strengths.lagged[learned & true].mean() > 0.8
    assert found.metrics["averaged_shd"] is not None


def test_labels_are_resampled_and_each_resample_searches_on_until_the_last_is_done():
    found = learn(lucas("0", 2, 300, 1), "secure-ges", bootstrap=5)
    assert found.metrics["bootstrap_rounds"] > 1
    assert found.result.confidence.averaged.kind == "cpdag"


def test_a_lost_silo_is_said(data, monkeypatch):
    from fedbnsl.algorithms.core.protocol import SiloLost
    from fedbnsl.tasks.transport.federation import SiloFederation
    from fedbnsl.tracking.report.sections import SECTIONS

    whole = SiloFederation.exchange

    def lost(self, *given):
        if self.terms.run_id.endswith("-bootstrap"):
            raise SiloLost(("silo-1",), "gone")
        return whole(self, *given)

    monkeypatch.setattr(SiloFederation, "exchange", lost)
    found = learn(data, "secure-boss", bootstrap=5)
    assert found.result.confidence is None
    assert found.metrics["bootstrap"] is None
    (line,) = next(one for one in SECTIONS if one.name == "confidence").lines(found.result)
    assert "unknown" in line


def test_the_progress_of_the_resamples_is_told(data, capsys):
    job = job_inline(LearnSettings(data="data", algorithm="secure-boss", bootstrap=7), "run", data)
    with progress_bar("run") as listener:
        run_inline(job, data, (listener,))
    assert capsys.readouterr().err.splitlines()[-1] == "exchange 1: 7 of 7 resamples done"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"algorithm": "secure-sum", "epsilon": 5.0, "bootstrap": 10}, "another private release"),
        ({"algorithm": "notears-best", "bootstrap": 10}, "^bootstrap: notears-best uses the true graph to choose"),
        ({"bootstrap": 1}, "bootstrap is 1: a single resample cannot"),
        ({"bootstrap": -2}, "bootstrap is '-2'"),
    ],
)
def test_what_cannot_be_resampled_is_refused_in_one_line(data, options, said):
    with pytest.raises(BadInput, match=said) as refused:
        learn(data, **options)
    assert "\n" not in str(refused.value)


def test_a_private_run_is_refused_before_anything_is_spent(example, tmp_path, capsys):
    folder = tmp_path / "own"
    shutil.copytree(example, folder, ignore=shutil.ignore_patterns(".fedbnsl"))
    words = ("learn", folder, "-a", "secure-sum", "--epsilon", 5, "--bootstrap", 10, "--engine", "inline")
    code, _, err = run(capsys, *words, "--out", tmp_path / "out")
    assert code == 2
    assert "--bootstrap: every resample would be another private release" in err
    assert not list(folder.glob(".fedbnsl/*.ledger"))


def test_resamples_share_the_cells_that_a_search_may_ask_for_in_an_exchange():
    spec = registry.specify("secure-boss", {"cells": 4_000_000, "most_cells": 1000})
    assert resample_spec(spec, 0, 100).settings.cells == 40_000
    assert resample_spec(spec, 0, 100_000).settings.cells == 1000
    chosen = registry.specify("secure-sum", {"lags": "auto"})
    assert resample_spec(chosen, 3, 10).settings.lags == 3
    assert resample_spec(registry.specify("secure-sum", {"lags": 2}), 3, 10).settings.lags == 2


def test_auto_has_30_resamples_by_default_where_they_are_cheap(data):
    default, none = learn(data), learn(data, bootstrap=0)
    assert default.result.confidence.strengths.structures == 30
    assert default.metrics["bootstrap"] == 30
    assert none.result.confidence is None
    assert (default.weights == none.weights).all().all()
    assert learn(data, "secure-linear").result.confidence is None


def default_resamples(data, *, schema=None, number=1, federation=None, secure=False, lags=0, **options):
    """How many resamples `auto` has by default after `number` rounds on `data`."""
    settings = LearnSettings(data="data", federation=federation, secure=secure, **options)
    job = job_inline(LearnSettings(data="data", secure=secure, **options), "run", data)
    job = replace(job, settings=settings)
    last = Round(number, None, Traffic(), "converged")
    graph = Structure(data.schema.variables, np.zeros((len(data.schema.variables),) * 2))
    if lags:
        graph = replace(graph, lagged=np.zeros((lags, *graph.weights.shape)))
    return with_resamples(job, registry.build(job.spec), last, schema or data.schema, graph).resamples


def test_resamples_that_cost_much_or_disclose_more_are_not_the_default(data):
    wide = homogeneous(variables=19, silos=3, rows=120, seed=5)
    assert default_resamples(data) == 30
    assert default_resamples(wide) == 0
    assert default_resamples(wide, bootstrap=7) == 7
    assert default_resamples(data, lags=3) == 0
    assert default_resamples(data, number=2) == 30
    assert default_resamples(data, number=3) == 0
    assert default_resamples(data, epsilon=1.0) == 0
    schema = data.schema
    assert default_resamples(data, schema=replace(schema, rows=dict.fromkeys(schema.rows, 10**9))) == 0
    assert default_resamples(data, federation="federation.toml") == 30  # The default learner's sums are masked.
    assert default_resamples(data, algorithm="fed-sparse", federation="federation.toml") == 0


def test_rows_in_passes_have_no_resamples_and_the_run_says_so(tmp_path, monkeypatch):
    """A limit of memory changes no result without a word."""
    write_folder(tmp_path / "study", homogeneous(variables=4, silos=3, rows=120, seed=5))
    monkeypatch.setattr("fedbnsl.data.folder.batches.IN_MEMORY_BYTES", 1)
    found = learn(tmp_path / "study")
    assert not found.result.bootstrap
    assert found.result.unresampled == "resamples need rows in memory, and silo 'silo-1' reads its rows in passes"
