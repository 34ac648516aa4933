import numpy as np
import pytest

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.secure.exchange import secure_sum
from fedbnsl.algorithms.secure.masks import Refused
from fedbnsl.algorithms.secure.messages import Revealed
from fedbnsl.algorithms.secure.participant import Participant, advertise, mask, share, unmask

ME, PEER = "silo 00", "silo 01"
VECTOR = np.arange(5, dtype=np.uint64)


@pytest.fixture
def session(lab):
    return lab.session(5, 3)


@pytest.fixture
def advertised(lab, session):
    """States and public keys of all silos after phase 1."""
    both = {silo: advertise(session, silo, silo.encode().ljust(32), lab.key(silo)) for silo in session.silos}
    return {silo: state for silo, (state, _) in both.items()}, {silo: keys for silo, (_, keys) in both.items()}


@pytest.fixture
def shared(lab, advertised):
    """This silo's state after phase 2, and the shares sealed for it."""
    states, keys = advertised
    sealed = {silo: share(state, keys, lab.key(silo))[1] for silo, state in states.items()}
    return share(states[ME], keys, lab.key(ME))[0], {silo: parts[ME] for silo, parts in sealed.items() if silo != ME}


@pytest.fixture
def masked(shared):
    """This silo's state after phase 3."""
    return mask(*shared, VECTOR)[0]


def without(table, *silos):
    return {silo: value for silo, value in table.items() if silo not in silos}


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda keys: without(keys, "silo 01", "silo 02", "silo 03"), "2 silos left, the threshold is 3"),
        (lambda keys: without(keys, ME), "it is not among the remaining silos"),
        (lambda keys: {**keys, ME: keys[ME][:-1] + b"?"}, "its own keys were changed on the way"),
        (lambda keys: {**keys, PEER: keys["silo 02"]}, "two silos have the same keys"),
        (lambda keys: {**keys, "stranger": b"?" * 96}, "stranger is not in this session"),
        (lambda keys: {**keys, PEER: bytes(96)}, "silo 01 advertised no usable key"),
    ],
)
def test_keys_that_are_not_safe_to_share_with_are_refused(lab, advertised, edit, complaint) -> None:
    states, keys = advertised
    with pytest.raises(Refused, match=f"{ME} refuses to share: {complaint}"):
        share(states[ME], edit(keys), lab.key(ME))


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda sealed: without(sealed, "silo 01", "silo 02", "silo 03"), "2 silos left, the threshold is 3"),
        (lambda sealed: {**sealed, ME: b""}, "it received its own shares"),
        (lambda sealed: {**sealed, "stranger": b""}, "stranger is not in this session"),
    ],
)
def test_shares_that_are_not_safe_to_mask_with_are_refused(shared, edit, complaint) -> None:
    state, sealed = shared
    with pytest.raises(Refused, match=f"{ME} refuses to mask: {complaint}"):
        mask(state, edit(sealed), VECTOR)


def test_shares_of_a_silo_that_advertised_nothing_are_refused(lab, advertised, shared) -> None:
    states, keys = advertised
    state, _ = share(states[ME], without(keys, PEER), lab.key(ME))
    with pytest.raises(Refused, match="silo 01 has advertised no keys"):
        mask(state, {PEER: shared[1][PEER], **dict.fromkeys(("silo 02", "silo 03"), b"")}, VECTOR)


@pytest.mark.parametrize("vector", [np.zeros(3), np.zeros(3, np.int64), np.zeros((2, 2), np.uint64)])
def test_only_vectors_of_the_ring_are_masked(shared, vector) -> None:
    with pytest.raises(ValueError, match="must be a vector of unsigned integers"):
        mask(*shared, vector)


