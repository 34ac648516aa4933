"""The phases of a secure sum: secret sharing, a silo's side, and the coordinator's side (Bonawitz et al. 2017, Fig. 4).

**Secret sharing** (Shamir 1979): a 32-byte secret becomes n points of a random polynomial, any t of which determine it.
The field is the integers modulo the smallest prime above 2²⁵⁶. Fewer than t shares are independent of the secret.

**A silo's side** is an immutable state that each phase replaces. All randomness of a silo in a session is derived from
the 32 bytes of entropy given at the start, which must be fresh from the operating system for every session. Therefore
the functions are deterministic, and a stored state gives the same answers again. The state does not include the key of
the run. It contains only what later phases need: `mask` erases the keys of the session, and `unmask` erases all shares
but keeps its answer. So a silo can neither mask a second vector nor answer for a second set of survivors.

**Dropouts**: a silo encrypts its mask keys of the session under a fresh key, sends the result (the escrow) to the
coordinator, and shares the fresh key among the silos. If it drops out, the others reveal their shares. The coordinator
can then remove its masks of this session, but of no other.

**The coordinator's side** forwards sealed shares (`route`) and removes the masks from a sum (`recover`).
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeGuard, TypeVar, get_args

import numpy as np

from ..core import wire
from ..core.schema import pluralize
from ..errors import BadInput
from . import masks
from .masks import Aborted, Phase, Refused, Ring, RunKey, SecureSession, derive, require_ring, seal, unseal

# The messages of a secure sum in its phases, and parsers whose errors name the sender.
#
# The phases are advertise, share, mask and unmask (`masks.py`).


T = TypeVar("T")
KEYS_BYTES = 96
"""the length of an advertisement without a signature"""
ZLIB = b"\x78"
"""the first byte of a compressed message; no uncompressed message of these types begins with it"""
MAX_BYTES = 1 << 22
"""maximum length of a message after decompression"""


@dataclass(frozen=True)
class PublicKeys:
    """The advertisement of a silo: its public key and two commitments, 32 bytes each.

    The commitments are hashes of the silo's fresh secrets. A secret that is combined from wrong shares does not match
    its commitment, so the error is noticed. The commitments also make the keys of two silos differ between sessions.
    """

    agreement: bytes
    """the public key of the silo in this run"""
    seed: bytes
    """the commitment to the seed of its self-mask"""
    escrow: bytes
    """the commitment to the key of its escrow"""

    def pack(self) -> bytes:
        """The encoded advertisement, 96 bytes."""
        return self.agreement + self.seed + self.escrow


@dataclass(frozen=True)
class Revealed:
    """A silo's answer in phase 4: its share of either the self-mask seed or the escrow key of each silo, never both."""

    self_masks: dict[str, bytes]
    escrow_keys: dict[str, bytes]


def public_keys(packed: bytes, silo: str) -> PublicKeys:
    """The advertisement of `silo`; raises `Aborted` if it does not have 96 bytes."""
    if len(packed) != KEYS_BYTES:
        raise Aborted(f"{silo} advertised {len(packed)} bytes of keys: they must be {KEYS_BYTES}")
    return PublicKeys(packed[:32], packed[32:64], packed[64:])


def compressed(message: Any) -> bytes:
    """The encoded and compressed `message`: the terms of a session consist mostly of similar names."""
    return zlib.compress(wire.encode(message), 1)


def _decompressed(packed: bytes) -> bytes:
    inflating = zlib.decompressobj()
    content = inflating.decompress(packed, MAX_BYTES)
    if not inflating.eof:
        raise ValueError(f"it is cut off, or longer than {MAX_BYTES} bytes")
    return content


def read(kind: type[T], packed: bytes, sender: str) -> T:
    """The message in `packed`; raises `Aborted`, naming `sender`, unless it is a message of type `kind`."""
    try:
        value = wire.decode(kind, _decompressed(packed) if packed[:1] == ZLIB else packed)
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise Aborted(f"{sender} sent an unreadable message: {error}") from None
    if not isinstance(value, kind):
        raise Aborted(f"{sender} sent a message that is not a {kind.__name__}")
    return value


@lru_cache(maxsize=4)
def read_session(packed: bytes, sender: str) -> SecureSession:
    """The session's terms in `packed`, read once for all silos of this process.

    Raises `Aborted`, naming `sender`, for any other content.
    """
    return read(SecureSession, packed, sender)


def read_by_silo(packed: bytes, sender: str) -> dict[str, bytes]:
    """The bytes by silo in `packed`; raises `Aborted`, naming `sender`, for any other content."""
    table: object = read(dict, packed, sender)
    if not _is_by_silo(table):
        raise Aborted(f"{sender} sent a message that is not bytes by silo")
    return table


def read_revealed(packed: bytes, sender: str) -> Revealed:
    """The shares revealed in `packed`; raises `Aborted`, naming `sender`, for any other content."""
    revealed = read(Revealed, packed, sender)
    if not _is_by_silo(revealed.self_masks) or not _is_by_silo(revealed.escrow_keys):
        raise Aborted(f"{sender} sent a message that is not shares by silo")
    return revealed


