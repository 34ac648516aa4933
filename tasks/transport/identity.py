"""Who a process of a federation is, and whom it trusts: what mutual TLS needs on either side."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput

COORDINATOR = "coordinator"
"""the holder of a coordinator's certificate; no silo may have this name"""


@dataclass(frozen=True)
class Identity:
    """The files of one party: its certificate, its key, and the certificates of the authorities it trusts."""

    certificate: Path
    key: Path
    trusted: Path

    def security(self) -> Any:
        """Return the `Security` that Dask takes: only TLS, with a certificate demanded of both sides.

        Raises `BadInput` for files that are missing or do not belong together.
        """
        from distributed import Security

        self.check()
        mine = {"cert": str(self.certificate), "key": str(self.key)}
        roles = {
            f"tls_{role}_{part}": path for role in ("scheduler", "worker", "client") for part, path in mine.items()
        }
        return Security(tls_ca_file=str(self.trusted), require_encryption=True, **roles)

    def check(self) -> None:
        """Raise `BadInput` for a file that is missing or unusable, or a key that others may read."""
        for path in (self.certificate, self.key, self.trusted):
            if not path.is_file():
                raise BadInput(f"{path}: there is no such file; `fedbnsl federation init` makes certificates")
        if self.key.stat().st_mode & 0o077:
            raise BadInput(f"{self.key}: others than its owner may read this key; chmod 600 forbids it")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(self.trusted)
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise BadInput(
                f"{self.certificate}: certificate, key and trusted certificates do not fit ({error})"
            ) from None

    def holder(self) -> str:
        """Return the name that the certificate was issued for; raises `BadInput` if it cannot be read."""
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        try:
            read = x509.load_pem_x509_certificate(self.certificate.read_bytes())
            return str(read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
        except (OSError, ValueError, IndexError):
            raise BadInput(f"{self.certificate}: not a certificate that names its holder") from None


def peer_of(comm: Any) -> str | None:
    """Return the holder of the certificate with which the other side of a Dask `comm` has proved itself, if any."""
    certificate = comm.extra_info.get("peercert") or {}
    names = dict(pair for entry in certificate.get("subject", ()) for pair in entry)
    return names.get("commonName")
