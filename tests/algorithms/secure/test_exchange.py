import time
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure import masks, participant, recovery
from fedbnsl.algorithms.secure.exchange import answer, secure_sum
from fedbnsl.algorithms.secure.masks import Aborted, Refused
from fedbnsl.algorithms.secure.messages import MAX_BYTES, compressed

PHASES = ("advertise", "share", "mask", "unmask")


def who_is_left(names, silent):
    left, after = set(names), {}
    for phase in PHASES:
        left = left - silent.get(phase, set())
        after[phase] = tuple(sorted(left))
    return after


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_the_sum_is_exact_or_aborted_whoever_falls_silent_whenever(lab, data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 9), "silos")
    session = lab.session(n, data.draw(st.integers(n // 2 + 1, n), "threshold"))
    leaves = data.draw(st.lists(st.sampled_from([*PHASES, "never", "never"]), min_size=n, max_size=n), "leaves")
    silent = {phase: {s for s, when in zip(session.silos, leaves, strict=True) if when == phase} for phase in PHASES}
    left = who_is_left(session.silos, silent)
    silos = lab.silos(lab.vectors(n), silent)
    short = [phase for phase in PHASES if len(left[phase]) < session.threshold]
    if short:
        with pytest.raises(
            Aborted, match=f"in phase {short[0]}: {len(left[short[0]])} of {n} .* is {session.threshold}"
        ):
            secure_sum(session, silos)
    else:
        result = secure_sum(session, silos)
        assert result.survivors == left["mask"]
        assert result.total.tolist() == lab.exact_sum(silos.vectors, left["mask"])


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("gone", range(4))
def test_every_number_of_silos_may_leave_in_every_phase_down_to_the_threshold(lab, phase: str, gone: int) -> None:
    session = lab.session(8, 5)
    silos = lab.silos(lab.vectors(8), {phase: set(session.silos[2 : 2 + gone])})
    result = secure_sum(session, silos)
    left = session.silos if phase == "unmask" else session.silos[:2] + session.silos[2 + gone :]
    assert result.survivors == left
    assert result.total.tolist() == lab.exact_sum(silos.vectors, left)
    silos.silent = {phase: set(session.silos[:4])}
    silos.states.clear()
    with pytest.raises(Aborted, match=f"phase {phase}: 4 of 8 silos answered, the threshold is 5"):
        secure_sum(session, silos)


def test_sixty_four_silos_lose_some_in_every_phase(lab) -> None:
    session = lab.session(64)
    silent = {phase: set(session.silos[k::13]) for k, phase in enumerate(PHASES)}
    silos = lab.silos(lab.vectors(64, 100), silent)
    result = secure_sum(session, silos)
    left = who_is_left(session.silos, silent)
    assert len(left["unmask"]) == 44
    assert result.total.tolist() == lab.exact_sum(silos.vectors, left["mask"])


@given(st.integers(2, 6), st.integers(0, 1000))
@settings(deadline=None, max_examples=15)
def test_numbers_go_in_and_their_sum_comes_out(lab, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = {silo: rng.normal(size=9) * 10.0 ** rng.integers(-3, 6) for silo in lab.names(n)}
    vectors = {silo: masks.encode_fixed(value, n) for silo, value in values.items()}
    total = secure_sum(lab.session(n), lab.silos(vectors)).total
    np.testing.assert_allclose(masks.decode_fixed(total), sum(values.values()), rtol=1e-12, atol=n * 2.0**-33)


def test_bytes_are_counted_and_a_masked_entry_takes_eight(lab) -> None:
    session = lab.session(5)
    short, long = (lab.silos(lab.vectors(5, length)) for length in (0, 1000))
    without, result = secure_sum(session, short), secure_sum(session, long)
    assert result.bytes_up == sum(len(packed) for *_, packed in long.transcript)
    assert result.bytes_down == sum(len(question) for _, _, question, _ in long.transcript) == without.bytes_down
    assert result.bytes_up - without.bytes_up <= 5 * (8 * 1000 + 4)
    assert all(len(packed) <= 8 * 1000 + 16 for packed in long.said("mask").values())


def test_an_empty_vector_and_vectors_of_different_lengths(lab) -> None:
    assert len(secure_sum(lab.session(3), lab.silos(lab.vectors(3, 0))).total) == 0
    vectors = {**lab.vectors(3), "silo 01": np.zeros(3, np.uint64)}
    with pytest.raises(Aborted, match="silo 01 sent 3 entries of uint64, but silo 00 sent 20 of uint64"):
        secure_sum(lab.session(3), lab.silos(vectors))
    vectors = {**lab.vectors(3), "silo 01": np.zeros(20, np.uint16)}
    with pytest.raises(Aborted, match="silo 01 sent 20 entries of uint16, but silo 00 sent 20 of uint64"):
        secure_sum(lab.session(3), lab.silos(vectors))


def test_a_vector_that_is_refused_stops_the_silo_and_is_named(lab) -> None:
    class Overflowing(dict):
        def __getitem__(self, silo):
            return masks.encode_fixed(np.array([2.0**40]), 3, labels=["Raf→Mek"])

    with pytest.raises(BadInput, match=r"entry 0 \(Raf→Mek\) is out of range"):
        secure_sum(lab.session(3), lab.silos(Overflowing()))


def test_answers_nobody_asked_for_are_left_out(lab) -> None:
    class Talkative(lab.silos):
        def ask(self, phase, messages):
            return {**super().ask(phase, messages), "silo 03": b"late", "stranger": b"?"}

    silos = Talkative(lab.vectors(4), {"advertise": {"silo 03"}})
    silos.ask = lambda phase, messages: (lab.silos if phase == "advertise" else Talkative).ask(silos, phase, messages)
    assert secure_sum(lab.session(4), silos).survivors == ("silo 00", "silo 01", "silo 02")


def test_a_silo_answers_only_what_belongs_to_its_session(lab) -> None:
    silos = lab.silos(lab.vectors(3))
    session = lab.session(3)
    secure_sum(session, silos)
    opening, key = wire.encode(session), lab.key("silo 00")
    with pytest.raises(Refused, match="silo 00 refuses to advertise: it has keys for this session"):
        answer(silos.states["silo 00"], "advertise", opening, silo="silo 00", key=key, entropy=bytes(32))
    with pytest.raises(Refused, match="silo 00 refuses to mask: the last phase that it answered is unmask"):
        answer(silos.states["silo 00"], "mask", wire.encode({}), silo="silo 00", key=key, vector=pytest.fail)
    with pytest.raises(Refused, match="silo 00 refuses to share: it has advertised no keys"):
        answer(None, "share", b"", silo="silo 00", key=key)
    with pytest.raises(BadInput, match="silo 7 is not in this secure sum"):
        answer(None, "advertise", opening, silo="silo 7", key=key, entropy=bytes(32))
    with pytest.raises(ValueError, match="32 bytes of entropy, not 0"):
        answer(None, "advertise", opening, silo="silo 00", key=key)
    with pytest.raises(Aborted, match="the coordinator sent an unreadable message"):
        answer(None, "advertise", b"\x80", silo="silo 00", key=key, entropy=bytes(32))
    for bomb in (zlib.compress(bytes(MAX_BYTES + 1)), compressed(session)[:-5], b"\x78"):
        with pytest.raises(Aborted, match="the coordinator sent an unreadable message: it is cut off, or longer than"):
            answer(None, "advertise", bomb, silo="silo 00", key=key, entropy=bytes(32))
    state, _ = answer(
        silos.states["silo 00"],
        "advertise",
        wire.encode(lab.session(3, attempt=2)),
        silo="silo 00",
        key=key,
        entropy=bytes(32),
    )
    assert (state.done, state.session.attempt) == ("advertise", 2)


def cpu(work, times: int = 5) -> float:
    best = np.inf
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def test_forty_thousand_entries_for_sixty_four_silos_are_masked_within_fifty_milliseconds(lab) -> None:
    session, length = lab.session(64), 40_000
    own = {silo: lab.key(silo) for silo in session.silos}
    opened = {silo: participant.advertise(session, silo, silo.encode().ljust(32), key) for silo, key in own.items()}
    keys = {silo: packed for silo, (_, packed) in opened.items()}
    shared = {silo: participant.share(state, keys, own[silo]) for silo, (state, _) in opened.items()}
    sealed = {silo: parts["silo 00"] for silo, (_, parts) in shared.items() if silo != "silo 00"}
    vector = np.zeros(length, np.uint64)
    assert cpu(lambda: participant.mask(shared["silo 00"][0], sealed, vector)) <= 0.05
    assert cpu(lambda: participant.share(opened["silo 00"][0], keys, own["silo 00"])) <= 0.05


def test_the_coordinator_takes_the_masks_of_sixty_four_silos_off_in_a_second(lab) -> None:
    session = lab.session(64)
    dropped = set(session.silos[43:])
    silos = lab.silos(lab.vectors(64, 40_000), {"mask": dropped})
    secure_sum(session, silos)
    keys, shared, masked, revealed = (silos.said(phase) for phase in PHASES)
    assert cpu(lambda: recovery.recover(session, keys, shared, masked, revealed), times=2) <= 1.0
