"""The coordinator's side of a secure sum (Bonawitz et al. 2017, Fig. 4).

It forwards sealed shares (`route`) and removes the masks from a sum (`recover`). In phase 2 each silo has sent its mask
keys of the session, encrypted under a fresh key (the escrow). If a silo then drops out, the others reveal their shares
of this key. So the coordinator can open the escrow and remove the masks of this silo from this sum, but from no other.
"""

from collections.abc import Mapping

from ..core import wire
from ..errors import pluralize
from . import masks
from .masks import Aborted, Refused, Ring, SecureSession, unseal
from .messages import Revealed, public_keys, read_by_silo, read_revealed, sum_of_vectors
from .secret_sharing import combine


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
