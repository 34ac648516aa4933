"""A silo's side of a secure sum: an immutable state that each phase replaces (Bonawitz et al. 2017, Fig. 4).

All randomness of a silo in a session comes from the 32 bytes it is given at the start, so the functions are
deterministic: a journaled state gives the same answers again. They must be fresh from the operating system for every
session. A state keeps only what later phases need: after `mask` the private keys are gone, after `unmask` all shares
but those revealed; so a silo can neither mask a second vector nor answer for a second set of survivors.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ..core import wire
from ..core.counted import counted
from ..errors import BadInput
from . import masks, shamir
from .agreement import derive, seal, unseal
from .masks import Ring
from .messages import PublicKeys, Revealed, public_keys
from .session import Phase, Refused, SecureSession


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
        (masks.add if masks.adds(silo, peer) else masks.subtract)(masked, key)
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
    """Return the seeds' shares of the survivors and the mask keys' shares of the others, out of both of all."""
    size = shamir.SHARE_BYTES
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
        length = shamir.random_bytes(session.threshold)
        random = derive(state.entropy, session, f"shares of the {name}", state.silo, length=length)
        halves.append(shamir.split(secret, session.threshold, len(session.silos), random))
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
    _require(state, phase, left >= threshold, f"{counted(left, 'silo')} left, the threshold is {threshold}")
    _require(state, phase, state.silo in silos, "it is not among the silos that are left")