def read_names(packed: bytes, sender: str) -> tuple[str, ...]:
    """The names of silos in `packed`; raises `Aborted`, naming `sender`, for any other content."""
    return _read_each(str, packed, sender, "names of silos")


def read_parts(packed: bytes, sender: str) -> tuple[bytes, ...]:
    """The parts in `packed`, each bytes; raises `Aborted`, naming `sender`, for any other content."""
    return _read_each(bytes, packed, sender, "a sequence of bytes")


def _read_each(kind: type[T], packed: bytes, sender: str, what: str) -> tuple[T, ...]:
    """The values of type `kind` in `packed`; raises `Aborted` for any other content. `what` names them in errors."""
    values: tuple[Any, ...] = read(tuple, packed, sender)
    if not all(isinstance(one, kind) for one in values):
        raise Aborted(f"{sender} sent a message that is not {what}")
    return values


def read_vector(packed: bytes, sender: str) -> Ring:
    """The masked vector in `packed`; raises `Aborted`, naming `sender`, for any other content."""
    vector = read(np.ndarray, packed, sender)
    try:
        require_ring(vector)
    except ValueError as error:
        raise Aborted(f"{sender} sent {error}") from None
    return vector


def sum_of_vectors(masked: Mapping[str, bytes]) -> Ring:
    """The sum of the masked vectors of all silos, as ring elements.

    Raises `Aborted`, naming the silo, if a vector has another length or ring than the vector of the first silo by name.
    """
    silos = sorted(masked)
    total = read_vector(masked[silos[0]], silos[0])
    for silo in silos[1:]:
        vector = read_vector(masked[silo], silo)
        if (len(vector), vector.dtype) != (len(total), total.dtype):
            expected = f"{len(total)} of {total.dtype}"
            raise Aborted(f"{silo} sent {len(vector)} entries of {vector.dtype}, but {silos[0]} sent {expected}")
        np.add(total, vector, out=total)
    return total


def _is_by_silo(table: object) -> TypeGuard[dict[str, bytes]]:
    return isinstance(table, dict) and all(isinstance(k, str) and isinstance(v, bytes) for k, v in table.items())


PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33
COEFFICIENT_BYTES = 64
"""random bytes per coefficient: about twice the length of the prime, so that the bias of the reduction is 2⁻²⁵⁵"""


def random_bytes(threshold: int) -> int:
    """The number of random bytes that `split` needs."""
    return COEFFICIENT_BYTES * (threshold - 1)


def split(secret: bytes, threshold: int, silos: int, random: bytes) -> tuple[bytes, ...]:
    """The shares of `secret` at the points 1 to `silos`; any `threshold` of them determine it.

    `random` are `random_bytes(threshold)` secret, uniform bytes. Raises `ValueError` for a secret or randomness of
    another length.
    """
    if len(secret) != SECRET_BYTES or len(random) != random_bytes(threshold):
        raise ValueError(f"sharing needs 32 secret and {random_bytes(threshold)} random bytes")
    chunks = (random[i : i + COEFFICIENT_BYTES] for i in range(0, len(random), COEFFICIENT_BYTES))
    coefficients = [*(int.from_bytes(chunk) % PRIME for chunk in chunks), int.from_bytes(secret)]
    return tuple(_value(coefficients, point).to_bytes(SHARE_BYTES) for point in range(1, silos + 1))


def combine(shares: Mapping[int, bytes]) -> bytes:
    """The secret of the `shares`, which are given by point; their number must equal the threshold.

    Raises `ValueError` if the result is not a 32-byte secret. Most wrong shares do not raise, but give a wrong secret.
    """
    points = tuple(sorted(shares))
    if any(len(share) != SHARE_BYTES for share in shares.values()):
        raise ValueError(f"a share does not have {SHARE_BYTES} bytes")
    values = (int.from_bytes(shares[point]) for point in points)
    secret = sum(weight * value for weight, value in zip(_weights(points), values, strict=True)) % PRIME
    if secret >= 2**256:
        raise ValueError("not the shares of one secret")
    return secret.to_bytes(SECRET_BYTES)


def _value(coefficients: list[int], point: int) -> int:
    """The value of a polynomial modulo the prime, by Horner's scheme; `coefficients` begin with the highest degree."""
    value = 0
    for coefficient in coefficients:
        value = (value * point + coefficient) % PRIME
    return value


