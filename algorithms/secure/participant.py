"""A silo's side of a secure sum: an immutable state that each phase replaces (Bonawitz et al. 2017, Fig. 4).

All randomness of a silo in a session comes from the 32 bytes it is given at the start, so the functions are
deterministic: a journaled state gives the same answers again. They must be fresh from the operating system for every
session. A state keeps only what later phases need: after `mask` the private keys are gone, after `unmask` all shares
but those revealed; so a silo can neither mask a second vector nor answer for a second set of survivors.

Shamir 1979: a 32-byte secret as n points of a random polynomial, any t of which give it back.

The field is the integers modulo the smallest prime above 2²⁵⁶. Fewer than t shares are independent of the secret.

The coordinator's side: forwarding sealed shares, removing the masks from a sum (Bonawitz et al. 2017, Fig. 4).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import get_args

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ..core import wire
from ..core.schema import pluralize
from ..errors import BadInput
from . import masks
from .masks import Aborted, Phase, Refused, Ring, SecureSession, derive, seal, unseal
from .messages import PublicKeys, Revealed, public_keys, read_by_silo, read_revealed, read_vector

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33
COEFFICIENT_BYTES = 64
"""random bytes for a coefficient: twice the prime's, so that reduction leaves a bias of 2⁻²⁵⁵"""


def random_bytes(threshold: int) -> int:
    """How many random bytes `split` takes."""
    return COEFFICIENT_BYTES * (threshold - 1)


def split(secret: bytes, threshold: int, silos: int, random: bytes) -> tuple[bytes, ...]:
    """The shares of `secret` at the points 1 to `silos`; any `threshold` of them determine it.

    `random` are `random_bytes(threshold)` secret, uniform bytes. Raises `ValueError` for a secret or randomness of
    another length.
    """
    if len(secret) != SECRET_BYTES or len(random) != random_bytes(threshold):
        raise ValueError(f"sharing takes 32 secret and {random_bytes(threshold)} random bytes")
    chunks = (random[i : i + COEFFICIENT_BYTES] for i in range(0, len(random), COEFFICIENT_BYTES))
    falling = [int.from_bytes(chunk) % PRIME for chunk in chunks]
    falling.append(int.from_bytes(secret))
    return tuple(_value(falling, point).to_bytes(SHARE_BYTES) for point in range(1, silos + 1))


def combine(shares: Mapping[int, bytes]) -> bytes:
    """The secret whose shares are given by their points, exactly as many as the threshold.

    Raises `ValueError` if they are no shares of one 32-byte secret; most wrong shares only give a wrong secret.
    """
    points = tuple(sorted(shares))
    if any(len(share) != SHARE_BYTES for share in shares.values()):
        raise ValueError("a share of another length")
    values = (int.from_bytes(shares[point]) for point in points)
    secret = sum(weight * value for weight, value in zip(_weights(points), values, strict=True)) % PRIME
    if secret >= 2**256:
        raise ValueError("not the shares of one secret")
    return secret.to_bytes(SECRET_BYTES)


def _value(falling: list[int], point: int) -> int:
    # Horner; points are at most 256, so reducing once at the end is cheaper than at each of up to 256 steps.
    value = 0
    for coefficient in falling:
        value = value * point + coefficient
    return value % PRIME


@lru_cache(maxsize=256)
def _weights(points: tuple[int, ...]) -> tuple[int, ...]:
    """The weights of Lagrange interpolation at 0."""
    weights = []
    for point in points:
        above, below = 1, 1
        for other in points:
            if other != point:
                above *= other
                below *= other - point
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)


