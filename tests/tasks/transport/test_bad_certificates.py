"""Every kind of unusable certificate: the line at either end names the file or the holder, and the true reason.

The certificates are checked by real TLS between a relay and a silo, or by the commands that read them.
"""

import datetime
import re
import shutil
from contextlib import suppress
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.cli.federation import renew_certificates
from fedbnsl.tasks.transport.certificates import Authority, expiry_warnings, pem, read_authority, write_trusted
from fedbnsl.tasks.transport.channel import RelayClient
from fedbnsl.tasks.transport.configuration import read_federation_file, read_silo_file
from fedbnsl.tasks.transport.relay import MAX_REFUSALS_OF_PEER
from tests.tasks.transport.relay_peers import QUICK, eventually, hub, identity_of

DAY = datetime.timedelta(days=1)
NOW = datetime.datetime.now(datetime.UTC)
PAST, FUTURE = (NOW - 30 * DAY, NOW - 10 * DAY), (NOW + 10 * DAY, NOW + 30 * DAY)
TODAY = f"({NOW:%Y-%m-%d}|{NOW + DAY:%Y-%m-%d})"
"""the day of a test, which may begin after midnight"""
EXPIRED, EARLY = f"expired on {PAST[1]:%Y-%m-%d}", f"is not valid before {FUTURE[0]:%Y-%m-%d}"


@pytest.fixture
def folder(issued, tmp_path):
    """A federation whose files a test may spoil."""
    return shutil.copytree(issued, tmp_path / "made")


def certified(issuer, holder, key, dates, *, authority=False):
    """The certificate of `holder` and its public `key`, valid between two `dates`."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, holder)])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.certificate.subject if issuer.certificate else name)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(dates[0])
        .not_valid_after(dates[1])
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(issuer.key, hashes.SHA256())
    )


def issuer_of(folder, party):
    return read_authority(folder / "authorities", "coordinators" if party == "coordinator" else "silos")


def key_of(mine):
    return serialization.load_pem_private_key(mine.key.read_bytes(), None)


def reissue(folder, party, dates, issuer=None, holder=None):
    """Replace the certificate of `party` by one with other dates, another issuer or another holder."""
    mine = identity_of(folder, party)
    made = certified(issuer or issuer_of(folder, party), holder or party, key_of(mine).public_key(), dates)
    mine.certificate.write_bytes(pem(made))


def stranger(name):
    """An authority with the name of a known one, and another key."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = Authority(None, key)
    return replace(issuer, certificate=certified(issuer, name, key.public_key(), (NOW, NOW + DAY), authority=True))


def dated(folder, kind, dates):
    """The authority of silos or coordinators with a certificate of these dates."""
    known = read_authority(folder / "authorities", kind)
    certificate = certified(known, f"fedbnsl {kind}", known.key.public_key(), dates, authority=True)
    return Authority(certificate, known.key)


def spoil_authority(folder, party, dates):
    """Give `party` a certificate of the other side's authority with these dates."""
    kinds = ("silos", "coordinators") if party == "coordinator" else ("coordinators",)
    made = [read_authority(folder / "authorities", kind) for kind in kinds]
    made[0] = dated(folder, kinds[0], dates)
    write_trusted(folder / party / "trusted.pem", *made)


def write(file, content):
    """Replace the content of `file`, which only its owner may read."""
    file.write_bytes(content)
    file.chmod(0o600)


SPOILED = {
    "no file": ("certificate", lambda folder, mine: mine.certificate.unlink(), "no such file"),
    "a certificate that is text": (
        "certificate",
        lambda folder, mine: write(mine.certificate, b"hello"),
        "not a certificate in PEM",
    ),
    "a key for a certificate": (
        "certificate",
        lambda folder, mine: write(mine.certificate, mine.key.read_bytes()),
        "a private key, not a certificate",
    ),
    "an authority for a certificate": (
        "certificate",
        lambda folder, mine: write(mine.certificate, (folder / "authorities" / "silos.pem").read_bytes()),
        "the certificate of an authority, not of a silo or a coordinator",
    ),
    "a certificate for a key": (
        "key",
        lambda folder, mine: write(mine.key, mine.certificate.read_bytes()),
        "a certificate, not a private key",
    ),
    "a key that is text": ("key", lambda folder, mine: write(mine.key, b"hello"), "not a private key in PEM"),
    "another's key": (
        "key",
        lambda folder, mine: write(mine.key, (folder / "lab" / "lab.key").read_bytes()),
        "not the key of the certificate in .*/(clinic|coordinator).pem",
    ),
    "a key that others read": (
        "key",
        lambda folder, mine: mine.key.chmod(0o644),
        "this key is readable by other users",
    ),
    "trusted text": ("trusted", lambda folder, mine: write(mine.trusted, b"hello"), "not a certificate in PEM"),
    "a trusted holder": (
        "trusted",
        lambda folder, mine: write(mine.trusted, (folder / "lab" / "lab.pem").read_bytes()),
        "the certificate of 'lab', not of an authority",
    ),
    "an expired certificate": (
        "certificate",
        lambda folder, mine: reissue(folder, mine.holder(), PAST),
        rf"the certificate of '\w+' {EXPIRED}.*this machine's clock says {TODAY}.*`fedbnsl federation renew",
    ),
    "a certificate of tomorrow": (
        "certificate",
        lambda folder, mine: reissue(folder, mine.holder(), FUTURE),
        rf"the certificate of '\w+' {EARLY}.*this machine's clock says {TODAY}",
    ),
    "an expired authority": (
        "trusted",
        lambda folder, mine: spoil_authority(folder, mine.holder(), PAST),
        rf"the certificate of the authority 'fedbnsl \w+' {EXPIRED}.*`fedbnsl federation renew FOLDER`",
    ),
    "another's name": (
        "certificate",
        lambda folder, mine: reissue(folder, mine.holder(), (NOW, NOW + 99 * DAY), holder="ward"),
        "'ward'",
    ),
}
"""by kind, which file is spoiled, how, and the reason that its reader gives"""


