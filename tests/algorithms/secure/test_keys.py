import hashlib
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure import masks
from fedbnsl.algorithms.secure.masks import PairKeys, Refused, RunKey, SecureSession, default_threshold

SESSION = SecureSession("run", 3, 1, ("a", "b", "c"), 2)
OTHERS = [
    replace(SESSION, run="ruin"),
    replace(SESSION, round=4),
    replace(SESSION, attempt=2),
    replace(SESSION, silos=("a", "b", "d")),
    replace(SESSION, threshold=3),
]


SEALING = hashlib.sha256(b"sealing").digest()


def key(name: str) -> RunKey:
    return RunKey(hashlib.sha256(name.encode()).digest())


def advertised(name: str, fresh: bytes = b"") -> bytes:
    return key(name).public + hashlib.sha256(fresh).digest() * 2


def pair(silo: str, peer: str, session: SecureSession = SESSION, own: bytes = b"", theirs: bytes = b"") -> PairKeys:
    return masks.pair_keys(key(silo), session, silo, advertised(silo, own), peer, advertised(peer, theirs))


def test_every_term_of_the_session_changes_every_key() -> None:
    keys = [masks.derive(b"secret", session, "seal", "a", "b") for session in (SESSION, *OTHERS)]
    assert len(set(keys)) == len(keys)


def test_purpose_names_and_their_order_change_the_key() -> None:
    bound = [("seal", "a", "b"), ("seal", "b", "a"), ("pairwise mask", "a", "b"), ("seal", "ab"), ("seala", "b")]
    assert len({masks.derive(b"secret", SESSION, *words) for words in bound}) == len(bound)


def test_a_key_is_hkdf_by_its_definition() -> None:
    """RFC 5869 written out with HMAC, for one block."""
    import hmac

    from fedbnsl.algorithms.core import wire

    info = wire.encode((masks.PROTOCOL, SESSION.digest, "seal", ("a", "b")))
    extracted = hmac.digest(bytes(32), b"secret", "sha256")
    assert masks.derive(b"secret", SESSION, "seal", "a", "b") == hmac.digest(extracted, info + b"\x01", "sha256")


def test_the_mask_key_of_a_pair_is_hkdf_of_their_secret_by_the_library() -> None:
    """Extracted once in a run and expanded in each session, the key is that of both steps at once."""
    private, public = (X25519PrivateKey.from_private_bytes(hashlib.sha256(name).digest()) for name in (b"a", b"b"))
    length = (1).to_bytes(4)
    info = masks.PROTOCOL.encode() + SESSION.digest + advertised("a") + advertised("b") + length + b"ab"
    expected = HKDF(SHA256(), 32, salt=None, info=info).derive(private.exchange(public.public_key()))
    assert masks.mask_key(key("a"), SESSION, "a", advertised("a"), "b", advertised("b")) == expected


def test_a_long_derivation_has_no_piece_twice() -> None:
    """HKDF gives 8160 bytes at most; shares for many silos need more, and equal pieces would be equal coefficients."""
    most = masks.MAX_DERIVED_BYTES
    long = masks.derive(b"secret", SESSION, "shares", "a", length=2 * most + 100)
    assert len(long) == 2 * most + 100
    assert len({long[begin : begin + 32] for begin in range(0, 2 * most + 96, 32)}) == 2 * 255 + 3
    assert long[:100] == masks.derive(b"secret", SESSION, "shares", "a", length=100)


def test_both_silos_get_the_same_keys_and_no_other_pair_does() -> None:
    one, other = pair("a", "b"), pair("b", "a")
    assert (one.sealing, one.unsealing, one.mask) == (other.unsealing, other.sealing, other.mask)
    assert len({one.sealing, one.unsealing, one.mask}) == 3
    third = pair("a", "c")
    assert not {one.sealing, one.unsealing, one.mask} & {third.sealing, third.unsealing, third.mask}
    assert masks.adds_mask("a", "b") != masks.adds_mask("b", "a")


@pytest.mark.parametrize("session", OTHERS)
def test_another_session_has_other_keys(session: SecureSession) -> None:
    assert not set(vars(pair("a", "b")).values()) & set(vars(pair("a", "b", session)).values())


@pytest.mark.parametrize("fresh", [{"own": b"again"}, {"theirs": b"again"}])
def test_a_session_that_is_repeated_has_other_keys(fresh: dict[str, bytes]) -> None:
    """If one of two attempts under the same terms reveals its escrow, the masks of the other must stay unknown."""
    assert not set(vars(pair("a", "b")).values()) & set(vars(pair("a", "b", **fresh)).values())


def test_a_name_that_contains_another_changes_the_keys() -> None:
    one = masks.pair_keys(key("x"), SESSION, "a", advertised("x"), "bc", advertised("y"))
    other = masks.pair_keys(key("x"), SESSION, "ab", advertised("x"), "c", advertised("y"))
    assert not set(vars(one).values()) & set(vars(other).values())


