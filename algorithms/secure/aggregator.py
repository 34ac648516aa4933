"""The coordinator's side: forwarding sealed shares, removing the masks from a sum (Bonawitz et al. 2017, Fig. 4)."""

from collections.abc import Mapping

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ..core import wire
from ..core.counted import counted
from . import masks, shamir
from .masks import Ring
from .messages import Revealed, public_keys, read_by_silo, read_revealed, read_vector
from .session import Aborted, SecureSession


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
    """Return the exact sum, modulo 2⁶⁴, of the vectors of the silos in `masked`.

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
            (masks.subtract if masks.adds(peer, silo) else masks.add)(total, key)
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
    """Return as many answers of phase 4 as the threshold asks for, each checked for whose shares it holds."""
    if len(revealed) < session.threshold:
        raise Aborted(f"{counted(len(revealed), 'silo')} revealed shares: the threshold is {session.threshold}")
    answers = {silo: read_revealed(packed, silo) for silo, packed in sorted(revealed.items())}
    for silo, answer in answers.items():
        if tuple(sorted(answer.self_masks)) != survivors or tuple(sorted(answer.mask_keys)) != dropped:
            raise Aborted(f"{silo} revealed other shares than it was asked for")
    return dict(list(answers.items())[: session.threshold])


def _combine(shares: Mapping[int, bytes], silo: str) -> bytes:
    try:
        return shamir.combine(shares)
    except ValueError as error:
        raise Aborted(f"the shares of {silo} do not fit together: {error}") from None
