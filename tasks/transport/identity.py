"""Identities in a federation: certificates for mutual TLS, the authorities that issue them, and network addresses.

There are two small certificate authorities, one for coordinators and one for silos. Silos trust only the coordinators'
authority, a coordinator trusts both. So a silo's certificate gives access to a coordinator but not to other silos, and
cannot impersonate a coordinator. The subject of a certificate names its holder, and a coordinator accepts a silo only
under that name. Keys are on the curve P-256.
"""

import datetime
import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedbnsl.algorithms.errors import BadInput

COORDINATOR = "coordinator"
"""the holder of a coordinator's certificate; no silo may have this name"""


@dataclass(frozen=True)
class Identity:
    """The files of one party: its certificate, its key, and the certificates of trusted authorities."""

    certificate: Path
    key: Path
    trusted: Path

    def _own_authority(self) -> str:
        """The trusted authority that issued this certificate, in PEM; empty if there is none, as for a silo.

        A coordinator also trusts the silos' authority, because it must accept silos.
        """
        own = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        authorities = x509.load_pem_x509_certificates(self.trusted.read_bytes())
        return b"".join(pem(one) for one in authorities if _issued(one, own)).decode()

    def client_context(self) -> ssl.SSLContext:
        """TLS for a client of the relay, which trusts only the coordinators' authority; raises `BadInput` as `check`.

        This is the only authority that a silo trusts, and the one that issued a coordinator's own certificate.
        """
        self.check()
        coordinator = self.holder() == COORDINATOR
        return self._context(
            ssl.PROTOCOL_TLS_CLIENT, self._own_authority() if coordinator else self.trusted.read_text()
        )

    def server_context(self) -> ssl.SSLContext:
        """TLS for the relay, which requires a certificate of a trusted authority; raises `BadInput` as `check`."""
        self.check()
        return self._context(ssl.PROTOCOL_TLS_SERVER, self.trusted.read_text())

    def _context(self, protocol: int, authorities: str) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # a certificate is valid at any address of its holder
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=authorities)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def is_coordinator(self, certificate: bytes) -> bool:
        """Whether `certificate` (DER) is a coordinator's, from the same authority as this coordinator's own."""
        peer = x509.load_der_x509_certificate(certificate)
        authorities = x509.load_pem_x509_certificates(self._own_authority().encode())
        return _common_name(peer) == COORDINATOR and any(_issued(one, peer) for one in authorities)

    def check(self) -> None:
        """Raise `BadInput` for a missing or unusable file, and for a key that other users may read."""
        for path in (self.certificate, self.key, self.trusted):
            if not path.is_file():
                raise BadInput(f"{path}: no such file; create certificates with `fedbnsl federation init`")
        if self.key.stat().st_mode & 0o077:
            raise BadInput(f"{self.key}: this key is readable by other users; restrict it with chmod 600")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(self.trusted)
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise BadInput(
                f"{self.certificate}: certificate, key and trusted certificates do not match ({error})"
            ) from None

    def fingerprint(self) -> str:
        """The SHA-256 fingerprint of the certificate, in hexadecimal."""
        return certificate_fingerprint(self.certificate)

    def holder(self) -> str:
        """The name of the certificate's holder; raises `BadInput` if it cannot be read."""
        try:
            return _common_name(x509.load_pem_x509_certificate(self.certificate.read_bytes()))
        except (OSError, ValueError):
            raise BadInput(f"{self.certificate}: not a certificate with the name of its holder") from None


def _issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    """Whether `authority` has signed `certificate`."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def holder_of(certificate: bytes) -> str:
    """The holder of a `certificate` in DER; raises `ValueError` if it has no name."""
    return _common_name(x509.load_der_x509_certificate(certificate))


def _common_name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names:
        raise ValueError("a certificate without the name of its holder")
    return str(names[0].value)


def certificate_fingerprint(file: Path) -> str:
    """The SHA-256 fingerprint of the certificate in `file`, in hexadecimal; raises `BadInput` for other content."""
    try:
        return x509.load_pem_x509_certificate(file.read_bytes()).fingerprint(hashes.SHA256()).hex()
    except (OSError, ValueError):
        raise BadInput(f"{file}: not a certificate") from None


VALIDITY_YEARS, AUTHORITY_VALIDITY_YEARS = 2, 10


@dataclass(frozen=True)
class Authority:
    """A certificate authority: its certificate and its signing key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def load_or_create_authority(folder: Path, name: str) -> Authority:
    """The authority `name`, read from its files in `folder`, or created there.

    Raises `BadInput` for files that cannot be used.
    """
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    if not certificate.exists():
        authority = new_authority(f"fedbnsl {name}")
        write_secret(key, _pem_of_key(authority.key))
        certificate.write_bytes(pem(authority.certificate))
        return authority
    try:
        signing = serialization.load_pem_private_key(key.read_bytes(), password=None)
        read = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{certificate}: cannot use this authority ({error})") from None
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise BadInput(f"{key}: not the key of an authority created by `fedbnsl federation init`")
    return Authority(read, signing)


def issue(issuer: Authority, holder: str, folder: Path, name: str, hosts: tuple[str, ...] = ()) -> None:
    """Write a new key and a certificate for `holder`, signed by `issuer`, to `folder`/`name`.key and .pem."""
    key, certificate = new_certificate(issuer, holder, hosts)
    write_secret(folder / f"{name}.key", key)
    (folder / f"{name}.pem").write_bytes(certificate)


def new_certificate(issuer: Authority, holder: str, hosts: tuple[str, ...] = ()) -> tuple[bytes, bytes]:
    """A new key and a certificate for `holder`, signed by `issuer`, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [_host(host) for host in hosts] or [x509.DNSName("localhost")]
    unsigned = _unsigned(_subject(holder), issuer.certificate.subject, key, VALIDITY_YEARS)
    unsigned = unsigned.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    unsigned = unsigned.add_extension(x509.SubjectAlternativeName(names), critical=False)
    unsigned = unsigned.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()), critical=False
    )
    return _pem_of_key(key), pem(unsigned.sign(issuer.key, hashes.SHA256()))


def write_trusted(path: Path, *authorities: Authority) -> None:
    """Write the certificates of trusted authorities to `path`."""
    path.write_bytes(b"".join(pem(one.certificate) for one in authorities))


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that is created with read access for its owner only."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def new_authority(name: str) -> Authority:
    """A new authority, whose key is in memory only."""
    key = ec.generate_private_key(ec.SECP256R1())
    unsigned = _unsigned(_subject(name), _subject(name), key, AUTHORITY_VALIDITY_YEARS)
    unsigned = unsigned.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    unsigned = unsigned.add_extension(
        x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True
    )
    unsigned = unsigned.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return Authority(unsigned.sign(key, hashes.SHA256()), key)


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, years: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    # Valid from yesterday, because the clocks of the silos' machines may differ.
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365 * years))
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def pem(certificate: x509.Certificate) -> bytes:
    """The `certificate` in PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@dataclass(frozen=True)
class Endpoint:
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """HOST:PORT, as in a configuration file."""
        return f"{self.host}:{self.port}"

    @property
    def tls(self) -> str:
        """The address as a URL."""
        return f"tls://{self}"


def endpoint(text: str, name: str) -> Endpoint:
    """Parse HOST:PORT or tls://HOST:PORT; raises `BadInput` with the `name` of the setting for another form."""
    host, colon, port = text.removeprefix("tls://").rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 65536) or "/" in host:
        raise BadInput(f"{name} is '{text}': must be HOST:PORT, such as 10.0.0.5:8786")
    return Endpoint(host, int(port))