def test_a_run_agrees_once_with_each_silo(monkeypatch) -> None:
    own, made = key("a"), []
    honest = X25519PublicKey.from_public_bytes
    monkeypatch.setattr(
        masks.X25519PublicKey, "from_public_bytes", lambda public: made.append(public) or honest(public)
    )
    for session in (SESSION, *OTHERS):
        for peer in ("b", "c"):
            masks.pair_keys(own, session, "a", advertised("a"), peer, advertised(peer))
    assert made == [key("b").public, key("c").public]


def test_what_is_sealed_comes_out_for_its_receiver() -> None:
    sealed = masks.seal(SEALING, SESSION, "a", "b", b"shares")
    assert masks.unseal(SEALING, SESSION, "a", "b", sealed) == b"shares"


@given(st.integers(0, 22 * 8 - 1))
def test_any_flipped_bit_of_a_sealed_message_is_found_out(bit: int) -> None:
    sealed = bytearray(masks.seal(SEALING, SESSION, "a", "b", b"shares"))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Refused, match="b refuses the shares of a"):
        masks.unseal(SEALING, SESSION, "a", "b", bytes(sealed))


@pytest.mark.parametrize("session", OTHERS)
def test_what_was_sealed_in_another_session_is_found_out(session: SecureSession) -> None:
    sealed = masks.seal(SEALING, session, "a", "b", b"shares")
    with pytest.raises(Refused, match="b refuses the shares of a"):
        masks.unseal(SEALING, SESSION, "a", "b", sealed)


def test_what_was_sealed_the_other_way_or_by_another_is_found_out() -> None:
    for sender, receiver in (("b", "a"), ("c", "b"), ("a", "c")):
        sealed = masks.seal(SEALING, SESSION, sender, receiver, b"shares")
        with pytest.raises(Refused):
            masks.unseal(SEALING, SESSION, "a", "b", sealed)
    mirrored = masks.seal(pair("b", "a").sealing, SESSION, "a", "b", b"shares")
    with pytest.raises(Refused):
        masks.unseal(pair("b", "a").unsealing, SESSION, "a", "b", mirrored)
    with pytest.raises(Refused):
        masks.unseal(SEALING, SESSION, "a", "b", b"")


def test_a_public_key_of_low_order_is_refused() -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the library says of it
        masks.pair_keys(key("a"), SESSION, "a", advertised("a"), "b", bytes(96))


@given(st.binary(min_size=32, max_size=32), st.integers(0, 40) | st.integers(-1, 40).map(lambda n: 2 * masks.CHUNK + n))
def test_a_mask_is_the_encrypted_counter(key: bytes, length: int) -> None:
    """The counter of GCM (NIST SP 800-38D, 7.1) has the nonce, then 32 bits that start at 2; each chunk has a nonce."""
    chunk = masks.CHUNK // 8
    counter = b"".join(
        begin.to_bytes(12) + (2 + block).to_bytes(4)
        for begin in range(0, length, chunk)
        for block in range((min(chunk, length - begin) + 1) // 2)
    )
    stream = Cipher(AES256(key), ECB()).encryptor().update(counter)
    added = np.zeros(length, np.uint64)
    masks.add(added, key)
    assert added.tobytes() == stream[: 8 * length]


def test_a_mask_subtracted_undoes_a_mask_added() -> None:
    vector = np.arange(7, dtype=np.uint64)
    masks.add(vector, bytes(32))
    assert not np.array_equal(vector, np.arange(7))
    masks.subtract(vector, bytes(32))
    np.testing.assert_array_equal(vector, np.arange(7))


@pytest.mark.parametrize(("silos", "threshold"), [(2, 2), (3, 3), (4, 3), (8, 6), (10, 7), (63, 43), (64, 43)])
def test_the_default_threshold_is_more_than_two_thirds(silos: int, threshold: int) -> None:
    assert default_threshold(silos) == threshold
    SecureSession("run", 1, 1, tuple(f"{k:02}" for k in range(silos)), threshold)


@pytest.mark.parametrize(
    ("silos", "threshold", "complaint"),
    [
        (("a",), 1, "2 to 256 silos, not 1"),
        (tuple(f"{k:03}" for k in range(257)), 172, "not 257"),
        (("b", "a"), 2, "sorted: they are b, a"),
        (("a", "a"), 2, "distinct"),
        (("a", "b", "c", "d"), 2, "4 silos is 2: it must be 3 to 4"),
        (("a", "b", "c"), 1, "is 1: it must be 2 to 3"),
        (("a", "b", "c"), 4, "is 4"),
    ],
)
def test_terms_that_protect_nothing_are_refused(silos: tuple[str, ...], threshold: int, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        SecureSession("run", 1, 1, silos, threshold)
