"""Event sequences from end to end: both engines, masks, an interrupted run, a lost silo, and the run's files."""

import csv

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.edges import classify
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.events import events
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.engines.resuming import resume_settings
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.learn import learn, learn_flow
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.transport.federation import SiloFederation
from fedbnsl.tracking.checkpoint import load
from fedbnsl.tracking.outputs import write_outputs
from fedbnsl.tracking.pictures.delays import draw_delays, share_times
from tests.flows.commands import run
from tests.flows.engines.test_resuming import stop_at


@pytest.fixture(scope="module")
def alarms(tmp_path_factory):
    """A folder of three silos with about 1,500 events."""
    folder = tmp_path_factory.mktemp("data") / "alarms"
    write_folder(folder, events(4, 3, 1500, 12, 5))
    return folder


def finished(folder, **settings):
    data = read_folder(folder)
    return run_inline(job_inline(LearnSettings(data=str(folder), **settings), "events", data), data)


@pytest.fixture(scope="module")
def masked(alarms):
    return finished(alarms, secure=True)


def same_process(one, other):
    """Whether two results have the same graph and intensities, bit for bit."""
    ours, theirs = one.parameters.intensities, other.parameters.intensities
    same = [
        getattr(ours, name).tobytes() == getattr(theirs, name).tobytes() for name in ("base", "excitation", "events")
    ]
    return (
        all(same)
        and ours.delay == theirs.delay
        and one.structure.weights.tobytes() == other.structure.weights.tobytes()
    )


@pytest.mark.slow
def test_an_interrupted_masked_run_on_workers_ends_as_one_process_does(server, alarms, masked, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(RuntimeError, match="coordinator stopped"):
        learn_flow(RunContext((stop_at(7),)))(LearnSettings(data=str(alarms), out=str(out), secure=True))
    assert load(out / "checkpoint.bin").number == 7
    resumed = learn(resume_settings(out)).result
    assert resumed.secure
    assert resumed.outcome == masked.outcome == "converged"
    assert [row["round"] for row in resumed.rounds] == list(range(1, len(masked.rounds) + 1))
    assert same_process(resumed, masked)


def test_masks_change_no_edge_and_no_weight_beyond_their_rounding(alarms, masked):
    plain = finished(alarms)
    assert (plain.structure.adjacency == masked.structure.adjacency).all()
    np.testing.assert_allclose(plain.structure.weights, masked.structure.weights, atol=1e-6)


@pytest.mark.parametrize("number", [3, 12])
def test_a_lost_silo_ends_the_run_with_the_process_so_far(alarms, tmp_path, monkeypatch, number):
    """Its later sums would not be comparable with earlier ones. In round 3 no delay is chosen yet."""
    exchange = SiloFederation.exchange

    def losing(federation, algorithm, at, *given):
        if at >= number:
            federation.roster.lost["silo-2"] = "it stopped responding"
        return exchange(federation, algorithm, at, *given)

    monkeypatch.setattr(SiloFederation, "exchange", losing)
    lost = finished(alarms, secure=True)
    assert (lost.outcome, lost.lost) == ("silo lost", ("silo-2",))
    assert len(lost.rounds) == number - 1
    written = write_outputs(lost, tmp_path / "run")
    assert ("delays.png" in written) == (number == 12) == bool(lost.parameters.intensities.delay)
    assert "Silo lost: silo-2 stopped responding" in written["report.html"].read_text("utf-8")


def test_the_intensities_add_up_and_are_in_the_report(masked, tmp_path):
    process = masked.parameters.intensities
    excited = process.events @ process.excitation / process.events
    # At the maximum likelihood, expected and observed numbers of events agree, except for effects after a window's
    # end.
    np.testing.assert_allclose(process.background + excited, 1.0, atol=0.03)
    written = write_outputs(masked, tmp_path / "run")
    with written["intensities.csv"].open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["background_share"]) for row in rows] == pytest.approx(process.background)
    report = written["report.html"].read_text("utf-8")
    assert "Intensities and delays" in report
    edge = max(classify(masked.structure, None), key=lambda one: one.weight)
    said = f"an event {edge.source} is followed by {edge.weight:.3g} further events {edge.target} on average"
    assert said in report
    assert written["delays.png"].read_bytes().startswith(b"\x89PNG")


def test_the_picture_has_the_further_events_by_their_time(masked):
    process = masked.parameters.intensities
    axes = draw_delays(process, masked.edges).axes[0]
    curves = [line for line in axes.lines if len(line.get_xdata()) > 2]
    weights = sorted(masked.structure.weights[masked.structure.adjacency], reverse=True)
    assert len(curves) == len(weights)
    for curve, weight in zip(curves, weights, strict=True):
        further = np.interp(share_times(process), curve.get_xdata(), curve.get_ydata())
        assert further == pytest.approx([0.5 * weight, 0.95 * weight], rel=1e-3)


def test_an_epsilon_is_refused_in_one_line(alarms, capsys):
    code, _, err = run(capsys, "learn", alarms, "--epsilon", "1", "--engine", "inline")
    assert (code, err.strip()) == (2, "error: --epsilon: no learner of event sequences is private")
