"""Secure sums of many silos: each silo shares masks with only some other silos, and all silos of a session must answer.

**Graph** (Bell et al. 2020, CCS: pairwise masks along the edges of a Harary graph, not of a complete graph). The silos
of a session are on a circle in the order of their names. Each silo shares masks with the k nearest silos, k/2 on either
side, where k is the session's threshold. The graph is k-connected (Harary 1962): it stays connected if any k − 1 silos
are removed. So if fewer than k silos collude, the masks of the other silos cancel only in the sum over all other silos,
and in no other combination. This holds for every coalition, so the order of the silos need not be random.

**No dropouts within a session**: a silo masks with all its k neighbours or not at all. It reveals the seed of its
self-mask only for the sum over all silos of the session. There are no secret shares and no escrow. If a silo stops
responding, the coordinator starts a new session of the other silos. The new session has new mask keys and seeds, but
the silos keep their keys of the run. The phases are `advertise`, `mask`, `unmask`.

The state of a silo is a `Participant`, whose `shares` have only the seed of the silo's own self-mask.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from ..core import wire
from . import masks
from .masks import MAX_SILOS, Aborted, Refused, Ring, RunKey, SecureSession
from .messages import read_by_silo, read_parts, sum_of_vectors
from .participant import Participant, create_participant

COMMITMENT_BYTES = 16
"""the length of a commitment in bytes: half of the length in a full mesh. Half suffices, because a silo that changes
its seed damages only the sum, and it can also damage the sum with its summand. Two sessions have the same keys with a
probability of 2⁻¹²⁸"""
ADVERTISED_BYTES = 32 + COMMITMENT_BYTES
"""the length of an advertisement without a signature: the public key of the run, and a commitment to the self-mask"""


class SumLost(Aborted):
    """A silo stopped responding while others revealed their seeds, so the round has no sum.

    A silo reveals its seed for only one sum of a round, so the round cannot be repeated with other silos.
    """


def neighbours(session: SecureSession, silo: str) -> tuple[str, ...]:
    """The silos with which `silo` shares masks, sorted."""
    return _neighbours(session.silos, session.threshold, silo)


@lru_cache(maxsize=MAX_SILOS)
def _neighbours(silos: tuple[str, ...], threshold: int, silo: str) -> tuple[str, ...]:
    n, place = len(silos), silos.index(silo)
    near = range(1, threshold // 2 + 1)
    return tuple(sorted({silos[(place + sign * step) % n] for step in near for sign in (1, -1)}))


def pack_keys(session: SecureSession, silo: str, keys: Mapping[str, bytes]) -> bytes:
    """The message of phase 2 for `silo`: the advertisements in `keys` of its `neighbours`, sorted by name."""
    return wire.encode(tuple(keys[peer] for peer in neighbours(session, silo)))


def read_keys(session: SecureSession, silo: str, packed: bytes, sender: str) -> dict[str, bytes]:
    """The advertisements by neighbour in `packed`.

    Raises `Aborted`, naming `sender`, for any other content, and `Refused` for another number of advertisements.
    """
    parts, peers = read_parts(packed, sender), neighbours(session, silo)
    if len(parts) != len(peers):
        raise Refused(f"{silo} refuses to mask: it needs the keys of its {len(peers)} neighbours and no others")
    return dict(zip(peers, parts, strict=True))


def advertise(session: SecureSession, silo: str, entropy: bytes, key: RunKey) -> tuple[Participant, bytes]:
    """Phase 1: the state of `silo`, and its public key with a commitment; `entropy` must be 32 fresh, secret bytes.

    Raises `BadInput` if the silo is not in the session, and `ValueError` for another number of bytes.
    """
    state = create_participant(session, silo, entropy)
    return state, _advertised(state, key)


def mask(state: Participant, keys: Mapping[str, bytes], vector: Ring, key: RunKey) -> tuple[Participant, Ring]:
    """Phase 2: the masked `vector`, given the advertisements of all neighbours (`read_keys`).

    Raises `Refused` if advertisements are equal or have another length, if a key is not usable, or if `mask` is not the
    next phase. Raises `ValueError` if `vector` is not a vector of ring elements.
    """
    session, silo = state.session, state.silo
    require_phase(state, "mask", "advertise")
    own = _advertised(state, key)
    packed = {own, *keys.values()}
    if len(packed) <= len(keys) or any(len(one) != ADVERTISED_BYTES for one in packed):
        raise Refused(f"{silo} refuses to mask: two silos have the same keys, or keys of another length")
    masks.require_ring(vector)
    masked, seed = vector.copy(), _seed(state)
    masks.add(masked, masks.self_key(seed, session, silo))
    for peer, theirs in keys.items():
        try:
            shared = masks.mask_key(key, session, silo, own, peer, theirs)
        except ValueError:
            raise Refused(f"{silo} refuses to mask: {peer} advertised no usable key") from None
        (masks.add if masks.adds_mask(silo, peer) else masks.subtract)(masked, shared)
    return replace(state, done="mask", entropy=b"", shares={silo: seed}), masked


def unmask(state: Participant, survivors: tuple[str, ...]) -> tuple[Participant, bytes]:
    """Phase 3: the seed of this silo's self-mask, for the sum over all silos of the session.

    Raises `Refused` for the sum over any other silos, or if `unmask` is not the next phase.
    """
    if survivors != state.session.silos:
        raise Refused(f"{state.silo} refuses to unmask: it has masked for the sum over all silos of this session")
    require_phase(state, "unmask", "mask")
    return replace(state, done="unmask", shares={}), wire.encode({state.silo: state.shares[state.silo]})


def require_phase(state: Participant, phase: str, before: str) -> None:
    """Raise `Refused` unless `before` is the last answered phase: each phase is answered once, in order."""
    if state.done != before:
        raise Refused(f"{state.silo} refuses to {phase}: the last phase that it answered is {state.done}")


def recover(
    session: SecureSession, keys: Mapping[str, bytes], masked: Mapping[str, bytes], revealed: Mapping[str, bytes]
) -> Ring:
    """The exact sum of the vectors of all silos, from their answers of the three phases.

    Raises `Aborted`, naming the silo, if the vector of a silo has another length or ring, or if its seed does not match
    its advertisement.
    """
    total = sum_of_vectors(masked)
    for silo in session.silos:
        seed = read_by_silo(revealed[silo], silo).get(silo, b"")
        if len(seed) != 32 or _commitment(seed, session, silo) != keys[silo][32:ADVERTISED_BYTES]:
            raise Aborted(f"the seed of {silo} does not match its advertised self-mask")
        masks.subtract(total, masks.self_key(seed, session, silo))
    return total


def _seed(state: Participant) -> bytes:
    return masks.derive(state.entropy, state.session, "self mask seed", state.silo)


def _advertised(state: Participant, key: RunKey) -> bytes:
    return key.public + _commitment(_seed(state), state.session, state.silo)


def _commitment(seed: bytes, session: SecureSession, silo: str) -> bytes:
    return masks.commitment(seed, session, silo)[:COMMITMENT_BYTES]
