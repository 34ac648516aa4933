"""The certificates of a federation: two small authorities, one for coordinators and one for silos.

A silo trusts the coordinators' authority alone, and a coordinator trusts both. So a certificate of a silo opens the
way to a coordinator, but not to another silo, and cannot pass for a coordinator. A certificate names its holder in its
subject: a coordinator takes a silo's word only under the name it was issued for. Keys are of the curve P-256.
"""

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedbnsl.algorithms.errors import BadInput

YEARS = 2
"""how long a certificate is valid"""
AUTHORITY_YEARS = 10


@dataclass(frozen=True)
class Authority:
    """A certificate authority: its certificate, and the key it signs with."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def authority(folder: Path, name: str) -> Authority:
    """Return the authority `name`, whose files are in `folder`: read if it is there, else made.

    Raises `BadInput` for files that cannot be used.
    """
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    if not certificate.exists():
        made = _made_authority(f"fedbnsl {name}")
        write_secret(key, _pem_of_key(made.key))
        certificate.write_bytes(_pem(made.certificate))
        return made
    try:
        signing = serialization.load_pem_private_key(key.read_bytes(), password=None)
        read = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{certificate}: this authority cannot be used ({error})") from None
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise BadInput(f"{key}: not a key of an authority that was made by `fedbnsl federation init`")
    return Authority(read, signing)


def issue(by: Authority, holder: str, folder: Path, name: str, hosts: tuple[str, ...] = ()) -> None:
    """Write a new key and a certificate for `holder`, signed `by`, to `folder`/`name`.key and .pem."""
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [_host(host) for host in hosts] or [x509.DNSName("localhost")]
    unsigned = _begun(_subject(holder), by.certificate.subject, key, YEARS)
    unsigned = unsigned.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    unsigned = unsigned.add_extension(x509.SubjectAlternativeName(names), critical=False)
    unsigned = unsigned.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key()), critical=False
    )
    write_secret(folder / f"{name}.key", _pem_of_key(key))
    (folder / f"{name}.pem").write_bytes(_pem(unsigned.sign(by.key, hashes.SHA256())))


def write_trusted(path: Path, *authorities: Authority) -> None:
    """Write the certificates that the owner of `path` trusts."""
    path.write_bytes(b"".join(_pem(one.certificate) for one in authorities))


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that nobody but its owner may read, from its first byte on."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _made_authority(name: str) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    unsigned = _begun(_subject(name), _subject(name), key, AUTHORITY_YEARS)
    unsigned = unsigned.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    unsigned = unsigned.add_extension(
        x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True
    )
    unsigned = unsigned.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return Authority(unsigned.sign(key, hashes.SHA256()), key)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, years: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    # Valid since yesterday: the clocks of the silos' machines need not agree to the minute.
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


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
