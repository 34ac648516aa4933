"""A silo's side of a secure sum (Bonawitz et al. 2017, Fig. 4).

It is an immutable state that each phase replaces. All randomness of a silo in a session is derived from the 32 bytes of
entropy given at the start, which must be fresh from the operating system for every session. Therefore the functions are
deterministic, and a stored state gives the same answers again. The state does not include the key of the run. It
contains only what later phases need: `mask` erases the keys of the session, and `unmask` erases all shares. So a silo
can neither mask a second vector nor answer for a second set of survivors.

For dropouts, a silo encrypts its mask keys of the session under a fresh key, sends the result (the escrow) to the
coordinator, and shares the fresh key among the silos. If it drops out, the others reveal their shares. The coordinator
can then remove its masks of this session, but of no other (`recovery.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from ..core import wire
from ..errors import BadInput, pluralize
from . import masks
from .masks import Phase, Refused, Ring, RunKey, SecureSession, derive, seal, unseal
from .messages import PublicKeys, Revealed, public_keys
from .secret_sharing import SHARE_BYTES, random_bytes, split


@dataclass(frozen=True)
class Participant:
    """The secret state of a silo in a session. `done` is the last phase that the silo answered."""

    session: SecureSession
    silo: str
    done: Phase
    entropy: bytes = field(repr=False)
    """the 32 bytes from which all secrets of the silo are derived; erased by `mask`"""
    pairs: dict[str, bytes] = field(default_factory=dict, repr=False)
    """for each peer that advertised, the key to unseal its shares and the key of the mask with it; erased by `mask`"""
    shares: dict[str, bytes] = field(default_factory=dict, repr=False)
    """for each silo, this silo's shares of that silo's seed and escrow key, concatenated; erased by `unmask`"""


@dataclass(frozen=True)
class _Secrets:
    """The fresh secrets of a session: the seed of the self-mask, and the key under which mask keys are escrowed."""

    seed: bytes
    escrow: bytes

    def public(self, key: RunKey, session: SecureSession, silo: str) -> PublicKeys:
        seed, escrow = (
            masks.commitment(self.seed, session, silo),
            masks.commitment(self.escrow, session, silo, "escrow"),
        )
        return PublicKeys(key.public, seed, escrow)


def require_phase(state: Participant, phase: Phase) -> None:
    """Raise `Refused` unless `phase` is the next phase of `state`: each phase is answered once, in order."""
    phases = get_args(Phase)
    due = phases.index(phase) == phases.index(state.done) + 1
    _require(state, phase, due, f"the last phase that it answered is {state.done}")


def create_participant(session: SecureSession, silo: str, entropy: bytes) -> Participant:
    """The state of `silo` before its first answer; raises as `advertise` does."""
    if silo not in session.silos:
        raise BadInput(f"silo {silo} is not in this secure sum; its silos: {', '.join(session.silos)}")
    if len(entropy) != 32:
        raise ValueError(f"a secure sum needs 32 bytes of entropy, not {len(entropy)}")
    return Participant(session, silo, "advertise", entropy)


def advertise(session: SecureSession, silo: str, entropy: bytes, key: RunKey) -> tuple[Participant, bytes]:
    """Phase 1: the state of `silo` and its public keys. `entropy` must be 32 fresh, secret bytes.

    Raises `BadInput` if the silo is not in the session, and `ValueError` for another number of bytes.
    """
    state = create_participant(session, silo, entropy)
    return state, _secrets(state).public(key, session, silo).pack()


def share(state: Participant, keys: Mapping[str, bytes], key: RunKey) -> tuple[Participant, dict[str, bytes]]:
    """Phase 2: the sealed shares for each peer in `keys`, the public keys of all silos that advertised.

    The result also has this silo's escrow under its own name: its mask keys with all peers, encrypted under the escrow
    key. Raises `Refused` if `share` is not the next phase, if there are fewer keys than the threshold, if a key is of a
    silo outside the session, if this silo's own keys are missing or changed, if two silos have the same keys, or if a
    key is not usable. Raises `Aborted` for keys of another length.
    """
    require_phase(state, "share")
    session, silo, secrets = state.session, state.silo, _secrets(state)
    _require_silos(state, "share", keys)
    own = secrets.public(key, session, silo).pack()
    _require(state, "share", keys[silo] == own, "its own keys were changed on the way")
    _require(state, "share", len(set(keys.values())) == len(keys), "two silos have the same keys")
    shares, pairs = _split(state, secrets), {}
    for peer in sorted(set(keys) - {silo}):
        public_keys(keys[peer], peer)
        try:
            pairs[peer] = masks.pair_keys(key, session, silo, own, peer, keys[peer])
        except ValueError:
            raise Refused(f"{silo} refuses to share: {peer} advertised no usable key") from None
    sealed = {peer: seal(pairs[peer].sealing, session, silo, peer, shares[peer]) for peer in pairs}
    sealed[silo] = seal(secrets.escrow, session, silo, silo, b"".join(pair.mask for pair in pairs.values()))
    kept = {peer: pair.unsealing + pair.mask for peer, pair in pairs.items()}
    return replace(state, done="share", pairs=kept, shares={silo: shares[silo]}), sealed


def mask(state: Participant, sealed: Mapping[str, bytes], vector: Ring) -> tuple[Participant, Ring]:
    """Phase 3: the masked `vector`, given the sealed shares of every peer that answered phase 2.

    Masks are added only for these peers. Raises `Refused` if `mask` is not the next phase, if there are fewer silos
    than the threshold, or if a silo has not advertised keys or has not sealed its shares for this silo in this session.
    Raises `ValueError` if `vector` is not a vector of ring elements.
    """
    require_phase(state, "mask")
    _require_silos(state, "mask", {state.silo, *sealed})
    _require(state, "mask", state.silo not in sealed, "it received its own shares")
    masks.require_ring(vector)
    session, silo = state.session, state.silo
    shares, masked = dict(state.shares), vector.copy()
    masks.add(masked, masks.self_key(_secrets(state).seed, session, silo))
    for peer in sorted(sealed):
        _require(state, "mask", peer in state.pairs, f"{peer} has advertised no keys")
        unsealing, mask_key = state.pairs[peer][:32], state.pairs[peer][32:]
        shares[peer] = unseal(unsealing, session, peer, silo, sealed[peer])
        (masks.add if masks.adds_mask(silo, peer) else masks.subtract)(masked, mask_key)
    return replace(state, done="mask", entropy=b"", pairs={}, shares=shares), masked


def unmask(state: Participant, survivors: tuple[str, ...]) -> tuple[Participant, bytes]:
    """Phase 4: for each silo of phase 2, this silo's share of the one secret needed to remove its masks.

    The secret is the seed of the self-mask for the `survivors` (the silos that answered phase 3, including this silo),
    and the escrow key for the other silos. The answer is an encoded `Revealed`. Raises `Refused` for fewer survivors
    than the threshold, for survivors without this silo or of which it has no shares, and if `unmask` is not the next
    phase.
    """
    require_phase(state, "unmask")
    _require_silos(state, "unmask", survivors)
    unknown = ", ".join(sorted(set(survivors) - set(state.shares)))
    _require(state, "unmask", not unknown, f"it has no shares of {unknown}")
    return replace(state, done="unmask", shares={}), wire.encode(reveal(state.shares, survivors))


def reveal(shares: Mapping[str, bytes], survivors: tuple[str, ...]) -> Revealed:
    """The shares of the survivors' seeds and of the other silos' escrow keys, selected from `shares`."""
    size = SHARE_BYTES
    return Revealed(
        self_masks={peer: shares[peer][:size] for peer in sorted(shares) if peer in survivors},
        escrow_keys={peer: shares[peer][size:] for peer in sorted(shares) if peer not in survivors},
    )


def _secrets(state: Participant) -> _Secrets:
    purposes = ("self mask seed", "escrow key")
    return _Secrets(*(derive(state.entropy, state.session, purpose, state.silo) for purpose in purposes))


def _split(state: Participant, secrets: _Secrets) -> dict[str, bytes]:
    """By receiving silo, the shares of this silo's seed and escrow key."""
    session = state.session
    halves = []
    for name, secret in (("seed", secrets.seed), ("escrow key", secrets.escrow)):
        length = random_bytes(session.threshold)
        random = derive(state.entropy, session, f"shares of the {name}", state.silo, length=length)
        halves.append(split(secret, session.threshold, len(session.silos), random))
    return {silo: seed + key for silo, seed, key in zip(session.silos, *halves, strict=True)}


def _require(state: Participant, phase: Phase, condition: bool, reason: str) -> None:
    if not condition:
        raise Refused(f"{state.silo} refuses to {phase}: {reason}")


def _require_silos(state: Participant, phase: Phase, silos: Mapping[str, bytes] | set[str] | tuple[str, ...]) -> None:
    """Raise `Refused` if `silos` has a silo outside the session, too few silos, or not this silo."""
    unknown = ", ".join(sorted(set(silos) - set(state.session.silos)))
    threshold = state.session.threshold
    _require(state, phase, not unknown, f"{unknown} is not in this session")
    remaining = len(set(silos))
    _require(state, phase, remaining >= threshold, f"{pluralize(remaining, 'silo')} left, the threshold is {threshold}")
    _require(state, phase, state.silo in silos, "it is not among the remaining silos")