@pytest.mark.parametrize("party", ["clinic", "coordinator"])
@pytest.mark.parametrize(("file", "spoil", "reason"), SPOILED.values(), ids=SPOILED)
def test_who_starts_with_an_unusable_file_reads_which_and_why(folder, party, file, spoil, reason):
    mine = identity_of(folder, party)
    read, path = {
        "clinic": (read_silo_file, folder / "clinic" / "silo.toml"),
        "coordinator": (read_federation_file, folder / "coordinator" / "federation.toml"),
    }[party]
    read(path)
    spoil(folder, mine)
    with pytest.raises(BadInput, match=reason) as refused:
        read(path)
    line = str(refused.value)
    assert "\n" not in line
    named = path if "ward" in reason and party == "clinic" else getattr(mine, file)
    assert line.startswith(f"{named}: ")


def test_a_coordinator_reads_that_nobody_it_trusts_has_signed_its_certificate(folder):
    shutil.copy(folder / "authorities" / "silos.pem", folder / "coordinator" / "trusted.pem")
    with pytest.raises(BadInput, match=r"coordinator\.pem: signed by 'fedbnsl coordinators', an authority whose cert"):
        read_federation_file(folder / "coordinator" / "federation.toml")


BETWEEN = {
    "silo expired": (
        lambda folder: reissue(folder, "clinic", PAST),
        rf"refuses .*/clinic.pem: {EXPIRED}",
        rf"the certificate of 'clinic' {EXPIRED}.*renew FOLDER --members 'clinic'` renews it",
    ),
    "silo not valid yet": (
        lambda folder: reissue(folder, "clinic", FUTURE),
        rf"refuses .*/clinic.pem: {EARLY}",
        rf"the certificate of 'clinic' {EARLY}",
    ),
    "silo of another authority": (
        lambda folder: reissue(folder, "clinic", (NOW, NOW + DAY), stranger("fedbnsl silos")),
        "refuses .*/clinic.pem: it is signed by 'fedbnsl silos', and not by an authority that the other side trusts",
        "the certificate of 'clinic' is signed by 'fedbnsl silos', and not by an authority in .*/trusted.pem",
    ),
    "silo with another name": (
        lambda folder: reissue(folder, "clinic", (NOW, NOW + DAY), holder="ward"),
        "silo ward is not a member: federation.toml lists clinic, lab",
        "silo ward is not a member: federation.toml lists clinic, lab",
    ),
    "silos' authority expired at the coordinator": (
        lambda folder: spoil_authority(folder, "coordinator", PAST),
        r"refuses .*/clinic.pem: by the clock there, it or its authority has expired \(it is valid until 20",
        rf"the certificate of the authority 'fedbnsl silos' in .*/coordinator/trusted.pem {EXPIRED}",
    ),
    "coordinator expired": (
        lambda folder: reissue(folder, "coordinator", PAST),
        rf"the certificate of 'coordinator' {EXPIRED}.*renew FOLDER --members 'coordinator'` renews it",
        rf"refuses .*/coordinator.pem: {EXPIRED}",
    ),
    "coordinator not valid yet": (
        lambda folder: reissue(folder, "coordinator", FUTURE),
        rf"the certificate of 'coordinator' {EARLY}",
        rf"refuses .*/coordinator.pem: {EARLY}",
    ),
    "coordinator of another authority": (
        lambda folder: write_trusted(folder / "clinic" / "trusted.pem", stranger("fedbnsl coordinators")),
        "the certificate of 'coordinator' is signed by 'fedbnsl coordinators', and not by an authority in .*/clinic/",
        "refuses .*/coordinator.pem: it is signed by 'fedbnsl coordinators', and not by an authority that the other",
    ),
    "coordinators' authority expired at the silo": (
        lambda folder: spoil_authority(folder, "clinic", PAST),
        rf"the certificate of the authority 'fedbnsl coordinators' in .*/clinic/trusted.pem {EXPIRED}",
        r"refuses .*/coordinator.pem: by the clock there, it or its authority has expired \(it is valid until 20",
    ),
}
"""by kind, how a file is spoiled, and the reasons in the logs of silo and coordinator"""


