"""Keys that two silos agree on without the coordinator, and sealing messages (Bonawitz et al. 2017, §3.2, §3.3).

X25519, HKDF-SHA256 and AES-256-GCM. Every derived key is bound to the session, to a purpose and to the silos it is for,
so no key serves two purposes, two rounds, two attempts or two directions.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..core import wire
from .session import Refused, SecureSession

PROTOCOL = "fedbnsl secure sum 1"
# A sealing key belongs to one sender, one receiver and one session and seals one message, so no nonce is needed.
NONCE = bytes(12)
MOST_DERIVED = 255 * 32
"""bytes that HKDF-SHA256 can derive at once (RFC 5869)"""


def derive(secret: bytes, session: SecureSession, purpose: str, *silos: str, length: int = 32) -> bytes:
    """Return `length` bytes that look random to anyone who does not know `secret`.

    HKDF gives 8160 at most; more are derived piece by piece, each for its own number.
    """
    pieces = []
    for begin in range(0, length, MOST_DERIVED):
        part = (purpose, silos) if begin == 0 else (purpose, silos, begin)
        info = wire.encode((PROTOCOL, session.digest, *part))
        pieces.append(HKDF(SHA256(), min(MOST_DERIVED, length - begin), salt=None, info=info).derive(secret))
    return b"".join(pieces)


def agree(private: X25519PrivateKey, public: bytes, session: SecureSession, purpose: str, *silos: str) -> bytes:
    """Return the 32-byte key for `purpose` between the owners of `private` and `public`.

    Both sides must name `silos` in the same order. Raises `ValueError` if `public` is no usable key.
    """
    return derive(private.exchange(X25519PublicKey.from_public_bytes(public)), session, purpose, *silos)


def seal(
    private: X25519PrivateKey, public: bytes, session: SecureSession, sender: str, receiver: str, content: bytes
) -> bytes:
    """Return `content` sealed by `sender`, owner of `private`, for `receiver`, owner of `public`."""
    key = agree(private, public, session, "seal", sender, receiver)
    return AESGCM(key).encrypt(NONCE, content, _bound_to(session, sender, receiver))


def unseal(
    private: X25519PrivateKey, public: bytes, session: SecureSession, sender: str, receiver: str, sealed: bytes
) -> bytes:
    """Return what `sender`, owner of `public`, sealed for `receiver`, owner of `private`.

    Raises `Refused`, naming both, if it was changed, or meant for another receiver or session, or not sent by `sender`.
    """
    try:
        key = agree(private, public, session, "seal", sender, receiver)
        return AESGCM(key).decrypt(NONCE, sealed, _bound_to(session, sender, receiver))
    except (InvalidTag, ValueError):
        raise Refused(f"{receiver} refuses the shares of {sender}: not sealed by it for {receiver} and now") from None


def _bound_to(session: SecureSession, sender: str, receiver: str) -> bytes:
    return wire.encode((PROTOCOL, session.digest, sender, receiver))
