"""The outcome of a call to a silo whose worker or scheduler has gone."""

import asyncio
import time
from threading import Event

import pytest
from distributed import KilledWorker
from distributed.client import FutureCancelledError

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.tasks.transport.cluster import DaskAnswer
from fedbnsl.tasks.transport.federation import PackedAnswer


class Gone:
    """A future whose call was lost."""

    def __init__(self, error):
        self._error = error

    def result(self, timeout):
        raise self._error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KilledWorker("solve", None, 3), "died repeatedly"),
        (FutureCancelledError("solve", "scheduler-connection-lost"), "connection to the workers"),
        (asyncio.CancelledError(), "connection to the workers"),
    ],
)
def test_the_silo_is_lost(error, reason):
    with pytest.raises(SiloLost, match=reason) as lost:
        PackedAnswer("s", "solve", DaskAnswer(Gone(error), ended())).result(1.0)
    assert lost.value.silos == ("s",)


def ended():
    event = Event()
    event.set()
    return event


class Slow:
    """A future whose answer takes a while to transfer, each time that it is asked for."""

    def __init__(self, seconds):
        self.seconds, self.transfers = seconds, 0

    def result(self, timeout):
        self.transfers += 1
        time.sleep(min(self.seconds, timeout))
        if timeout < self.seconds:
            raise TimeoutError
        return b"answer"


def test_an_answer_is_transferred_once_even_if_that_takes_longer_than_one_wait():
    future, event = Slow(0.2), Event()
    answer = DaskAnswer(future, event)
    with pytest.raises(TimeoutError):
        answer.result(0.05)
    event.set()
    assert answer.result(0.05) == b"answer"
    assert future.transfers == 1
