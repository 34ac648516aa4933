import pytest

from fedbnsl.tasks.transport.silo_worker import REGISTRATION_ERROR, _reason

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