@pytest.mark.parametrize(("spoil", "at_silo", "at_coordinator"), BETWEEN.values(), ids=BETWEEN)
def test_both_ends_say_why_tls_refuses_a_certificate(folder, spoil, at_silo, at_coordinator):
    spoil(folder)
    log = []
    with hub(folder, silos=("clinic", "lab")) as relay:
        relay.silo("clinic", log=log)
        line = eventually(lambda: log)[0]
        assert re.search(f"^silo clinic cannot join {relay.where.tls}: .*{at_silo}", line)
        refusal = eventually(lambda: relay.log[1:])[0]
        assert re.search(f"^refused: .*{at_coordinator}", refusal)
        assert len(relay.log) == 2


def test_a_stranger_can_neither_replace_the_reason_of_a_silo_nor_fill_the_log(folder, tmp_path):
    """Peers without a trusted certificate claim any name, here from the host of the silo itself."""
    reissue(folder, "clinic", PAST)
    unknown = stranger("fedbnsl silos")
    with hub(folder, silos=("clinic", "lab")) as relay:
        relay.silo("clinic")
        true_reason = eventually(lambda: relay.log[1:])[0]
        for turn in range(2 * MAX_REFUSALS_OF_PEER):
            own = tmp_path / str(turn)
            shutil.copytree(folder / "lab", own / "lab")
            reissue(own, "lab", (NOW - DAY, NOW + DAY), issuer=unknown, holder="clinic" if turn == 0 else f"s{turn}")
            with suppress(OSError), relay.peer("lab", own) as peer:
                peer.is_closed()
        assert len(relay.log) == 1 + MAX_REFUSALS_OF_PEER
        assert relay.log[-1].endswith("; its other refusals are not logged")
        with relay.run() as run:
            assert true_reason.removeprefix("refused: ") in run.refusals


# Renewal


def left_days(file):
    """How many days the certificate in `file` is still valid."""
    return (x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc - NOW).days


def age(folder):
    """Have every certificate of the federation expire soon: those of the members in 20 days, of authorities in 40."""
    for kind in ("silos", "coordinators"):
        old = dated(folder, kind, (NOW - DAY, NOW + 40 * DAY))
        (folder / "authorities" / f"{kind}.pem").write_bytes(pem(old.certificate))
    for party in ("clinic", "lab", "coordinator"):
        reissue(folder, party, (NOW - DAY, NOW + 20 * DAY + DAY / 2))
        spoil_authority(folder, party, (NOW - DAY, NOW + 40 * DAY + DAY / 2))


@pytest.fixture
def rows(folder):
    """The fingerprints of the keys in the members of each owner, before a renewal."""
    return {silo: read_silo_file(folder / silo / "silo.toml").members.fingerprints for silo in ("clinic", "lab")}


def test_renewal_stops_nobody(folder, tmp_path, rows):
    """Old and new certificates work together in any order, also over renewed authorities, and so do pinned keys."""
    age(folder)
    office = shutil.copytree(folder, tmp_path / "office")
    renew_certificates(office, [])
    for party in ("clinic", "lab", "coordinator"):
        assert left_days(office / party / f"{party}.pem") > 700
        assert left_days(office / party / "trusted.pem") > 3600
        assert (office / party / f"{party}.key").read_bytes() == (folder / party / f"{party}.key").read_bytes()

    def receive(party):
        for name in (f"{party}.pem", "trusted.pem"):
            shutil.copy(office / party / name, folder / party / name)

    with hub(folder) as relay, relay.run() as run:
        lab = relay.silo("lab")
        eventually(lambda: run.present() == ("lab",))
        receive("clinic")
        clinic = relay.silo("clinic")  # a renewed silo at a coordinator that knows only the old authority
        eventually(lambda: run.present() == ("clinic", "lab"))
        assert run.submit("clinic", b"x").result(5)
        receive("coordinator")
        for silo, joined in (("lab", lab), ("clinic", clinic)):
            joined.cancel()
            eventually(lambda silo=silo: silo not in run.present())
            relay.silo(silo)  # lab still has its old certificate and the old authorities
            eventually(lambda silo=silo: silo in run.present())
        assert "certificate, key and trusted authorities have been read again" in relay.log
    receive("lab")
    for silo, known in rows.items():
        assert read_silo_file(folder / silo / "silo.toml").members.fingerprints == known


