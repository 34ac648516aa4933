"""The silos whose keys an owner knows, and the signatures of their mask keys.

The masks of a secure sum hide a summand only if the other silos are real: a coordinator that invents silos knows
their masks. So every silo signs its mask keys, together with the session, with the private key of its certificate. A
silo refuses mask keys whose signature does not belong to a key that the silo's owner knows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure.masks import Refused, SecureSession

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec


SIGNED = b"fedbnsl mask keys\0"
"""the prefix of signed content, so that signatures for other purposes are not valid here"""


@dataclass(frozen=True)
class Members:
    """The silos whose keys an owner knows, and the owner's own certificate and key."""

    fingerprints: Mapping[str, str]
    """by silo, the SHA-256 fingerprint of the key of its certificate in hexadecimal"""
    certificate: bytes = field(repr=False, compare=False)
    """the owner's certificate in DER"""
    key: ec.EllipticCurvePrivateKey = field(repr=False, compare=False)

    @classmethod
    def read(cls, fingerprints: Mapping[str, str], certificate: bytes, key: bytes) -> Members:
        """The members, for an owner with this PEM certificate and key; raises `BadInput` if either is unusable."""
        from cryptography import x509  # imported late, here and below: runs on one machine have no certificates
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        try:
            own = x509.load_pem_x509_certificate(certificate)
            private = serialization.load_pem_private_key(key, password=None)
        except (ValueError, TypeError) as error:
            raise BadInput(f"certificate or key cannot be read ({error})") from None
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise BadInput("the key is not one created by `fedbnsl federation init`")
        return cls(dict(fingerprints), own.public_bytes(serialization.Encoding.DER), private)

    @property
    def own_fingerprint(self) -> str:
        """The fingerprint of the owner's own key."""
        from cryptography import x509

        return fingerprint_of(x509.load_der_x509_certificate(self.certificate))

    def attest(self, session: SecureSession, silo: str, keys: bytes) -> bytes:
        """`keys`, which `silo` advertises in `session`, followed by the owner's signature and certificate."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        signature = self.key.sign(_statement(session, silo, keys), ec.ECDSA(hashes.SHA256()))
        return keys + wire.encode((signature, self.certificate))

    def check(self, session: SecureSession, silo: str, peer: str, attested: bytes, size: int) -> bytes:
        """The keys of `peer`, the first `size` bytes of `attested`; raises `Refused` unless `peer` has signed them.

        The key of the signature must have the fingerprint that the owner knows for `peer`.
        """
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        keys, proof = attested[:size], attested[size:]
        try:
            signature, certificate = wire.decode(tuple[bytes, bytes], proof)
            loaded = x509.load_der_x509_certificate(certificate)
            public = loaded.public_key()
            known = fingerprint_of(loaded) == self.fingerprints.get(peer)
            if not known or not isinstance(public, ec.EllipticCurvePublicKey):
                raise Refused(f"{silo} refuses to share: it does not know the key of {peer}")
            public.verify(signature, _statement(session, peer, keys), ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError, TypeError, KeyError):
            raise Refused(f"{silo} refuses to share: the mask keys of {peer} are not signed by {peer}") from None
        return keys


def fingerprint_of(certificate: x509.Certificate) -> str:
    """The SHA-256 fingerprint of the public key of a certificate, in hexadecimal.

    A renewed certificate has the same key, so its holder is still known to the other owners.
    """
    from cryptography.hazmat.primitives import serialization

    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(certificate.public_key().public_bytes(serialization.Encoding.DER, form)).hexdigest()


def _statement(session: SecureSession, silo: str, keys: bytes) -> bytes:
    return SIGNED + wire.encode((session, silo, keys))
