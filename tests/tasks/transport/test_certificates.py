"""Certificates: which party trusts which, and who can read a key."""

import datetime
import shutil
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.tasks.transport.certificates import Authority, Identity, issue, load_or_create_authority


def identity(folder, name):
    return Identity(folder / f"{name}.pem", folder / f"{name}.key", folder / "trusted.pem")


def believe(server, client):
    """Perform the handshake of two parties in memory; both have an identity and require a certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = []
    for side, party in ((ssl.PROTOCOL_TLS_SERVER, server), (ssl.PROTOCOL_TLS_CLIENT, client)):
        context = ssl.SSLContext(side)
        context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
        context.load_verify_locations(party.trusted)
        context.load_cert_chain(party.certificate, party.key)
        mine, other = (to_server, to_client) if party is server else (to_client, to_server)
        ends.append(context.wrap_bio(mine, other, server_side=party is server))
    done = 0
    for turn in range(10):
        try:
            ends[1 - turn % 2].do_handshake()
            done += 1
        except ssl.SSLWantReadError:
            continue
    assert done >= 2, "the handshake did not end"


@pytest.fixture
def coordinator(issued):
    return identity(issued / "coordinator", "coordinator")


@pytest.fixture
def silos(issued):
    return identity(issued / "clinic", "clinic"), identity(issued / "lab", "lab")


def test_coordinator_and_silo_believe_each_other(coordinator, silos):
    believe(coordinator, silos[0])
    believe(silos[0], coordinator)


def test_a_silo_does_not_believe_another_silo(silos):
    with pytest.raises(ssl.SSLCertVerificationError):
        believe(*silos)


def test_nobody_believes_another_federation(coordinator, silos, tmp_path):
    init_federation(tmp_path / "other", ["clinic"], "10.0.0.5:8786")
    stranger = identity(tmp_path / "other" / "clinic", "clinic")
    with pytest.raises(ssl.SSLCertVerificationError):
        believe(coordinator, stranger)
    with pytest.raises(ssl.SSLCertVerificationError):
        believe(silos[0], identity(tmp_path / "other" / "coordinator", "coordinator"))


def test_a_silo_that_is_added_later_is_believed_and_replaces_nobody(issued, tmp_path):
    folder = shutil.copytree(issued, tmp_path / "made")
    before = (folder / "clinic" / "clinic.pem").read_bytes()
    init_federation(folder, ["ward"], "10.0.0.5:8786")
    believe(identity(folder / "coordinator", "coordinator"), identity(folder / "ward", "ward"))
    with pytest.raises(BadInput, match="clinic: already exists"):
        init_federation(folder, ["clinic"], "10.0.0.5:8786")
    assert (folder / "clinic" / "clinic.pem").read_bytes() == before


def test_a_certificate_names_its_holder(coordinator, silos):
    assert [party.holder() for party in (coordinator, *silos)] == ["coordinator", "clinic", "lab"]


def test_keys_are_their_owners_alone(issued):
    keys = list(issued.rglob("*.key"))
    assert len(keys) == 5
    assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}
    assert {(issued / name).stat().st_mode & 0o777 for name in ("authorities", "coordinator", "lab")} == {0o700}


def test_a_key_that_others_may_read_is_refused(issued, tmp_path):
    shutil.copytree(issued / "clinic", tmp_path / "clinic")
    for mode in (0o640, 0o604, 0o620):
        (tmp_path / "clinic" / "clinic.key").chmod(mode)
        with pytest.raises(BadInput, match=r"clinic\.key: this key is readable by other users"):
            identity(tmp_path / "clinic", "clinic").client_context()


def test_a_key_of_somebody_else_does_not_fit(issued, tmp_path):
    shutil.copytree(issued / "clinic", tmp_path / "clinic")
    shutil.copy(issued / "lab" / "lab.key", tmp_path / "clinic" / "clinic.key")
    with pytest.raises(BadInput, match=r"clinic\.key: not the key of the certificate in .*clinic\.pem"):
        identity(tmp_path / "clinic", "clinic").check()


@pytest.mark.parametrize(("kind", "verifier"), [("silos", "coordinator"), ("coordinators", "clinic")])
def test_an_authority_signs_holders_and_no_further_authorities(issued, tmp_path, kind, verifier):
    """If it signs an authority's certificate by mistake, certificates of that authority are still refused."""
    signing, here = load_or_create_authority(issued / "authorities", kind), identity(issued / verifier, verifier)
    guest = Identity(tmp_path / "guest.pem", tmp_path / "guest.key", issued / "coordinator" / "trusted.pem")
    issue(signing, "guest", tmp_path, "guest")
    believe(here, guest)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    mole = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mole")]))
        .issuer_name(signing.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(signing.key, hashes.SHA256())
    )
    issue(Authority(mole, key), "guest", tmp_path, "guest")
    with guest.certificate.open("ab") as chain:
        chain.write(mole.public_bytes(serialization.Encoding.PEM))
    with pytest.raises(ssl.SSLCertVerificationError, match="path length"):
        believe(here, guest)
