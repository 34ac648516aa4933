"""Work for several silos at once."""

import threading

import pytest

from fedbnsl.tasks.rounds import in_threads


def test_all_are_at_work_at_once_and_answer_by_name():
    together = threading.Barrier(12, timeout=20)
    waits = in_threads({f"silo-{k}": lambda k=k: (together.wait(), k)[1] for k in range(12)})
    assert {silo: wait() for silo, wait in waits.items()} == {f"silo-{k}": k for k in range(12)}


def test_what_one_raises_is_its_own():
    waits = in_threads({"a": lambda: 1 / 0, "b": lambda: 2})
    assert waits["b"]() == 2
    with pytest.raises(ZeroDivisionError):
        waits["a"]()


def test_threads_are_kept_for_the_next_round():
    def pools_of_a_round():
        waits = in_threads({str(k): lambda: threading.current_thread().name.rpartition("_")[0] for k in range(6)})
        return {wait() for wait in waits.values()}

    assert len(pools_of_a_round() | pools_of_a_round()) == 1
