"""Signed records of a run: silos sign, and the audit finds whatever has been changed since then."""

import hashlib
import json
import shutil
from base64 import b64decode, b64encode

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.engines.dask import Silos
from fedbnsl.flows.engines.inline import job_inline
from fedbnsl.flows.inference.audit import audit
from fedbnsl.flows.job.job import Session
from fedbnsl.flows.job.run import run
from fedbnsl.flows.job.signing import write_signed, write_unsigned
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo.guard import Guard
from fedbnsl.tasks.silo.messages import MethodCall, answer, unpack_answer
from fedbnsl.tasks.silo.policy import NotAllowed, Policy
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.federation import SiloFederation
from fedbnsl.tasks.transport.in_process import InProcessTransport, in_process_roster
from fedbnsl.tracking.outputs import write_outputs
from tests.flows.commands import run as command
from tests.flows.owners import identity

NAMES = ("clinic", "lab", "ward")
POLICY = Policy(rows=50)


class Study:
    """A federation whose silos are in this process, each with its certificate and a policy, and a run of it."""

    def __init__(self, folder):
        self.folder, self.run = folder, folder / "run"
        init_federation(folder / "study", NAMES, "127.0.0.1:1")
        self.data = homogeneous(variables=4, silos=3, rows=60, seed=1)
        write_folder(folder / "data", self.data)
        self.files = dict(zip(NAMES, silo_files(folder / "data").values(), strict=True))
        self.services = {silo: self.service(silo) for silo in NAMES}
        self.trusted = folder / "study" / "coordinator" / "trusted.pem"

    def service(self, silo):
        guard = Guard(POLICY, remote=True, signer=identity(self.folder / "study" / silo, silo))
        return SiloService(silo, self.files[silo], guard=guard)

    def learn(self, run_id="run-1", folder=None, silos=NAMES):
        """Learn from `silos`, write the files, and have the silos sign them."""
        folder = folder or self.run
        transport = InProcessTransport({silo: self.services[silo] for silo in silos})
        renamed = dict(zip(self.data.schema.silos, NAMES, strict=True))
        rows = {renamed[silo]: rows for silo, rows in self.data.schema.rows.items()}
        schema = type(self.data.schema)(self.data.schema.variables, rows, "continuous")
        settings = LearnSettings(
            data=str(self.folder / "data"), name=run_id, algorithm="fed-pc", diagnose=False, bootstrap=0
        )
        job = job_inline(settings.named(), run_id, self.data)
        made = []

        def connect(job, spec, part):
            terms = RunTerms(part, registry.pack(spec), job.run_schema(schema), 0, step_of=job.run_id)
            made.append(SiloFederation(in_process_roster(transport, NAMES), terms))
            return made[-1]

        session = Session(schema, connect)
        result = run(job, session)
        self.silos = Silos(session, {}, None, {}, made, connect)
        files = write_outputs(result, folder)
        write_signed(folder, run_id, files, lambda found: self.silos.sign(run_id, found))
        return folder


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    found = Study(tmp_path_factory.mktemp("audit"))
    found.learn()
    yield found
    for service in found.services.values():
        service.close()


@pytest.fixture
def copy(study, tmp_path):
    """A copy of the run, for a test to change."""
    return shutil.copytree(study.run, tmp_path / "run")


