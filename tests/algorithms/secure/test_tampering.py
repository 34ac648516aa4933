"""Messages that are changed, swapped or replayed in transit, and invalid messages from a silo."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.secure.exchange import secure_sum
from fedbnsl.algorithms.secure.masks import Aborted, Refused
from fedbnsl.algorithms.secure.messages import Revealed


def on_the_way_to(silo, edit):
    """Change the sealed shares that `silo` gets in phase 3."""

    def change(phase, to, question):
        return wire.encode(edit(wire.decode(dict, question))) if (phase, to) == ("mask", silo) else question

    return change


@given(st.integers(0, 81), st.integers(1, 255))
@settings(deadline=None, max_examples=40)
def test_a_changed_byte_of_sealed_shares_is_found_out(lab, position: int, flip: int) -> None:
    def edit(sealed):
        packed = bytearray(sealed["silo 02"])
        packed[position] ^= flip
        return {**sealed, "silo 02": bytes(packed)}

    silos = lab.silos(lab.vectors(4), change=on_the_way_to("silo 00", edit))
    with pytest.raises(Refused, match="silo 00 refuses the shares of silo 02"):
        secure_sum(lab.session(4), silos)


def test_sealed_shares_have_no_byte_that_is_not_covered(lab) -> None:
    silos = lab.silos(lab.vectors(4))
    secure_sum(lab.session(4), silos)
    answers = {silo: wire.decode(dict, packed) for silo, packed in silos.said("share").items()}
    assert {len(part) for silo, parts in answers.items() for to, part in parts.items() if to != silo} == {82}
    assert {len(parts[silo]) for silo, parts in answers.items()} == {3 * 32 + 16}


def test_shares_of_another_sender_or_for_another_receiver_are_found_out(lab) -> None:
    def swapped(sealed):
        return {**sealed, "silo 02": sealed["silo 03"], "silo 03": sealed["silo 02"]}

    with pytest.raises(Refused, match="silo 00 refuses the shares of silo 02"):
        secure_sum(lab.session(4), lab.silos(lab.vectors(4), change=on_the_way_to("silo 00", swapped)))
    silos = lab.silos(lab.vectors(4))
    secure_sum(lab.session(4), silos)
    for_silo_1 = wire.decode(dict, silos.said("share")["silo 02"])["silo 01"]
    mirrored = wire.decode(dict, silos.said("share")["silo 00"])["silo 02"]
    for foreign in (for_silo_1, mirrored):
        edit = on_the_way_to("silo 00", lambda sealed, foreign=foreign: {**sealed, "silo 02": foreign})
        with pytest.raises(Refused, match="silo 00 refuses the shares of silo 02"):
            secure_sum(lab.session(4), lab.silos(lab.vectors(4), change=edit))


@pytest.mark.parametrize("other", [{"round": 2}, {"attempt": 2}, {"threshold": 4}])
def test_shares_of_another_round_or_attempt_are_found_out(lab, other: dict[str, int]) -> None:
    """These test silos always use the same entropy, so the two differ only in their session."""
    earlier = lab.silos(lab.vectors(4))
    secure_sum(lab.session(4, **other), earlier)
    old = wire.decode(dict, earlier.said("share")["silo 02"])["silo 00"]
    edit = on_the_way_to("silo 00", lambda sealed: {**sealed, "silo 02": old})
    with pytest.raises(Refused, match="silo 00 refuses the shares of silo 02"):
        secure_sum(lab.session(4), lab.silos(lab.vectors(4), change=edit))


class Liar:
    """Passes questions on, and changes one silo's answer in one phase."""

    def __init__(self, silos, phase, silo, edit) -> None:
        self.silos, self.lie, self.edit = silos, (phase, silo), edit

    def ask(self, phase, messages):
        answers = dict(self.silos.ask(phase, messages))
        if phase == self.lie[0]:
            answers[self.lie[1]] = self.edit(answers[self.lie[1]])
        return answers