@dataclass(frozen=True)
class Participant:
    """The secret state of a silo in a session. `done` is the last phase it answered."""

    session: SecureSession
    silo: str
    done: Phase
    entropy: bytes = field(repr=False)
    """until `mask`"""
    keys: dict[str, bytes] = field(default_factory=dict)
    """what the silos advertised, this one too; until `mask`"""
    shares: dict[str, bytes] = field(default_factory=dict, repr=False)
    """by silo, its share of that silo's seed and of its mask key, one after the other; until `unmask`"""
    survivors: tuple[str, ...] = ()
    revealed: bytes = field(default=b"", repr=False)
    """the answer of `unmask` for `survivors`"""


@dataclass(frozen=True)
class _Secrets:
    cipher: X25519PrivateKey
    mask: X25519PrivateKey
    seed: bytes

    def public(self, session: SecureSession, silo: str) -> PublicKeys:
        cipher, mask = (key.public_key().public_bytes_raw() for key in (self.cipher, self.mask))
        return PublicKeys(cipher, mask, masks.commitment(self.seed, session, silo))


def expect(state: Participant, phase: Phase) -> None:
    """Raise `Refused` unless `phase` is the next one for `state`: each is answered once, in order."""
    phases = get_args(Phase)
    due = phases.index(phase) == phases.index(state.done) + 1
    _require(state, phase, due, f"it has answered {state.done}")


def advertise(session: SecureSession, silo: str, entropy: bytes) -> tuple[Participant, bytes]:
    """Begin phase 1: return the state of `silo` and its public keys. `entropy` are 32 fresh, secret bytes.

    Raises `BadInput` if the silo is not one of the session's, `ValueError` for another number of bytes.
    """
    if silo not in session.silos:
        raise BadInput(f"silo {silo} is none of this secure sum's: they are {', '.join(session.silos)}")
    if len(entropy) != 32:
        raise ValueError(f"a secure sum takes 32 bytes of entropy: there are {len(entropy)}")
    state = Participant(session, silo, "advertise", entropy)
    return state, _secrets(state).public(session, silo).pack()


def share(state: Participant, keys: Mapping[str, bytes]) -> tuple[Participant, dict[str, bytes]]:
    """Phase 2: return the sealed shares for each peer in `keys`, the public keys of all silos that advertised.

    Raises `Refused` if those are fewer than the threshold, lack or change this silo's own, or are not usable keys.
    """
    expect(state, "share")
    session, silo, secrets = state.session, state.silo, _secrets(state)
    _require_silos(state, "share", keys)
    own = secrets.public(session, silo).pack()
    _require(state, "share", keys[silo] == own, "its own keys were changed on the way")
    _require(state, "share", len(set(keys.values())) == len(keys), "two silos have the same keys")
    shares = _split(state, secrets)
    sealed = {}
    for peer in sorted(keys):
        if peer != silo:
            try:
                public = public_keys(keys[peer], peer).cipher
                sealed[peer] = seal(secrets.cipher, public, session, silo, peer, shares[peer])
            except ValueError:
                raise Refused(f"{silo} refuses to share: {peer} advertised no usable key") from None
    return replace(state, done="share", keys=dict(keys), shares={silo: shares[silo]}), sealed


def mask(state: Participant, sealed: Mapping[str, bytes], vector: Ring) -> tuple[Participant, Ring]:
    """Phase 3: return `vector` masked, given the sealed shares of every peer that answered phase 2.

    Masks are added for these peers and no others. Raises `Refused`, naming the silo, if they are fewer than the
    threshold or a share was not sealed by it, for this silo, in this session; `ValueError` if `vector` is not a vector
    of uint64.
    """
    expect(state, "mask")
    _require_silos(state, "mask", {state.silo, *sealed})
    _require(state, "mask", state.silo not in sealed, "it got its own shares")
    if vector.dtype != np.uint64 or vector.ndim != 1:
        raise ValueError(f"a secure sum takes a vector of uint64: it is {vector.dtype} {vector.shape}")
    session, silo, secrets = state.session, state.silo, _secrets(state)
    shares, masked = dict(state.shares), vector.copy()
    masks.add(masked, masks.self_key(secrets.seed, session, silo))
    for peer in sorted(sealed):
        _require(state, "mask", peer in state.keys, f"{peer} has advertised no keys")
        public = public_keys(state.keys[peer], peer)
        shares[peer] = unseal(secrets.cipher, public.cipher, session, peer, silo, sealed[peer])
        try:
            key = masks.pairwise_key(secrets.mask, public.mask, session, silo, peer)
        except ValueError:
            raise Refused(f"{silo} refuses to mask: {peer} advertised no usable key") from None
        (masks.add if masks.adds_mask(silo, peer) else masks.subtract)(masked, key)
    return replace(state, done="mask", entropy=b"", keys={}, shares=shares), masked


