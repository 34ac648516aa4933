import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from fedbnsl.tasks.transport import silo_worker
from fedbnsl.tasks.transport.silo_worker import REGISTRATION_ERROR, _reason, run_silo_worker

REFUSAL = {"status": "error", "message": "here already", "time": 0.0}


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (ValueError(REGISTRATION_ERROR + repr(REFUSAL)), "here already"),
        (ValueError(f"{REGISTRATION_ERROR}something else"), f"{REGISTRATION_ERROR}something else"),
        (OSError("no route to host"), "no route to host"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_why_a_silo_could_not_join_is_what_the_other_side_said(cause, said):
    error = RuntimeError("SiloWorker failed to start.")
    error.__cause__ = cause
    assert _reason(error) == said


def test_why_a_silo_cannot_join_is_logged_once_after_each_connection(monkeypatch):
    """Two attempts fail alike, then it joins; it loses the coordinator, and cannot join for the same reason."""
    away, wrong = OSError("no route to host"), RuntimeError("name in use")
    attempts, log = iter([away, away, None, away, away, wrong, away, None, asyncio.CancelledError()]), []

    async def reach(address, identity, patience):
        error = next(attempts)
        if error is not None:
            raise error

    async def lost():
        pass

    @asynccontextmanager
    async def joined(*given):
        yield SimpleNamespace(address="tls://127.0.0.1:9", finished=lost)

    monkeypatch.setattr(silo_worker, "_check_reachable", reach)
    monkeypatch.setattr(silo_worker, "SiloWorker", joined)
    monkeypatch.setattr(silo_worker, "restrict_unpickling", lambda: None)
    monkeypatch.setattr(silo_worker, "RECONNECT_SECONDS", 0.0)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run_silo_worker("tls://c:1", SimpleNamespace(name="a"), None, ("127.0.0.1", 0), log.append))
    away, wrong = (f"silo a cannot join tls://c:1: {reason}" for reason in ("no route to host", "name in use"))
    both = [
        "silo a has joined tls://c:1, listening at tls://127.0.0.1:9",
        "silo a: connection to tls://c:1 lost; reconnecting",
    ]
    assert log == [away, *both, away, wrong, away, *both]