def edit(path, change):
    """Apply `change` to the JSON in the file at `path`."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def owner_file(study, silo, policy):
    """The `silo.toml` of `silo` with rows that exist, and the lines of its `policy`."""
    path = study.folder / "study" / silo / "silo.toml"
    lines = path.read_text().split("\n[policy]")[0].splitlines()
    lines = [f'data = "{study.files[silo]}"' if line.startswith("data") else line for line in lines]
    rest = path.read_text().partition("[members]")
    members = "".join(rest[1:])
    changed = path.with_name(f"silo-{len(list(path.parent.iterdir()))}.toml")
    changed.write_text("\n".join(lines) + f"\n[policy]\n{policy}\n" + members)
    return changed


def test_an_honest_run_has_no_fault_and_says_what_a_signature_means(study):
    found = audit(study.run, study.trusted, [owner_file(study, "clinic", "rows = 50")])
    assert found.faults == ()
    text = "\n".join(found.lines)
    for silo in NAMES:
        assert f"{silo} has signed with the key {study.services[silo]._guard.signer.fingerprint()}" in text
    assert text.count("  round of fed-pc; ") == 3
    assert "It does not mean that the rows are true" in text
    assert f"Compared: keys with the authorities in {study.trusted}" in text
    assert "a forger may have replaced them all" in "\n".join(audit(study.run).lines)


def test_an_independent_program_verifies_the_signatures(study):
    """From the documented form: a prefix, and JSON with sorted keys and no spaces."""
    records = json.loads((study.run / "signatures.json").read_text())
    statements = json.loads((study.run / "disclosure.json").read_text())["silos"]
    for silo in NAMES:
        one = records["silos"][silo]
        lines = [line for line in statements[silo] if line["statistic"] not in ("records", "refusals")]
        lines = [{key: value for key, value in line.items() if key != "smallest"} for line in lines]
        statement = json.dumps(lines, sort_keys=True, separators=(",", ":"))
        content = {
            "run": "run-1",
            "silo": silo,
            "policy": hashlib.sha256(b'{"rows":50}').hexdigest(),
            "statement": hashlib.sha256(statement.encode()).hexdigest(),
            "files": {name: hashlib.sha256((study.run / name).read_bytes()).hexdigest() for name in records["files"]},
        }
        signed = b"fedbnsl record\0" + json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        certificate = x509.load_der_x509_certificate(b64decode(one["certificate"]))
        certificate.public_key().verify(b64decode(one["signature"]), signed, ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize("name", ["structure.csv", "metrics.json", "rounds.csv", "config.json", "report.html"])
def test_a_changed_or_missing_file_is_named(copy, name):
    path = copy / name
    content = path.read_bytes()
    path.write_bytes(content + b" ")
    assert audit(copy).faults == (f"{name} has been changed since the silos signed it",)
    if name == "config.json":
        return
    path.unlink()
    assert audit(copy).faults == (f"{name} is missing or cannot be read; it was there when the silos signed it",)


def test_an_added_file_is_named(copy):
    (copy / "model.bif").write_text("network")
    assert audit(copy).faults == ("model.bif has been added since the silos signed it",)


def test_a_changed_statement_is_named(copy):
    edit(copy / "disclosure.json", lambda content: content["silos"]["lab"][-1].update(rows=1))
    faults = audit(copy).faults
    assert "disclosure.json has been changed since the silos signed it" in faults
    assert "the disclosure statement of lab in disclosure.json is not the one that lab signed" in faults
    assert not any("clinic" in fault or "ward" in fault for fault in faults)


def test_a_statement_with_a_matching_forged_hash_is_named(copy):
    """Whoever changes the statement, its hash and the file's hash still has no signature of it."""
    edit(copy / "disclosure.json", lambda content: content["silos"]["lab"].pop())
    lines = json.loads((copy / "disclosure.json").read_text())["silos"]["lab"]
    lines = [{key: value for key, value in line.items() if key != "smallest"} for line in lines]
    forged = hashlib.sha256(json.dumps(lines, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    edit(copy / "signatures.json", lambda content: content["silos"]["lab"].update(statement=forged))
    faults = audit(copy).faults
    assert any(fault.startswith("the signature of lab is not valid") for fault in faults)


def test_forged_hashes_of_files_have_no_signature(copy):
    (copy / "structure.csv").write_text("source,target\n")
    forged = hashlib.sha256((copy / "structure.csv").read_bytes()).hexdigest()
    edit(copy / "signatures.json", lambda content: content["files"].update({"structure.csv": forged}))
    faults = audit(copy).faults
    assert len(faults) == 3
    assert all(
        fault.startswith(f"the signature of {silo} is not valid") for silo, fault in zip(NAMES, faults, strict=True)
    )


def test_swapped_signatures_are_named(copy):
    def swap(content):
        silos = content["silos"]
        silos["clinic"], silos["lab"] = silos["lab"], silos["clinic"]

    edit(copy / "signatures.json", swap)
    faults = audit(copy).faults
    assert "the signature of clinic is made with the certificate of lab" in faults
    assert "the signature of lab is made with the certificate of clinic" in faults
    assert not any("ward" in fault for fault in faults)


def test_a_key_that_is_not_the_one_in_the_certificate_is_named(copy, study):
    """A signature by another key under the right certificate; and a right signature under another certificate."""
    records = json.loads((copy / "signatures.json").read_text())["silos"]
    other = records["ward"]["certificate"]
    edit(copy / "signatures.json", lambda content: content["silos"]["lab"].update(certificate=other))
    faults = audit(copy).faults
    assert "the signature of lab is made with the certificate of ward" in faults
    assert any(fault.startswith("the signature of lab is not valid") for fault in faults)
    key = ec.generate_private_key(ec.SECP256R1())
    forged = b64encode(key.sign(b"anything", ec.ECDSA(hashes.SHA256()))).decode()
    lab = records["lab"]["certificate"]
    edit(copy / "signatures.json", lambda content: content["silos"]["lab"].update(certificate=lab, signature=forged))
    assert [fault.split(":")[0] for fault in audit(copy).faults] == ["the signature of lab is not valid"]


def test_keys_of_a_forger_are_named_by_authorities_and_by_owners(study, tmp_path):
    """Another federation with the same names passes alone, and with no file of the true one."""
    forger = Study(tmp_path / "forger")
    forger.learn("run-1")
    assert audit(forger.run).faults == ()
    faults = audit(forger.run, study.trusted).faults
    assert [fault.split(":")[0] for fault in faults] == [f"the key of {silo} is not to be trusted" for silo in NAMES]
    own = owner_file(study, "clinic", "rows = 50")
    faults = audit(forger.run, owners=[own]).faults
    assert faults == tuple(f"the key of {silo} is not the one that {own} knows" for silo in NAMES)
    for service in forger.services.values():
        service.close()


def test_a_certificate_counts_on_the_day_of_the_run(copy, study):
    edit(copy / "config.json", lambda content: content.update(ended="2001-01-01"))
    faults = audit(copy, study.trusted).faults
    assert sum("its certificate is valid from" in fault for fault in faults) == 3


def test_another_policy_is_named(study):
    changed = owner_file(study, "lab", "rows = 51")
    assert audit(study.run, owners=[changed]).faults == (
        f"the policy in {changed} is not the one under which lab answered",
    )


def test_a_stranger_to_an_owner_and_an_owner_without_a_record_are_named(study, copy):
    known = owner_file(study, "clinic", "rows = 50")
    known.write_text("\n".join(line for line in known.read_text().splitlines() if not line.startswith('"ward"')))
    assert audit(study.run, owners=[known]).faults == (f"ward is not among the members that {known} knows",)
    edit(copy / "signatures.json", lambda content: content["silos"].pop("clinic"))
    own = owner_file(study, "clinic", "rows = 50")
    assert f"clinic, the silo of {own}, has not signed this run" in audit(copy, owners=[own]).faults


def test_a_forged_hash_of_the_policy_has_no_signature(copy):
    edit(copy / "signatures.json", lambda content: content["silos"]["lab"].update(policy="0" * 64))
    assert [fault.split(":")[0] for fault in audit(copy).faults] == ["the signature of lab is not valid"]


def test_a_missing_silo_is_named(copy):
    edit(copy / "signatures.json", lambda content: content["silos"].pop("ward"))
    assert audit(copy).faults == ("ward took part in the run, and its signature is missing",)
    edit(copy / "disclosure.json", lambda content: content["silos"].pop("ward"))
    assert "ward took part in the run, and its disclosure statement is missing" in audit(copy).faults


def test_a_stranger_is_named(copy):
    edit(copy / "disclosure.json", lambda content: content["silos"].update(bank=[]))
    assert "bank has a record, but is no silo of this run" in audit(copy).faults


def test_records_of_another_run_do_not_fit(study, copy, tmp_path):
    other = study.learn("run-2", tmp_path / "other")
    assert audit(other).faults == ()
    shutil.copy(other / "disclosure.json", copy / "disclosure.json")
    assert "disclosure.json has been changed since the silos signed it" in audit(copy).faults
    shutil.copy(study.run / "disclosure.json", copy / "disclosure.json")
    entry = json.loads((other / "signatures.json").read_text())["silos"]["lab"]
    edit(copy / "signatures.json", lambda content: content["silos"].update(lab=entry))
    assert any(fault.startswith("the signature of lab is not valid") for fault in audit(copy).faults)
    shutil.copy(study.run / "signatures.json", copy / "signatures.json")
    edit(copy / "signatures.json", lambda content: content.update(run="run-2"))
    assert sum(fault.startswith("the signature of") for fault in audit(copy).faults) == 3


OTHER = {"structure.csv": "0" * 64}
"""the hashes of another result"""


class TestSilo:
    def test_signs_one_result_of_a_run(self, study):
        with pytest.raises(NotAllowed, match="silo lab: it has already signed another result of this run"):
            study.services["lab"].sign("run-1", OTHER)
        same = json.loads((study.run / "signatures.json").read_text())["files"]
        assert study.services["lab"].sign("run-1", dict(reversed(same.items()))).policy

    def test_remembers_what_it_has_signed_after_a_restart(self, study):
        again = study.service("lab")
        with pytest.raises(NotAllowed, match="already signed another result"):
            again.sign("run-1", OTHER)
        again.close()

    def test_signs_no_run_of_others(self, study):
        with pytest.raises(NotAllowed, match="silo lab: it has not taken part in this run"):
            study.services["lab"].sign("unknown", OTHER)

    def test_without_a_key_signs_nothing(self, study):
        with pytest.raises(NotAllowed, match="silo lab: it has no certificate"):
            SiloService("lab", study.files["lab"]).sign("run-1", OTHER)

    @pytest.mark.parametrize(
        "files",
        [
            {"a": "0" * 63},
            {"a": "g" * 64},
            {"": "0" * 64},
            {"a\n": "0" * 64},
            {"a" * 101: "0" * 64},
            {str(number): "0" * 64 for number in range(101)},
        ],
    )
    def test_signs_hashes_of_files_only(self, study, files):
        """So a coordinator cannot have other content signed."""
        with pytest.raises(BadInput, match="a result has at most 100 files, each with its SHA-256 hash"):
            study.services["lab"].sign("run-1", files)

    def test_is_asked_in_bytes(self, study):
        files = json.loads((study.run / "signatures.json").read_text())["files"]
        packed = answer(study.services["lab"], MethodCall("sign", ("run-1", files)).pack())
        assert unpack_answer("sign", packed).certificate == study.services["lab"]._guard.signer.own_certificate()


def test_a_silo_that_refuses_costs_only_its_own_signature(study, tmp_path, capsys):
    study.services["lab"]._guard.__dict__["signer"] = None
    try:
        study.learn("run-4", tmp_path / "run")
    finally:
        study.services["lab"]._guard.__dict__["signer"] = identity(study.folder / "study" / "lab", "lab")
    assert "note: lab has not signed the record of this run: silo lab: it has no certificate" in capsys.readouterr().err
    found = audit(tmp_path / "run")
    assert found.faults == ("lab has not signed: silo lab: it has no certificate, so it signs no record",)


def test_lost_silos_have_not_signed(study, tmp_path):
    study.learn("run-5", tmp_path / "run")
    study.silos.federations[-1].roster.lost["ward"] = "no response"
    signed = study.silos.sign("run-5", json.loads((tmp_path / "run" / "signatures.json").read_text())["files"])
    assert signed["ward"] == "lost: no response"
    assert not isinstance(signed["lab"], str)


class TestOneProcess:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("inline")
        write_folder(folder / "data", homogeneous(variables=4, silos=3, rows=60, seed=1))
        words = ("learn", folder / "data", "--engine", "inline", "--out", folder / "run", "--algorithm", "fed-pc")
        with pytest.raises(SystemExit) as end:
            main(list(map(str, words)))
        assert end.value.code == 0
        return folder

    def test_nobody_signs_and_the_audit_says_so(self, folder, capsys):
        code, out, _ = command(capsys, "audit", folder / "run")
        assert code == 0
        assert "No silo has signed this run: one process read the rows of all silos" in out
        assert "No fault" in out

    def test_an_accidental_change_is_found(self, folder, tmp_path, capsys):
        copy = shutil.copytree(folder / "run", tmp_path / "run")
        (copy / "structure.csv").write_text("source,target\n")
        code, out, err = command(capsys, "audit", copy)
        assert code == 2
        assert "fault: structure.csv has been changed since the run ended" in out
        assert err == f"error: {copy}: the audit found 1 fault\n"

    def test_keys_that_should_be_there_are_missed(self, folder, study):
        assert audit(folder / "run", study.trusted).faults == (
            "no silo has signed this run, so no key can be compared",
        )


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("signatures.json", None, "no finished run of this version: there is no signatures.json"),
        ("config.json", None, "an incomplete run: there is no config.json"),
        ("signatures.json", "{", "damaged, or cannot be read"),
        ("signatures.json", "[]", "damaged, or cannot be read"),
        ("signatures.json", '{"files": {"a": "b"}}', "damaged, or cannot be read"),
        ("signatures.json", '{"files": {}, "silos": {"lab": {}}}', "damaged, or cannot be read"),
        ("disclosure.json", '{"silos": {"lab": [1]}}', "damaged, or cannot be read"),
        ("signatures.json", '{"format": 9, "files": {}}', "the signed records of a run in format 9"),
    ],
)
def test_a_damaged_record_is_one_line(copy, name, content, reason):
    (copy / name).unlink() if content is None else (copy / name).write_text(content)
    with pytest.raises(BadInput, match=reason):
        audit(copy)


def test_damaged_base64_and_certificates(copy):
    edit(copy / "signatures.json", lambda content: content["silos"]["lab"].update(certificate="AAAA"))
    found = audit(copy)
    assert "lab has signed with the key of a damaged certificate" in "\n".join(found.lines)
    assert "the signature of lab is made with the certificate of nobody" in found.faults
    edit(copy / "signatures.json", lambda content: content["silos"]["lab"].update(certificate="%"))
    with pytest.raises(BadInput, match="damaged"):
        audit(copy)


def test_a_file_of_hashes_that_cannot_be_written_costs_no_result(tmp_path, monkeypatch, capsys):
    (tmp_path / "structure.csv").write_text("a")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedbnsl.flows.job.signing.write_json", full)
    files = {"structure.csv": tmp_path / "structure.csv"}
    assert write_unsigned(tmp_path, files) == files
    assert "cannot be written (No space left on device); this run cannot be audited" in capsys.readouterr().err
