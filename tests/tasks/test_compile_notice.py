"""A run that compiles says so, wherever its code is compiled."""

import os
import subprocess
import sys

import pytest
from numba.core.event import Event, EventStatus, broadcast

from fedbnsl.tasks import compile_notice as module


def test_long_compiling_is_told_once(monkeypatch, capsys):
    compiled = Event("numba:compile", EventStatus.START)
    with module.compile_notice():
        broadcast(compiled)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(module, "COMPILE_SECONDS", 0.0)
    with module.compile_notice():
        broadcast(compiled)
        broadcast(compiled)
    assert capsys.readouterr().err == "compiling numerical code, once after installation: a minute or two\n"
    broadcast(compiled)
    assert capsys.readouterr().err == ""


def test_the_pause_between_two_compilations_does_not_count(monkeypatch, capsys):
    """Compilations are nested: the inner ones count once, with the outer one."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    start, end = (Event("numba:compile", status) for status in (EventStatus.START, EventStatus.END))

    def compile_for(seconds):
        broadcast(start)
        broadcast(start)
        now[0] += seconds
        broadcast(end)
        broadcast(end)

    with module.compile_notice():
        compile_for(0.9)
        now[0] += 60
        compile_for(0.9)
        assert capsys.readouterr().err == ""
        compile_for(0.3)
        assert "compiling numerical code" in capsys.readouterr().err


@pytest.mark.slow(120)
def test_a_worker_says_so_once(tmp_path):
    """Two workers compile the same; the workers of a run start with the standard error of the run."""
    (tmp_path / "data").mkdir()
    for silo in "ab":
        rows = "".join(f"{k % 7 + 0.5},{k % 7 + k % 5 + 0.5},{k % 3 - k % 5 + 0.5}\n" for k in range(60))
        (tmp_path / "data" / f"{silo}.csv").write_text(f"x,y,z\n{rows}")
    command = [
        sys.executable,
        "-m",
        "fedbnsl.flows.cli.main",
        "learn",
        "data",
        "-a",
        "fed-sparse",
        "-p",
        "rounds=3",
        "--quiet",
    ]
    program = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "FEDBNSL_HOME": str(tmp_path)}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **program}
    )
    assert done.returncode == 0, done.stderr
    assert "compiling numerical code, once after installation: a minute or two (silo a)\n" in done.stderr
    assert "(silo b)" not in done.stderr
