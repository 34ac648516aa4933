"""What a silo on its owner's machine refuses to a lying coordinator."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure.masked_round import new_attempt, session_of
from fedbnsl.algorithms.secure.masks import Refused, default_threshold
from fedbnsl.data.folder.about import Declared, Reading, declarations
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.tasks.silo.guard import Guard, with_full_noise
from fedbnsl.tasks.silo.members import Members
from fedbnsl.tasks.silo.messages import SiloFailed
from fedbnsl.tasks.silo.policy import NotAllowed, Policy
from fedbnsl.tasks.silo.private_folder import RecordUnavailable
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.secure_sums import SecureSumRequest
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.certificates import new_authority, pem
from fedbnsl.tasks.transport.configuration import read_silo_file
from tests.tasks.broadcasts import first_broadcast

ROWS = 40
EPSILON = Policy(epsilon=1.0, total_epsilon=3.0)


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("x,y\n" + "".join(f"{k % 7 + 0.5},{k * k % 11 + 0.25}\n" for k in range(ROWS)))
    return file


def remote(path, said=None, **guard):
    return SiloService("a", path, guard=Guard(remote=True, log=(said if said is not None else []).append, **guard))


def terms(algorithm, rows, params=None, run="run", declared=None):
    schema = Schema(("x", "y"), rows)
    return RunTerms(run, registry.pack(registry.specify(algorithm, params)), schema, 0, declared=declared or Declared())


LIES = {
    "marks": Declared(marks={"x": ("0.5",)}),
    "columns": Declared(columns={"x": "discrete"}),
    "levels": Declared(levels={"x": ("0.5", "1.5")}),
    "kind": Declared(kind="discrete"),
    "transforms": Declared(transforms={"x": "log"}),
}


class TestDescriptions:
    def test_a_finite_epsilon_forces_the_private_one(self, path):
        profile = remote(path, policy=EPSILON, declared=declarations({"kind": "continuous"})).describe().profile
        assert {column.numbers for column in profile.columns.values()} == {0}
        assert profile.rows == ROWS

    @pytest.mark.parametrize("key", LIES)
    def test_under_a_policy_declarations_are_the_owners(self, path, key):
        silo = remote(path, policy=Policy(rows=5), declared=declarations({"kind": "continuous"}))
        with pytest.raises(NotAllowed, match=f"refuses the declared {key}: they differ from the owner's about.json"):
            silo.describe(LIES[key])
        assert silo.describe(Declared(kind="continuous")).rows == ROWS

    @pytest.mark.parametrize("asked_of", ["a", ""])
    @pytest.mark.parametrize("owners", ["a", ""])
    def test_also_without_a_policy_the_reading_is_the_owners(self, owners, asked_of):
        """The spellings, the units and the sheet of silo a; a sheet may also be that of all silos."""
        asked = Declared(
            recode={"a": {"x": {"no": "n"}}, "b": {"x": {"no": "0"}}},
            scale={"a": {"y": 10.0}, "b": {"y": 2.0}},
            sheets={asked_of: "First"},
        )
        own = Declared(
            recode={"a": {"x": {"no": "nein"}}, "b": {"x": {"no": "non"}}},
            scale={"a": {"y": 0.5}, "b": {"y": 0.25}},
            sheets={owners: "Second", "b": "Third"},
        )
        guard = Guard(remote=True, declared=own)
        with pytest.raises(NotAllowed, match="silo a: its owner refuses the declared recode: they differ"):
            guard.declaration("a", asked)
        read = guard.declaration("a", Declared(recode={"b": {"x": {"no": "0"}}}))
        assert (read.form.recode, read.form.scale) == ((("x", (("no", "nein"),)),), (("y", 0.5, ()),))
        assert read.form.sheet == "Second"

    def test_the_kinds_of_a_second_request_do_not_count(self, path):
        """If it could choose kinds, a coordinator could have the values of a column listed as labels."""
        declared = Declared(columns={"x": "discrete"}, complete=("x", "y"), reading=Reading(missing="complete-rows"))
        assert remote(path, policy=Policy(rows=5)).describe(declared).profile.columns["x"].labels is None

    def test_a_few_complete_rows_are_not_described(self, path):
        lines = path.read_text().splitlines()
        path.write_text("\n".join([lines[0], *(f",{line.split(',')[1]}" for line in lines[1:-1]), lines[-1]]) + "\n")
        declared = Declared(complete=("x", "y"), reading=Reading(missing="complete-rows"))
        with pytest.raises(NotAllowed, match="refuses to describe fewer than 10 rows"):
            remote(path, policy=Policy(rows=5)).describe(declared)

    @pytest.mark.parametrize(("rows", "least"), [(5, 10), (10, 10), (25, 25)])
    def test_as_many_rows_as_the_owner_demands_are_described(self, path, rows, least):
        """This holds for the silo and each condition in it; fewer than ten rows are never described."""
        guard = Guard(Policy(rows=rows), remote=True)
        described = remote(path).describe()
        for number in (least, least - 1):
            small = replace(described.profile, rows=number)
            in_parts = replace(described.profile, conditions=(("a", number), ("b", 100)))
            for profile in (small, in_parts):
                one = replace(described, profile=profile)
                if number == least:
                    assert guard.disclosed("a", one).profile.rows == profile.rows
                else:
                    with pytest.raises(NotAllowed, match=f"fewer than {least} rows"):
                        guard.disclosed("a", one)

    def test_no_cell_of_a_bad_table_is_sent(self, path):
        path.write_text(path.read_text() + "word77,1.5\n")
        said = []
        description = remote(path, said).describe()
        assert "77" not in repr(description)
        with pytest.raises(BadInput) as error:
            remote(path, said).describe(Declared(kind="continuous"))
        assert str(error.value) == "silo a: its rows cannot be used; its owner sees why in the log"
        assert "'word77' is not a number" in said[0]


class TestReplies:
    def test_an_algorithm_that_needs_a_sum_gets_no_single_reply(self, path):
        for params in ({}, {"epsilon": 3.0}):
            asked = terms("secure-sum", {"a": ROWS, "b": ROWS}, params)
            with pytest.raises(NotAllowed, match="this algorithm needs a secure sum"):
                remote(path).solve(asked, 1, b"")

    def test_a_failure_is_sent_without_its_reason(self, path, monkeypatch):
        said, asked = [], terms("fed-sparse", {"a": ROWS, "b": ROWS})
        silo = remote(path, said)
        monkeypatch.setattr(silo, "_table", lambda terms: 1 / 0 if terms else None)
        with pytest.raises(SiloFailed) as error:
            silo.solve(asked, 1, first_broadcast(asked))
        assert str(error.value) == "silo a, round 1: ZeroDivisionError; its owner sees why in the log"
        assert "division by zero" in said[0]

    def test_the_path_of_records_on_a_full_disk_is_not_sent(self, path):
        said, asked = [], terms("fed-sparse", {"a": ROWS, "b": ROWS})
        silo = remote(path, said)
        silo._journal._db.execute("PRAGMA query_only = 1")  # as on a file system that became read-only
        with pytest.raises(RecordUnavailable) as refused:
            silo.solve(asked, 1, first_broadcast(asked))
        assert str(refused.value).startswith("silo a, round 1: its records cannot be read or written; its owner sees")
        assert ".sqlite: the journal cannot be read or written (attempt to write a readonly database)" in said[0]

    def test_a_silo_that_knows_nobody_adds_noise_that_suffices_alone(self, path):
        rows = dict.fromkeys("abcdefghi", ROWS)
        asked = terms("secure-sum", rows, {"epsilon": 8.0})
        answered = remote(path)._admitted(asked, behind_masks=True)
        assert registry.unpack(answered.spec).settings.colluders == default_threshold(9) - 1
        assert (
            answered.algorithm().private.promise(asked.schema).cost
            == asked.algorithm().private.promise(asked.schema).cost
        )
        known = replace(asked, spec=registry.pack(with_full_noise(registry.unpack(asked.spec), asked.schema)))
        assert remote(path)._admitted(known, behind_masks=True).spec == known.spec
        local = SiloService("a", path)._admitted(asked, behind_masks=True)
        assert local.spec == asked.spec

    def test_a_private_run_reads_privately_whatever_the_coordinator_says(self, path):
        asked = terms("dp-covariance", {"a": ROWS, "b": ROWS}, {"epsilon": 8.0})
        assert remote(path)._admitted(asked, behind_masks=False).declared.reading.private


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e31, 1e200])
def test_a_broadcast_of_a_private_run_is_finite_and_bounded(path, value):
    """With huge weights, a reply would overflow only if a record is large in two columns."""
    asked = terms("dp-fed-sparse", {"a": ROWS, "b": ROWS}, {"epsilon": 1e5})
    algorithm = asked.algorithm()
    broadcast = algorithm.broadcast(algorithm.open_server(asked.schema))
    changed = replace(broadcast.W, positions=np.array([1], np.uint16), values=np.array([value]))
    huge = replace(broadcast, W=changed)
    limit = r" of at most 1e\+30" if np.isfinite(value) else ""
    with pytest.raises(BadInput, match=f"must have finite numbers{limit}$"):
        remote(path).solve(asked, 1, wire.encode(huge))
    assert not (path.parent / ".fedbnsl" / "a.ledger").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_a_broadcast_of_any_run_is_finite(path, value, masked):
    """Compiled code would read outside its arrays, or LAPACK would not end."""
    asked = terms("fed-sparse", {"a": ROWS, "b": ROWS})
    algorithm = asked.algorithm()
    broadcast = algorithm.broadcast(algorithm.open_server(asked.schema))
    changed = replace(broadcast.W, positions=np.array([1], np.uint16), values=np.array([value]))
    lie = wire.encode(replace(broadcast, W=changed))
    service = SiloService("a", path)
    request = SecureSumRequest("mask", b"", lie)
    with pytest.raises(BadInput, match="must have finite numbers"):
        service._summand(asked, 1, request) if masked else service.solve(asked, 1, lie)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("members") / "study"
    init_federation(folder, ["a", "b", "c"], "127.0.0.1:8786")
    for name in "abc":
        (folder / name / "rows.csv").write_text("x,y\n1.5,2\n2.5,3\n")
    return folder


def members_of(federation, name):
    return read_silo_file(federation / name / "silo.toml").members


class TestMembers:
    def test_init_pins_all_silos(self, federation):
        pinned = members_of(federation, "a").fingerprints
        assert set(pinned) == {"a", "b", "c"}
        for name in "abc":
            certificate = x509.load_pem_x509_certificate((federation / name / f"{name}.pem").read_bytes())
            encoded = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            assert pinned[name] == hashlib.sha256(encoded).hexdigest()

    def test_silos_that_are_not_pinned_are_refused(self, federation, path):
        asked = terms("secure-sum", {"a": ROWS, "b": ROWS, "invented": ROWS})
        silo = remote(path, members=members_of(federation, "a"))
        with pytest.raises(NotAllowed, match="its owner knows a, b, c, and invented is not among them"):
            silo.secure_answer(asked, 1, SecureSumRequest("advertise", b""))

    def advertised(self, federation, path, forge):
        """Have silos a and b advertise keys; return what a answers to them, those of b and c forged."""
        asked = terms("secure-sum", dict.fromkeys("abc", ROWS))
        session = session_of("run", 1, new_attempt(), asked.schema, b"")
        silos = {
            name: SiloService(name, path, guard=Guard(remote=True, members=members_of(federation, name)))
            for name in "abc"
        }
        request = SecureSumRequest("advertise", wire.encode(session))
        keys = {name: silo.secure_answer(asked, 1, request) for name, silo in silos.items()}
        return silos["a"].secure_answer(asked, 1, SecureSumRequest("share", wire.encode(forge(keys, session))))

    def test_keys_of_members_are_accepted(self, federation, path):
        assert self.advertised(federation, path, lambda keys, session: keys)

    def test_keys_that_the_coordinator_invents_are_refused(self, federation, path):
        with pytest.raises(Refused, match="the mask keys of b are not signed by b"):
            self.advertised(federation, path, lambda keys, session: keys | {"b": bytes(range(96))})

    def test_changed_keys_are_refused(self, federation, path):
        with pytest.raises(Refused, match="the mask keys of b are not signed by b"):
            self.advertised(federation, path, lambda keys, session: keys | {"b": b"\1" * 96 + keys["b"][96:]})

    def test_keys_that_another_member_signed_are_refused(self, federation, path):
        def forge(keys, session):
            return keys | {"b": members_of(federation, "c").attest(session, "b", keys["b"][:96])}

        with pytest.raises(Refused, match="a refuses to share: it does not know the key of b"):
            self.advertised(federation, path, forge)

    def test_keys_of_an_earlier_session_are_refused(self, federation, path):
        def forge(keys, session):
            earlier = replace(session, attempt=session.attempt + 1)
            return keys | {"b": members_of(federation, "b").attest(earlier, "b", keys["b"][:96])}

        with pytest.raises(Refused, match="the mask keys of b are not signed by b"):
            self.advertised(federation, path, forge)

    def test_a_key_that_is_no_key_is_bad_input(self):
        with pytest.raises(BadInput, match="cannot be read"):
            Members.read({}, b"nothing", b"nothing")

    def test_a_key_of_another_kind_is_bad_input(self):
        """With an Ed25519 key, signing would fail in the first secure sum instead."""
        certificate = pem(new_authority("other").certificate)
        key = ed25519.Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        with pytest.raises(BadInput, match="not one created by `fedbnsl federation init`"):
            Members.read({}, certificate, key)


class TestFile:
    def written(self, federation, tmp_path, change):
        text = (federation / "a" / "silo.toml").read_text()
        file = federation / "a" / "changed.toml"
        file.write_text(change(text))
        return file

    def test_masks_without_members_are_refused(self, federation, tmp_path):
        file = self.written(federation, tmp_path, lambda text: text[: text.index("[members]")])
        with pytest.raises(BadInput, match=r"masks and silos mean nothing without \[members\]"):
            read_silo_file(file)

    def test_a_fingerprint_that_is_none_is_refused(self, federation, tmp_path):
        file = self.written(federation, tmp_path, lambda text: text + 'd = "abc"\n')
        with pytest.raises(BadInput, match="members: d is 'abc': it must be a SHA-256 fingerprint"):
            read_silo_file(file)

    def test_the_own_fingerprint_must_be_right(self, federation, tmp_path):
        own = members_of(federation, "a").own_fingerprint
        file = self.written(federation, tmp_path, lambda text: text.replace(own, own[::-1]))
        with pytest.raises(BadInput, match="the fingerprint of a is not that of"):
            read_silo_file(file)

    def test_an_epsilon_without_a_total_is_warned_of(self, federation, tmp_path):
        file = self.written(federation, tmp_path, lambda text: text.replace("# epsilon = 1.0", "epsilon = 1.0"))
        assert read_silo_file(file).warnings == (
            "policy: epsilon limits each run; without total_epsilon the sum over all runs is unlimited",
        )
        assert read_silo_file(federation / "a" / "silo.toml").warnings == ()
        old = self.written(federation, tmp_path, lambda text: f'listen = "127.0.0.1:0"\n{text}')
        assert read_silo_file(old).warnings == (
            "listen has no effect: a silo connects to the coordinator and listens nowhere",
        )

    def test_the_owners_declaration_is_read(self, federation):
        (federation / "a" / "about.json").write_text(json.dumps({"kind": "continuous"}))
        try:
            assert read_silo_file(federation / "a" / "silo.toml").declared.kind == "continuous"
        finally:
            (federation / "a" / "about.json").unlink()
        assert read_silo_file(federation / "a" / "silo.toml").declared is None


def test_a_certificate_is_sent_as_der(federation):
    certificate = members_of(federation, "a").certificate
    assert x509.load_der_x509_certificate(certificate).public_bytes(serialization.Encoding.DER) == certificate
