"""A solve that fails for a reason that may pass is tried again; bad input and a lost silo are not."""

import pytest
from prefect import flow

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tasks.steps import Step


def failing(times, error):
    """A piece of work that fails so many times first, and the list of its attempts."""
    attempts = []

    def work():
        attempts.append(len(attempts) + 1)
        if len(attempts) <= times:
            raise error
        return "solved"

    return Step(work), attempts


def test_what_may_pass_is_repeated_and_what_will_not_is_not(server, monkeypatch):
    from fedbnsl.tasks import rounds

    monkeypatch.setattr(rounds, "local_solve", rounds.local_solve.with_options(retry_delay_seconds=0))
    passing, tried = failing(2, ConnectionError("the line was cut"))
    bad, tried_bad = failing(9, BadInput("s.csv: line 3: no number"))
    lost, tried_lost = failing(9, SiloLost(("s",), "gone"))

    @flow(name="retries")
    def solve():
        waits = Orchestration().solves(1)({"passing": passing, "bad": bad, "lost": lost})
        waits["passing"]()
        for silo, error in (("bad", BadInput), ("lost", SiloLost)):
            with pytest.raises(error):
                waits[silo]()

    solve()
    assert passing.result == "solved"
    assert (tried, tried_bad, tried_lost) == ([1, 2, 3], [1], [1])