def unmask(state: Participant, survivors: tuple[str, ...]) -> tuple[Participant, bytes]:
    """Phase 4: return, for each silo that this one masked towards, its share of the one secret that must be undone.

    That is the self-mask's seed of the `survivors` (who answered phase 3, this one among them), and the mask key of the
    others; an encoded `Revealed`. The same question again gets the same answer. Raises `Refused` for other survivors,
    fewer than the threshold, or ones that this silo has no shares of.
    """
    if state.done == "unmask":
        _require(state, "unmask", survivors == state.survivors, "it has answered for other survivors")
        return state, state.revealed
    expect(state, "unmask")
    _require_silos(state, "unmask", survivors)
    unknown = ", ".join(sorted(set(survivors) - set(state.shares)))
    _require(state, "unmask", not unknown, f"it has no shares of {unknown}")
    revealed = wire.encode(reveal(state.shares, survivors))
    return replace(state, done="unmask", shares={}, survivors=survivors, revealed=revealed), revealed


def reveal(shares: Mapping[str, bytes], survivors: tuple[str, ...]) -> Revealed:
    """The seeds' shares of the survivors and the mask keys' shares of the others, out of both of all."""
    size = SHARE_BYTES
    return Revealed(
        self_masks={peer: shares[peer][:size] for peer in sorted(shares) if peer in survivors},
        mask_keys={peer: shares[peer][size:] for peer in sorted(shares) if peer not in survivors},
    )


def _secrets(state: Participant) -> _Secrets:
    cipher, mask_key, seed = (
        derive(state.entropy, state.session, purpose, state.silo)
        for purpose in ("cipher key", "mask key", "self mask seed")
    )
    private = X25519PrivateKey.from_private_bytes
    return _Secrets(private(cipher), private(mask_key), seed)


def _split(state: Participant, secrets: _Secrets) -> dict[str, bytes]:
    """Return, by silo, the shares of this silo's seed and mask key that it is to hold."""
    session = state.session
    halves = []
    for name, secret in (("seed", secrets.seed), ("mask key", secrets.mask.private_bytes_raw())):
        length = random_bytes(session.threshold)
        random = derive(state.entropy, session, f"shares of the {name}", state.silo, length=length)
        halves.append(split(secret, session.threshold, len(session.silos), random))
    return {silo: seed + key for silo, seed, key in zip(session.silos, *halves, strict=True)}


def _require(state: Participant, phase: Phase, holds: bool, reason: str) -> None:
    if not holds:
        raise Refused(f"{state.silo} refuses to {phase}: {reason}")


def _require_silos(state: Participant, phase: Phase, silos: Mapping[str, bytes] | set[str] | tuple[str, ...]) -> None:
    """Refuse silos that are not of the session, not enough, or without this one."""
    strangers = ", ".join(sorted(set(silos) - set(state.session.silos)))
    threshold = state.session.threshold
    _require(state, phase, not strangers, f"{strangers} is not in this session")
    left = len(set(silos))
    _require(state, phase, left >= threshold, f"{pluralize(left, 'silo')} left, the threshold is {threshold}")
    _require(state, phase, state.silo in silos, "it is not among the silos that are left")


