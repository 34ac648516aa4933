"""The outcome of a call to a silo whose worker or scheduler has gone."""

import asyncio

import pytest
from distributed import KilledWorker
from distributed.client import FutureCancelledError

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.tasks.transport.cluster import DaskAnswer


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
        DaskAnswer("s", Gone(error)).result(1.0)
    assert lost.value.silos == ("s",)
