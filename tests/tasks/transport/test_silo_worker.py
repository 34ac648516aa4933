import pytest

from fedbnsl.tasks.transport.silo_worker import REFUSED, _reason


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (ValueError(REFUSED + repr({"status": "error", "message": "here already", "time": 0.0})), "here already"),
        (ValueError(f"{REFUSED}something else"), f"{REFUSED}something else"),
        (OSError("no route to host"), "no route to host"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_why_a_silo_could_not_join_is_what_the_other_side_said(cause, said):
    error = RuntimeError("SiloWorker failed to start.")
    error.__cause__ = cause
    assert _reason(error) == said