def route(shared: Mapping[str, bytes]) -> dict[str, bytes]:
    """Turn the answers of phase 2 (by sender, for each receiver) into the questions of phase 3 (the other way round).

    Silos that did not answer take no further part. Raises `Aborted` if a silo sent no share for another.
    """
    sealed = {sender: read_by_silo(answer, sender) for sender, answer in shared.items()}
    for sender, parts in sealed.items():
        for left_out in sorted(set(sealed) - set(parts) - {sender}):
            raise Aborted(f"{sender} sent no shares for {left_out}")
    return {
        receiver: wire.encode({sender: sealed[sender][receiver] for sender in sorted(sealed) if sender != receiver})
        for receiver in sorted(sealed)
    }


def recover(
    session: SecureSession,
    keys: Mapping[str, bytes],
    shared: tuple[str, ...],
    masked: Mapping[str, bytes],
    revealed: Mapping[str, bytes],
) -> Ring:
    """The exact sum, modulo 2⁶⁴, of the vectors of the silos in `masked`.

    `keys` are the answers of phase 1, `shared` the silos that answered phase 2, `masked` and `revealed` the answers of
    phases 3 and 4. Raises `Aborted` if fewer than the threshold revealed, naming a silo whose vector has another
    length, that revealed both or neither share of another, or whose secret is not the one it advertised.
    """
    total = _add_up(masked)
    dropped = tuple(sorted(set(shared) - set(masked)))
    answers = _answers(session, tuple(sorted(masked)), dropped, revealed)
    for silo in sorted(masked):
        shares = {session.point(holder): answer.self_masks[silo] for holder, answer in answers.items()}
        seed = _combine(shares, silo)
        if masks.commitment(seed, session, silo) != public_keys(keys[silo], silo).commitment:
            raise Aborted(f"the shares of {silo} do not give the self-mask it advertised")
        masks.subtract(total, masks.self_key(seed, session, silo))
    for silo in dropped:
        shares = {session.point(holder): answer.mask_keys[silo] for holder, answer in answers.items()}
        private = X25519PrivateKey.from_private_bytes(_combine(shares, silo))
        if private.public_key().public_bytes_raw() != public_keys(keys[silo], silo).mask:
            raise Aborted(f"the shares of {silo} do not give the mask key it advertised")
        for peer in masked:
            key = masks.pairwise_key(private, public_keys(keys[peer], peer).mask, session, silo, peer)
            (masks.subtract if masks.adds_mask(peer, silo) else masks.add)(total, key)
    return total


def _add_up(masked: Mapping[str, bytes]) -> Ring:
    silos = sorted(masked)
    total = read_vector(masked[silos[0]], silos[0])
    for silo in silos[1:]:
        vector = read_vector(masked[silo], silo)
        if len(vector) != len(total):
            raise Aborted(f"{silo} sent {len(vector)} entries: {silos[0]} sent {len(total)}")
        np.add(total, vector, out=total)
    return total


def _answers(
    session: SecureSession, survivors: tuple[str, ...], dropped: tuple[str, ...], revealed: Mapping[str, bytes]
) -> dict[str, Revealed]:
    """As many answers of phase 4 as the threshold asks for, each checked for whose shares it holds."""
    if len(revealed) < session.threshold:
        raise Aborted(f"{pluralize(len(revealed), 'silo')} revealed shares: the threshold is {session.threshold}")
    answers = {silo: read_revealed(packed, silo) for silo, packed in sorted(revealed.items())}
    for silo, answer in answers.items():
        if tuple(sorted(answer.self_masks)) != survivors or tuple(sorted(answer.mask_keys)) != dropped:
            raise Aborted(f"{silo} revealed other shares than it was asked for")
    return dict(list(answers.items())[: session.threshold])


def _combine(shares: Mapping[int, bytes], silo: str) -> bytes:
    try:
        return combine(shares)
    except ValueError as error:
        raise Aborted(f"the shares of {silo} do not fit together: {error}") from None