@pytest.mark.parametrize(
    ("survivors", "complaint"),
    [
        ((ME, PEER), "2 silos left, the threshold is 3"),
        ((ME, PEER, PEER), "2 silos left, the threshold is 3"),
        (("silo 01", "silo 02", "silo 03"), "it is not among the remaining silos"),
        ((ME, PEER, "stranger"), "stranger is not in this session"),
    ],
)
def test_survivors_that_are_not_safe_to_answer_for_are_refused(masked, survivors, complaint) -> None:
    with pytest.raises(Refused, match=f"{ME} refuses to unmask: {complaint}"):
        unmask(masked, survivors)


def test_survivors_it_has_no_shares_of_are_refused(shared) -> None:
    state, sealed = shared
    state, _ = mask(state, without(sealed, "silo 04"), VECTOR)
    with pytest.raises(Refused, match=f"{ME} refuses to unmask: it has no shares of silo 04"):
        unmask(state, (ME, PEER, "silo 04"))


def test_one_set_of_survivors_is_answered_once(masked) -> None:
    survivors = (ME, PEER, "silo 03")
    state, revealed = unmask(masked, survivors)
    assert set(wire.decode(Revealed, revealed).self_masks) == set(survivors)
    assert set(wire.decode(Revealed, revealed).escrow_keys) == {"silo 02", "silo 04"}
    for again in (survivors, masked.session.silos, (ME, PEER, "silo 02")):
        with pytest.raises(Refused, match="the last phase that it answered is unmask"):
            unmask(state, again)


def test_phases_are_answered_once_and_in_order(lab, advertised, shared, masked) -> None:
    states, keys = advertised
    state, sealed = shared
    for refused in (
        lambda: mask(states[ME], sealed, VECTOR),
        lambda: unmask(states[ME], tuple(keys)),
        lambda: share(state, keys, lab.key(ME)),
        lambda: unmask(state, tuple(keys)),
        lambda: share(masked, keys, lab.key(ME)),
        lambda: mask(masked, sealed, VECTOR),
        lambda: mask(unmask(masked, tuple(keys))[0], sealed, VECTOR),
    ):
        with pytest.raises(Refused, match="the last phase that it answered is"):
            refused()


def test_a_state_forgets_what_it_no_longer_needs(masked) -> None:
    assert (masked.entropy, masked.pairs) == (b"", {})
    done, _ = unmask(masked, masked.session.silos)
    kept = wire.encode(done)
    assert masked.shares
    assert not any(share in kept for both in masked.shares.values() for share in (both[:33], both[33:]))


def test_a_state_can_be_journaled_and_shows_no_secret_when_printed(shared, masked) -> None:
    for state in (shared[0], masked, unmask(masked, masked.session.silos)[0]):
        assert wire.decode(Participant, wire.encode(state)) == state
        for secret in (state.entropy, *state.shares.values(), *state.pairs.values()):
            assert not secret or repr(secret)[2:-1] not in repr(state)


def test_the_vector_given_stays_as_it_was(shared) -> None:
    vector = VECTOR.copy()
    vector.flags.writeable = False
    _, masked = mask(*shared, vector)
    assert not np.any(masked == VECTOR)


def test_the_same_entropy_gives_the_same_answers_in_any_order_of_the_peers(lab, advertised, shared) -> None:
    states, keys = advertised
    turned = dict(reversed(keys.items()))
    assert share(states[ME], turned, lab.key(ME))[1] == share(states[ME], keys, lab.key(ME))[1]
    state, sealed = shared
    np.testing.assert_array_equal(
        mask(state, dict(reversed(sealed.items())), VECTOR)[1], mask(state, sealed, VECTOR)[1]
    )


def test_other_entropy_gives_other_secrets_under_the_same_key(lab, session) -> None:
    one, other = (advertise(session, ME, bytes([k]) * 32, lab.key(ME))[1] for k in (1, 2))
    assert [one[i : i + 32] == other[i : i + 32] for i in (0, 32, 64)] == [True, False, False]


def test_a_secure_sum_of_two_needs_both(lab) -> None:
    result = secure_sum(lab.session(2), lab.silos(lab.vectors(2)))
    assert result.total.tolist() == lab.exact_sum(lab.vectors(2), result.survivors)
