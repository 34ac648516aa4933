"""What silos send is read, or one line names the silo at fault."""

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.statistics.rows import Numbers
from fedbnsl.tasks.silo.messages import SiloFailed
from fedbnsl.tasks.transport.federation import read_replies

FED_PC = registry.build(registry.specify("fed-pc"))
SOUND = wire.encode(Numbers(np.arange(4)))


@pytest.mark.parametrize(
    "packed", [b"", b"\xc1", b"text", wire.encode({"numbers": 3}), wire.encode(Numbers(np.zeros(4)))[:-3]]
)
def test_bytes_that_are_no_reply_name_the_silo(packed):
    with pytest.raises(SiloFailed, match="silo b: its reply cannot be read"):
        read_replies(FED_PC, {"a": SOUND, "b": packed})


@pytest.mark.parametrize("size", [0, 3, 5, 400])
def test_a_reply_of_another_length_names_the_silo(size):
    with pytest.raises(SiloFailed, match=f"silo b: its reply has {size} numbers, those of others have 4"):
        read_replies(FED_PC, {"a": SOUND, "b": wire.encode(Numbers(np.zeros(size))), "c": SOUND})


def test_sound_replies_are_read():
    assert [*read_replies(FED_PC, {"a": SOUND, "b": SOUND})] == ["a", "b"]
