"""Identities in a federation: certificates for mutual TLS, and the authorities that issue them.

There are two small certificate authorities, one for coordinators and one for silos. Silos trust only the coordinators'
authority, a coordinator trusts both. So a silo's certificate gives access to a coordinator but not to other silos, and
cannot impersonate a coordinator. The subject of a certificate names its holder, and a coordinator accepts a silo only
under that name. Keys are on the curve P-256.

A renewed certificate has the key of the one that it replaces, and so has a renewed authority. Owners pin each other's
keys, and an authority's signatures depend on its key alone. So all certificates that are still valid work with each
other, in any order of renewal, and no other party needs to change or restart anything.
"""

import datetime
import ipaddress
import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.tracking.staging import EXPIRES

from ..silo.members import fingerprint_of

COORDINATOR = "coordinator"
"""the holder of a coordinator's certificate; no silo may have this name"""


@dataclass(frozen=True)
class Identity:
    """The files of one party: its certificate, its key, and the certificates of trusted authorities."""

    certificate: Path
    key: Path
    trusted: Path

    def own_authorities(self) -> list[x509.Certificate]:
        """The trusted authorities that issued this certificate; empty if there is none, as for a silo.

        A coordinator also trusts the silos' authority, because it must accept silos.
        """
        own = _certificates_in(self.certificate)[0]
        return [one for one in _certificates_in(self.trusted) if _issued(one, own)]

    @property
    def _believed_by_client(self) -> list[x509.Certificate]:
        """The authorities that a client of the relay trusts: only the coordinators' authority.

        This is the only authority that a silo trusts, and the one that issued a coordinator's own certificate.
        """
        coordinator = self.holder() == COORDINATOR
        return self.own_authorities() if coordinator else _certificates_in(self.trusted)

    def client_context(self) -> ssl.SSLContext:
        """TLS for a client of the relay, which trusts only the coordinators' authority; raises as `check`."""
        self.check()
        return self._context(ssl.PROTOCOL_TLS_CLIENT, self._believed_by_client)

    def require_coordinator(self) -> None:
        """Raise `BadInput` unless the certificate is that of a coordinator."""
        if self.holder() != COORDINATOR:
            raise BadInput(f"{self.certificate}: the certificate of '{self.holder()}', not of a coordinator")

    def server_context(self) -> ssl.SSLContext:
        """TLS for the relay, which requires a certificate of a trusted authority; raises `BadInput` as `check`."""
        self.check()
        return self._context(ssl.PROTOCOL_TLS_SERVER, _certificates_in(self.trusted))

    def _context(self, protocol: int, authorities: Iterable[x509.Certificate]) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # a certificate is valid at any address of its holder
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(cadata=b"".join(map(pem, authorities)).decode())
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as error:
            raise BadInput(f"{self.certificate}: cannot be used for TLS ({error})") from None
        return context

    def check(self) -> None:
        """Raise `BadInput` for a file that is missing or has other content, and for a key that other users may read.

        Whether the certificates are valid today is for `check_dates`.
        """
        for path in (self.certificate, self.key, self.trusted):
            if not path.is_file():
                raise BadInput(f"{path}: no such file; create certificates with `fedbnsl federation init`")
        if self.key.stat().st_mode & 0o077:
            raise BadInput(f"{self.key}: this key is readable by other users; restrict it with chmod 600")
        own = _certificates_in(self.certificate)[0]
        if _is_authority(own):
            raise BadInput(f"{self.certificate}: the certificate of an authority, not of a silo or a coordinator")
        if _private_key_in(self.key).public_key() != own.public_key():
            raise BadInput(f"{self.key}: not the key of the certificate in {self.certificate}")
        for one in _certificates_in(self.trusted):
            if not _is_authority(one):
                raise BadInput(f"{self.trusted}: the certificate of {_name(one)}, not of an authority")
        if self.holder() == COORDINATOR and not self.own_authorities():
            raise BadInput(
                f"{self.certificate}: signed by {_issuer(own)}, an authority whose certificate {self.trusted} lacks"
            )

    def check_dates(self) -> None:
        """Raise `BadInput` for a certificate, own or of an authority, that is not valid now; the files are usable."""
        for one in self.validities():
            if fault := one.fault():
                raise BadInput(f"{one.file}: {one.whose} {fault}; {one.remedy}")

    def validities(self) -> "tuple[Validity, ...]":
        """The dates of the own certificate, and of those of the trusted authorities."""
        own, *authorities = (*_certificates_in(self.certificate)[:1], *_certificates_in(self.trusted))
        return (
            validity_of(own, self.certificate),
            *(validity_of(one, self.trusted) for one in authorities),
        )

    def refusal_of(self, certificate: bytes, *, server: bool) -> str:
        """Why this party refuses a peer's `certificate` (DER) as a `server`, or as a client; "" if it has no reason.

        The certificate has not been verified, so the name in it proves nothing.
        """
        peer = x509.load_der_x509_certificate(certificate)
        trusted = _certificates_in(self.trusted) if server else self._believed_by_client
        issuers = [one for one in trusted if _issued(one, peer)]
        if not issuers:
            return f"{validity_of(peer).whose} is signed by {_issuer(peer)}, and not by an authority in {self.trusted}"
        if fault := validity_of(peer).fault():
            return f"{validity_of(peer).whose} {fault}; {validity_of(peer).remedy}"
        faults = [(validity_of(one), validity_of(one).fault()) for one in issuers]
        return next((f"{one.whose} in {self.trusted} {fault}; {one.remedy}" for one, fault in faults if fault), "")

    def refused_there(self, alert: str) -> str:
        """Why the other side refuses this party's certificate, by its TLS `alert` as OpenSSL names it."""
        own, one = _certificates_in(self.certificate)[0], self.validities()[0]
        since, until = (f"{time:%Y-%m-%d %H:%M} UTC" for time in (one.since, one.until))
        authority = f"it is signed by {_issuer(own)}, and not by an authority that the other side trusts"
        reasons = {
            "CERTIFICATE_EXPIRED": one.fault()
            or f"by the clock there, it or its authority has expired (it is valid until {until})",
            "BAD_CERTIFICATE": one.fault() or f"by the clock there, it is not valid yet (it is valid from {since})",
            "UNKNOWN_CA": authority,
            "DECRYPT_ERROR": authority,  # an authority of this name, with another key
        }
        reason = next((reason for name, reason in reasons.items() if alert.endswith(name)), f"TLS reports {alert}")
        return f"the other side refuses {self.certificate}: {reason}"

    def sign(self, content: bytes) -> bytes:
        """The signature of `content` with the key (ECDSA with SHA-256)."""
        return _private_key_in(self.key).sign(content, ec.ECDSA(hashes.SHA256()))

    def own_certificate(self) -> bytes:
        """The own certificate in DER."""
        return _certificates_in(self.certificate)[0].public_bytes(serialization.Encoding.DER)

    def fingerprint(self) -> str:
        """The SHA-256 fingerprint of the key, in hexadecimal; a renewed certificate has the same."""
        return key_fingerprint(self.certificate)

    def holder(self) -> str:
        """The name of the certificate's holder; raises `BadInput` if it cannot be read."""
        try:
            return _common_name(_certificates_in(self.certificate)[0])
        except BadInput:
            raise
        except ValueError:
            raise BadInput(f"{self.certificate}: a certificate without the name of its holder") from None


