"""What silos send is read, or one line names the silo at fault."""

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import Summand, UnusableReply, gather
from fedbnsl.tasks.transport.federation import read_replies

FED_PC = registry.build(registry.specify("fed-pc"))
SOUND = wire.encode(Summand(np.arange(4)))


@pytest.mark.parametrize(
    "packed", [b"", b"\xc1", b"text", wire.encode({"values": 3}), wire.encode(Summand(np.zeros(4)))[:-3]]
)
def test_bytes_that_are_no_reply_name_the_silo(packed):
    with pytest.raises(UnusableReply, match="silo b: its reply cannot be read"):
        read_replies(FED_PC, {"a": SOUND, "b": packed})


@pytest.mark.parametrize("size", [0, 3, 5, 400])
def test_a_reply_of_another_length_names_the_silo(size):
    with pytest.raises(UnusableReply, match=f"silo b: its reply has {size} numbers, those of others have 4"):
        gather(FED_PC, read_replies(FED_PC, {"a": SOUND, "b": wire.encode(Summand(np.zeros(size))), "c": SOUND}))


def test_sound_replies_are_read():
    assert [*read_replies(FED_PC, {"a": SOUND, "b": SOUND})] == ["a", "b"]