def in_revealed(edit):
    return lambda packed: wire.encode(edit(wire.decode(Revealed, packed)))


def with_wrong(table, silo):
    return {**table, silo: bytes(32) + bytes([table[silo][-1] ^ 1])}


def without_escrow(packed):
    return wire.encode({to: sealed for to, sealed in wire.decode(dict, packed).items() if to != "silo 03"})


LIES = {
    "changed keys": (
        "advertise",
        lambda keys: bytes(32) + keys[32:],
        "silo 0. refuses to share: silo 01 advertised no usable key",
    ),
    "short keys": ("advertise", lambda keys: keys[1:], "silo 01 advertised 95 bytes"),
    "no shares": ("share", lambda _: wire.encode({}), "silo 01 sent no shares for silo 00"),
    "unreadable shares": ("share", lambda _: b"\xc1", "silo 01 sent an unreadable message"),
    "shares of numbers": (
        "share",
        lambda _: wire.encode({"silo 00": 1}),
        "sent a message that is not bytes by silo",
    ),
    "floats": ("mask", lambda _: wire.encode(np.zeros(20)), "silo 01 sent an array of float64"),
    "a matrix": ("mask", lambda _: wire.encode(np.zeros((20, 1), np.uint64)), "silo 01 sent an array"),
    "no array": ("mask", lambda _: wire.encode("text"), "silo 01 sent an unreadable message: the bytes are not"),
    "a wrong share of a self-mask": (
        "unmask",
        in_revealed(lambda r: Revealed(with_wrong(r.self_masks, "silo 02"), r.escrow_keys)),
        "shares of silo 02 do not match its advertised self-mask",
    ),
    "a wrong share of an escrow key": (
        "unmask",
        in_revealed(lambda r: Revealed(r.self_masks, with_wrong(r.escrow_keys, "silo 03"))),
        "shares of silo 03 do not match its advertised escrow key",
    ),
    "a share too short": (
        "unmask",
        in_revealed(lambda r: Revealed({**r.self_masks, "silo 02": b""}, r.escrow_keys)),
        "shares of silo 02 do not fit together",
    ),
    "both shares": (
        "unmask",
        in_revealed(lambda r: Revealed(r.self_masks, {**r.escrow_keys, "silo 00": bytes(33)})),
        "silo 01 revealed other shares",
    ),
    "too few shares": ("unmask", in_revealed(lambda r: Revealed(r.self_masks, {})), "silo 01 revealed other shares"),
    "numbers for shares": (
        "unmask",
        lambda _: wire.encode(Revealed(1, 2)),
        "silo 01 sent an unreadable message: the bytes are not",
    ),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(
    "edit",
    [
        without_escrow,
        lambda packed: wire.encode(wire.decode(dict, packed) | {"silo 03": bytes(4 * 32 + 16)}),
    ],
)
def test_an_escrow_that_does_not_open_aborts_where_it_is_needed(lab, edit) -> None:
    with pytest.raises(Aborted, match="silo 03 sent no escrow of its mask keys"):
        secure_sum(lab.session(5, 3), Liar(lab.silos(lab.vectors(5), {"mask": {"silo 03"}}), "share", "silo 03", edit))
    silos = lab.silos(lab.vectors(5))
    result = secure_sum(lab.session(5, 3), Liar(silos, "share", "silo 03", edit))
    assert result.total.tolist() == lab.exact_sum(silos.vectors, result.survivors)


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_that_is_not_what_it_should_be_aborts_and_names_the_silo(lab, lie: str) -> None:
    phase, edit, complaint = LIES[lie]
    silos = lab.silos(lab.vectors(5), {"mask": {"silo 03"}})
    with pytest.raises(Aborted, match=complaint) as aborted:
        secure_sum(lab.session(5, 3), Liar(silos, phase, "silo 01", edit))
    assert "\n" not in str(aborted.value)