@lru_cache(maxsize=256)
def _weights(points: tuple[int, ...]) -> tuple[int, ...]:
    """The weights of Lagrange interpolation at 0."""
    weights = []
    for point in points:
        numerator, denominator = 1, 1
        for other in points:
            if other != point:
                numerator *= other
                denominator *= other - point
        weights.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return tuple(weights)


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
    survivors: tuple[str, ...] = ()
    revealed: bytes = field(default=b"", repr=False)
    """the answer of `unmask` for `survivors`"""


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
    and the escrow key for the other silos. The answer is an encoded `Revealed`; a repeated request gets the same
    answer. Raises `Refused` for other survivors than before, for fewer survivors than the threshold, for survivors
    without this silo or of which it has no shares, and if `unmask` is not the next phase.
    """
    if state.done == "unmask":
        _require(state, "unmask", survivors == state.survivors, "it has answered for other survivors")
        return state, state.revealed
    require_phase(state, "unmask")
    _require_silos(state, "unmask", survivors)
    unknown = ", ".join(sorted(set(survivors) - set(state.shares)))
    _require(state, "unmask", not unknown, f"it has no shares of {unknown}")
    revealed = wire.encode(reveal(state.shares, survivors))
    return replace(state, done="unmask", shares={}, survivors=survivors, revealed=revealed), revealed


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


def route(shared: Mapping[str, bytes]) -> dict[str, bytes]:
    """The requests of phase 3: for each receiver, the shares that each sender sent for it in phase 2.

    `shared` are the answers of phase 2; silos that did not answer are omitted. Raises `Aborted` if a silo sent no
    shares for another silo.
    """
    sealed = {sender: read_by_silo(answer, sender) for sender, answer in shared.items()}
    for sender, parts in sealed.items():
        for missing in sorted(set(sealed) - set(parts) - {sender}):
            raise Aborted(f"{sender} sent no shares for {missing}")
    return {
        receiver: wire.encode({sender: sealed[sender][receiver] for sender in sorted(sealed) if sender != receiver})
        for receiver in sorted(sealed)
    }


def recover(
    session: SecureSession,
    keys: Mapping[str, bytes],
    shared: Mapping[str, bytes],
    masked: Mapping[str, bytes],
    revealed: Mapping[str, bytes],
) -> Ring:
    """The exact sum of the vectors of the silos in `masked`.

    `keys`, `shared`, `masked` and `revealed` are the answers of the four phases. Raises `Aborted` if fewer silos than
    the threshold revealed shares. Also raises `Aborted`, naming the silo, if the vector of a silo has another length or
    ring, if it revealed other shares than requested, or if its secrets or its escrow do not match its advertisement.
    """
    total = sum_of_vectors(masked)
    dropped = tuple(sorted(set(shared) - set(masked)))
    answers = _answers(session, tuple(sorted(masked)), dropped, revealed)
    for silo in sorted(masked):
        shares = {session.point(holder): answer.self_masks[silo] for holder, answer in answers.items()}
        seed = _combine(shares, silo)
        if masks.commitment(seed, session, silo) != public_keys(keys[silo], silo).seed:
            raise Aborted(f"the shares of {silo} do not match its advertised self-mask")
        masks.subtract(total, masks.self_key(seed, session, silo))
    for silo in dropped:
        shares = {session.point(holder): answer.escrow_keys[silo] for holder, answer in answers.items()}
        key = _combine(shares, silo)
        if masks.commitment(key, session, silo, "escrow") != public_keys(keys[silo], silo).escrow:
            raise Aborted(f"the shares of {silo} do not match its advertised escrow key")
        pairs = _escrowed(session, silo, key, sorted(set(keys) - {silo}), shared[silo])
        for peer in masked:
            (masks.subtract if masks.adds_mask(peer, silo) else masks.add)(total, pairs[peer])
    return total


def _escrowed(session: SecureSession, silo: str, key: bytes, peers: list[str], shared: bytes) -> dict[str, bytes]:
    """The mask keys of `silo` with its `peers` in this session, from its answer of phase 2."""
    try:
        content = unseal(key, session, silo, silo, read_by_silo(shared, silo).get(silo, b""))
    except Refused:
        raise Aborted(f"{silo} sent no escrow of its mask keys") from None
    if len(content) != 32 * len(peers):
        raise Aborted(f"{silo} sent an escrow of {len(content)} bytes for {pluralize(len(peers), 'silo')}")
    return {peer: content[32 * i : 32 * i + 32] for i, peer in enumerate(peers)}


def _answers(
    session: SecureSession, survivors: tuple[str, ...], dropped: tuple[str, ...], revealed: Mapping[str, bytes]
) -> dict[str, Revealed]:
    """As many answers of phase 4 as the threshold requires; all answers must have exactly the requested shares."""
    if len(revealed) < session.threshold:
        raise Aborted(f"{pluralize(len(revealed), 'silo')} revealed shares: the threshold is {session.threshold}")
    answers = {silo: read_revealed(packed, silo) for silo, packed in sorted(revealed.items())}
    for silo, answer in answers.items():
        if tuple(sorted(answer.self_masks)) != survivors or tuple(sorted(answer.escrow_keys)) != dropped:
            raise Aborted(f"{silo} revealed other shares than requested")
    return dict(list(answers.items())[: session.threshold])


def _combine(shares: Mapping[int, bytes], silo: str) -> bytes:
    try:
        return combine(shares)
    except ValueError as error:
        raise Aborted(f"the shares of {silo} do not fit together: {error}") from None