def _certificates_in(path: Path) -> list[x509.Certificate]:
    """The certificates in a PEM file, at least one; raises `BadInput` that says what the file is instead."""
    try:
        content = path.read_bytes()
        return x509.load_pem_x509_certificates(content)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError:
        what = "a private key, not a certificate" if b"PRIVATE KEY-----" in content else "not a certificate in PEM"
        raise BadInput(f"{path}: {what}") from None


def _private_key_in(path: Path) -> ec.EllipticCurvePrivateKey:
    """The private key in a PEM file; raises `BadInput` that says what the file is instead."""
    try:
        content = path.read_bytes()
        key = serialization.load_pem_private_key(content, password=None)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError):
        certificate = b"BEGIN CERTIFICATE-----" in content
        what = "a certificate, not a private key" if certificate else "not a private key in PEM without a password"
        raise BadInput(f"{path}: {what}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadInput(f"{path}: not a key created by `fedbnsl federation init`")
    return key


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except (x509.ExtensionNotFound, ValueError):
        return False


def _issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    """Whether `authority` has signed `certificate`."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _issuer(certificate: x509.Certificate) -> str:
    names = certificate.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    return quoted(str(names[0].value)) if names else "a nameless authority"


def is_coordinator(certificate: bytes, authorities: Iterable[x509.Certificate]) -> bool:
    """Whether `certificate` (DER) is a coordinator's, from one of the `authorities`."""
    peer = x509.load_der_x509_certificate(certificate)
    return _common_name(peer) == COORDINATOR and any(_issued(one, peer) for one in authorities)


def has_signed(certificate: bytes, signature: bytes, content: bytes) -> bool:
    """Whether the key of `certificate` (DER) has made the `signature` of `content` (see `Identity.sign`)."""
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            return False
        key.verify(signature, content, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def holder_of(certificate: bytes) -> str:
    """The holder of a `certificate` in DER; raises `ValueError` if it has no name."""
    return _common_name(x509.load_der_x509_certificate(certificate))


def certificate_fingerprint(certificate: bytes) -> str:
    """The fingerprint of the key of a `certificate` in DER; raises `ValueError` if it is none."""
    return fingerprint_of(x509.load_der_x509_certificate(certificate))


def distrust_of(certificate: bytes, trusted: Path, day: str) -> str:
    """Why the key of a `certificate` (DER) proved nothing on `day` (as in 2026-01-31); "" if it did.

    An authority in the PEM file `trusted` must have issued the certificate, which must be valid on that day. Raises
    `BadInput` for a file that is not in PEM.
    """
    authorities = _certificates_in(trusted)
    try:
        peer = x509.load_der_x509_certificate(certificate)
        on = datetime.date.fromisoformat(day)
    except ValueError:
        return "its certificate is damaged, or the run has no date"
    if not any(_is_authority(one) and _issued(one, peer) for one in authorities):
        return f"no authority in {trusted} has issued its certificate"
    validity = validity_of(peer)
    if not validity.since.date() <= on <= validity.until.date():
        return f"its certificate is valid from {validity.since:%Y-%m-%d} to {validity.until:%Y-%m-%d}"
    return ""


def _common_name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names:
        raise ValueError("a certificate without the name of its holder")
    return str(names[0].value)


def _name(certificate: x509.Certificate) -> str:
    """The holder's name, quoted, of a certificate that may come from a stranger."""
    try:
        return quoted(_common_name(certificate))
    except ValueError:
        return "a nameless holder"


def key_fingerprint(file: Path) -> str:
    """The SHA-256 fingerprint, in hexadecimal, of the key that the certificate in `file` certifies.

    Raises `BadInput` for other content.
    """
    return fingerprint_of(_certificates_in(file)[0])


WARNING_DAYS = 60
"""days before the expiry of a certificate from which on its users are warned"""


@dataclass(frozen=True)
class Validity:
    """From when until when a certificate is valid."""

    whose: str
    """such as "the certificate of 'clinic'" """
    since: datetime.datetime
    until: datetime.datetime
    remedy: str
    file: Path | None = None

    def __str__(self) -> str:
        """A line that states the last day."""
        return f"{self.whose}: valid until {self.until:%Y-%m-%d}"

    def fault(self) -> str:
        """Why the certificate is not valid at this moment, by the clock of this machine; "" if it is."""
        now = datetime.datetime.now(datetime.UTC)
        clock = f"this machine's clock says {now:%Y-%m-%d %H:%M} UTC"
        if now > self.until:
            return f"expired on {self.until:%Y-%m-%d %H:%M} UTC ({clock})"
        return f"is not valid before {self.since:%Y-%m-%d %H:%M} UTC ({clock})" if now < self.since else ""

    def warning(self) -> str:
        """A line from `WARNING_DAYS` before the expiry on; "" before."""
        days = (self.until - datetime.datetime.now(datetime.UTC)).days
        if days >= WARNING_DAYS:
            return ""
        return f"{self.whose} {EXPIRES} {self.until:%Y-%m-%d}, in {max(days, 0)} days; {self.remedy}"


def validity_of(certificate: x509.Certificate, file: Path | None = None) -> Validity:
    """The dates of a `certificate`, which is in `file` or comes from a peer."""
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if _is_authority(certificate):
        whose, only = f"the certificate of the authority {_name(certificate)}", ""
    else:
        whose, only = f"the certificate of {_name(certificate)}", f" --members {_name(certificate)}"
    return Validity(whose, since, until, f"`fedbnsl federation renew FOLDER{only}` renews it", file)


def validity_of_file(path: Path) -> Validity:
    """The dates of the certificate in a PEM file; raises `BadInput` for other content."""
    return validity_of(_certificates_in(path)[0], path)


def peer_validity(certificate: bytes) -> Validity:
    """The dates of a peer's `certificate` in DER."""
    return validity_of(x509.load_der_x509_certificate(certificate))


def expiry_warnings(validities: Iterable[Validity]) -> tuple[str, ...]:
    """A line for each certificate that expires within `WARNING_DAYS`."""
    return tuple(line for one in validities if (line := one.warning()))


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
    if certificate.exists():
        return read_authority(folder, name)
    authority = new_authority(f"fedbnsl {name}")
    write_secret(key, _pem_of_key(authority.key))
    certificate.write_bytes(pem(authority.certificate))
    return authority


def read_authority(folder: Path, name: str) -> Authority:
    """The authority `name` from its files in `folder`; raises `BadInput` for files that cannot be used."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    authority = Authority(_certificates_in(certificate)[0], _private_key_in(key))
    if authority.key.public_key() != authority.certificate.public_key():
        raise BadInput(f"{key}: not the key of the certificate in {certificate}")
    return authority


def renewed_authority(authority: Authority) -> Authority:
    """The `authority` with a new certificate for its key: whatever it has signed is valid under either certificate."""
    return Authority(_self_signed(authority.certificate.subject, authority.key), authority.key)


def outlives_certificates(authority: Authority) -> bool:
    """Whether the authority's certificate is valid for longer than a certificate that it issues now."""
    issued_until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=365 * VALIDITY_YEARS)
    return authority.certificate.not_valid_after_utc > issued_until


def renew(issuer: Authority, file: Path) -> None:
    """Replace the certificate in `file` with a new one for the same holder and key; raises `BadInput` if unusable."""
    old = _certificates_in(file)[0]
    public = old.public_key()
    if _is_authority(old) or not isinstance(public, ec.EllipticCurvePublicKey):
        raise BadInput(f"{file}: not a certificate that `fedbnsl federation init` has issued")
    hosts = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    replace_file(file, pem(_certified(issuer, old.subject, public, hosts)))


def replace_file(path: Path, content: bytes) -> None:
    """Write `path` so that a reader sees the old content or the new, and never a part."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content)
    temporary.replace(path)


def issue(issuer: Authority, holder: str, folder: Path, name: str, hosts: tuple[str, ...] = ()) -> None:
    """Write a new key and a certificate for `holder`, signed by `issuer`, to `folder`/`name`.key and .pem."""
    key, certificate = new_certificate(issuer, holder, hosts)
    write_secret(folder / f"{name}.key", key)
    (folder / f"{name}.pem").write_bytes(certificate)


def new_certificate(issuer: Authority, holder: str, hosts: tuple[str, ...] = ()) -> tuple[bytes, bytes]:
    """A new key and a certificate for `holder`, signed by `issuer`, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [_host(host) for host in hosts] or [x509.DNSName("localhost")]
    certificate = _certified(issuer, _subject(holder), key.public_key(), x509.SubjectAlternativeName(names))
    return _pem_of_key(key), pem(certificate)


def _certified(
    issuer: Authority, subject: x509.Name, key: ec.EllipticCurvePublicKey, hosts: x509.SubjectAlternativeName
) -> x509.Certificate:
    unsigned = _unsigned(subject, issuer.certificate.subject, key, VALIDITY_YEARS)
    unsigned = unsigned.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    unsigned = unsigned.add_extension(hosts, critical=False)
    unsigned = unsigned.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()), critical=False
    )
    return unsigned.sign(issuer.key, hashes.SHA256())


def write_trusted(path: Path, *authorities: Authority) -> None:
    """Write the certificates of trusted authorities to `path`."""
    replace_file(path, b"".join(pem(one.certificate) for one in authorities))


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that is created with read access for its owner only."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def new_authority(name: str) -> Authority:
    """A new authority, whose key is in memory only."""
    key = ec.generate_private_key(ec.SECP256R1())
    return Authority(_self_signed(_subject(name), key), key)


def _self_signed(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    unsigned = _unsigned(subject, subject, key.public_key(), AUTHORITY_VALIDITY_YEARS)
    unsigned = unsigned.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    unsigned = unsigned.add_extension(
        x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True
    )
    unsigned = unsigned.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return unsigned.sign(key, hashes.SHA256())


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, years: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    # Valid from yesterday, because the clocks of the silos' machines may differ.
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
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
