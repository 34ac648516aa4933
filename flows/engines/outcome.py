"""What came out of the body of a flow in this process, kept so that the orchestration around it cannot take it away."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from fedbnsl.flows.job.finished import Finished


@dataclass
class Outcome:
    """The run that has finished, or what its body raised; neither before the body has ended."""

    finished: Finished | None = None
    error: BaseException | None = None


_kept: ContextVar[Outcome | None] = ContextVar("kept", default=None)


@contextmanager
def outcome_kept() -> Iterator[Outcome]:
    """Yield what will hold the outcome of the flow that runs within the block."""
    outcome = Outcome()
    token = _kept.set(outcome)
    try:
        yield outcome
    finally:
        _kept.reset(token)


def kept(work: Callable[[], Finished]) -> Finished:
    """Return what `work` returns, or raise what it raises, and keep either for who asked for it."""
    outcome = _kept.get() or Outcome()
    try:
        outcome.finished = work()
    except BaseException as error:
        outcome.error = error
        raise
    return outcome.finished
