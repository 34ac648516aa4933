"""An interrupted run is resumed from any working folder, with all its original inputs."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.flows.engines.resuming import (
    CHECKPOINT,
    STARTED,
    Interrupted,
    Pin,
    Started,
    checkpoint_listener,
    interrupted_silos,
    read_started,
    remove_checkpoint,
    resume_settings,
    resumed_from,
    write_started,
)
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tracking.checkpoint import load
from tests.flows.options.values import OTHER

PINS = {"clinic": Pin(211, "seal of clinic"), "lab": Pin(89, "seal of lab")}


def started(**options):
    settings = LearnSettings(data="study", **options).named()
    return Started(settings, "run 17", "sqlite:///tracked.db", "tracked 23", PINS)


def test_relative_paths_lead_to_the_same_files_from_elsewhere(tmp_path, monkeypatch):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home / "study", elsewhere):
        folder.mkdir(parents=True)
    (home / "federation.toml").write_text("")
    monkeypatch.chdir(home)
    write_started(Path("runs/one"), started(federation="federation.toml", out="runs/one"))
    monkeypatch.chdir(elsewhere)
    settings = resume_settings(home / "runs" / "one")
    assert settings.resume
    assert Path(settings.data) == home / "study"
    assert Path(settings.federation) == home / "federation.toml"
    assert Path(settings.out) == home / "runs" / "one"


def test_without_a_federation_none_is_made_up(tmp_path):
    write_started(tmp_path / "run", started())
    assert resume_settings(tmp_path / "run").federation is None


def test_a_run_begins_again_with_every_option_it_had(tmp_path):
    options = {name: OTHER[name] for name in set(LearnSettings.model_fields) - {"data", "resume", "out", "federation"}}
    write_started(tmp_path / "run", started(**options))
    kept = read_started(tmp_path / "run")
    assert {name: getattr(kept.settings, name) for name in options} == options
    assert (kept.run_id, kept.tracking_uri, kept.tracking_id) == ("run 17", "sqlite:///tracked.db", "tracked 23")
    assert kept.pins == PINS


@pytest.fixture
def stopped(tmp_path):
    """The folder of a run that was interrupted after its third round, without one of its silos."""
    folder = tmp_path / "run"
    write_started(folder, started())
    spec = AlgorithmSpec("fed-sparse", registry.entry("fed-sparse").config(l1=0.19))
    job = SimpleNamespace(run_id="run 17", spec=spec, settings=SimpleNamespace(seed=1723))
    schema = registry.build(spec).open_server(_schema())
    rows = ({"round": 1, "bytes_up": 101.0}, {"round": 2, "bytes_up": 103.0}, {"round": 3, "bytes_up": 107.0})
    heard = SimpleNamespace(job=job, round=SimpleNamespace(server=schema, number=3, lost=("lab",)), rows=rows)
    checkpoint_listener(folder, before=500.0)(heard)
    return folder, spec, schema, rows


def _schema():
    from fedbnsl.algorithms.core.schema import Schema

    return Schema(("a", "b", "c"), {"clinic": 211, "lab": 89})


def test_a_checkpoint_has_the_round_the_rows_and_the_time_until_then(stopped):
    folder, spec, server, rows = stopped
    kept = load(folder / CHECKPOINT)
    assert (kept.run_id, kept.seed, kept.number, kept.lost) == ("run 17", 1723, 3, ("lab",))
    resumed = resumed_from(folder)
    assert resumed.number == 3
    assert tuple(resumed.rows) == rows
    assert 500.0 < resumed.seconds < 530.0
    np.testing.assert_equal(wire.encode(resumed.server), wire.encode(server))
    assert registry.unpack(kept.spec) == spec


def test_silos_that_were_given_up_are_not_waited_for_again(stopped):
    folder, *_ = stopped
    standing = interrupted_silos(folder)
    assert standing == Interrupted(PINS, {"lab": standing.gone["lab"]})


def test_a_run_that_has_ended_leaves_nothing_to_resume(stopped):
    folder, *_ = stopped
    remove_checkpoint(folder)
    assert not {STARTED, CHECKPOINT} & {path.name for path in folder.iterdir()}
    assert resumed_from(folder) is None