def test_one_member_is_renewed_alone(folder, capsys):
    age(folder)
    for kind in ("silos", "coordinators"):
        long = dated(folder, kind, (NOW - DAY, NOW + 9999 * DAY))
        (folder / "authorities" / f"{kind}.pem").write_bytes(pem(long.certificate))
    capsys.readouterr()
    renew_certificates(folder, ["clinic"])
    assert [left_days(folder / party / f"{party}.pem") for party in ("lab", "coordinator")] == [20, 20]
    assert left_days(folder / "clinic" / "clinic.pem") > 700
    assert left_days(folder / "clinic" / "trusted.pem") == 40
    first, _ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{folder}/clinic/clinic.pem: for the owner of clinic; the certificate of 'clinic': valid")
    with pytest.raises(BadInput, match="has no certificate of 'ward'; available: clinic, coordinator, lab"):
        renew_certificates(folder, ["ward"])
    with pytest.raises(BadInput, match="has no folder authorities"):
        renew_certificates(folder / "clinic", [])


def test_a_coordinator_keeps_its_certificates_if_the_new_files_are_unusable(folder):
    with hub(folder) as relay:
        write(folder / "coordinator" / "coordinator.pem", b"half a cert")
        relay.silo("lab")
        eventually(lambda: any("silo lab has joined" in line for line in relay.log))
        (line,) = [line for line in relay.log if line.startswith("warning: ")]
        assert line.endswith("coordinator.pem: not a certificate in PEM; the certificates read before remain in use")


@pytest.mark.parametrize("name", ["coordinator.pem", "trusted.pem"])
def test_unusable_files_disturb_no_silo_and_no_run(folder, tmp_path, name):
    """Files that are being replaced: whoever is connected stays, and silos and runs still join and leave."""
    office = shutil.copytree(folder / "coordinator", tmp_path / "office" / "coordinator")
    with hub(folder) as relay:
        clinic = relay.silo("clinic")
        with relay.run_with("clinic") as run:
            write(folder / "coordinator" / name, b"half a cert")
            relay.silo("lab")
            eventually(lambda: run.present() == ("clinic", "lab"))
            with RelayClient.connect(relay.where, identity_of(office.parent, "coordinator"), 5.0, QUICK) as other:
                eventually(lambda: other.present() == ("clinic", "lab"))
            clinic.cancel()
            eventually(lambda: run.present() == ("lab",))
            assert run.submit("lab", b"x").result(5)
        assert not relay.task.done()


# Warnings


@pytest.mark.parametrize(("days", "warned"), [(59, True), (61, False)])
def test_a_certificate_is_announced_60_days_before_it_expires(folder, days, warned):
    """Owner, coordinator and run each read one line: whose certificate, when, and the command that renews it."""
    until = NOW + days * DAY + DAY / 2
    reissue(folder, "clinic", (NOW - DAY, until))
    text = (
        f"the certificate of 'clinic' expires on {until:%Y-%m-%d}, in {days} days; `fedbnsl federation renew FOLDER "
        "--members 'clinic'` renews it"
    )
    own = read_silo_file(folder / "clinic" / "silo.toml")
    assert own.warnings == ((text,) if warned else ())
    with hub(folder) as relay, relay.run() as run:
        relay.silo("clinic")
        eventually(run.present)
        assert run.warnings == ((text,) if warned else ())
        assert (f"warning: {text}" in relay.log) == warned


def test_an_authority_is_announced_before_it_expires(folder):
    spoil_authority(folder, "coordinator", (NOW - DAY, NOW + 5 * DAY + DAY / 2))
    with hub(folder) as relay, relay.run() as run:
        (line,) = run.warnings
    assert re.search(r"the authority 'fedbnsl silos' expires on .*, in 5 days; `fedbnsl federation renew FOLDER`", line)


def test_dates_are_those_of_the_certificates(folder):
    mine = identity_of(folder, "clinic")
    own, authority = map(str, mine.validities())
    days = [f"{NOW + late * DAY + 730 * DAY:%Y-%m-%d}" for late in (0, 1)]
    assert own in [f"the certificate of 'clinic': valid until {day}" for day in days]
    days = [f"{NOW + late * DAY + 3650 * DAY:%Y-%m-%d}" for late in (0, 1)]
    assert authority in [f"the certificate of the authority 'fedbnsl coordinators': valid until {day}" for day in days]
    assert expiry_warnings(mine.validities()) == ()
