"""`fedbnsl audit`: verify the signed records of a run against its files, offline, for a data protection officer.

Each fault names what has been changed: a file of the result, or the disclosure statement, the policy's hash, the
signature or the key of a silo. Without certificates that the auditor trusts, the audit shows only that the records fit
together: whoever replaces all of them, with keys of their own, passes. So it says with what keys have been compared.
"""

import binascii
import hashlib
import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.core.release import Disclosed
from fedbnsl.algorithms.errors import BadInput, foreign_text, pluralize
from fedbnsl.tasks.silo.signed_records import is_hash, policy_hash, record_content, statement_hash
from fedbnsl.tasks.transport.certificates import (
    certificate_fingerprint,
    distrust_of,
    has_signed,
    holder_of,
)
from fedbnsl.tasks.transport.configuration import SiloFile, read_silo_file
from fedbnsl.tracking.kept_files import read_json
from fedbnsl.tracking.outputs import FILES, SIGNATURES

MEANING = (
    "A signature means: the program that holds the silo's key recorded at its own gate that this left the silo, and "
    "nothing else about its rows; it did so under the policy with this hash; and it has signed these files, and no "
    "other result of this run.",
    "It does not mean that the rows are true, that the owner runs the unmodified program, or that the result follows "
    "from the rows: the silo has not computed it.",
)
NOT_SIGNED = (
    "No silo has signed this run: {}. The hashes show accidental changes only: whoever can write to this folder \
can change files and hashes alike."
)
NOT_COMPARED = (
    "The keys above are those in the run's own files, so a forger may have replaced them all: compare each with \
the fingerprint that `fedbnsl silo check` prints to its owner, or give --trusted or --silo."
)


@dataclass(frozen=True)
class Audit:
    """What an audit found: lines for the reader, and a line for each fault."""

    lines: tuple[str, ...]
    faults: tuple[str, ...]


@dataclass(frozen=True)
class _Entry:
    """The signed record of a silo in `signatures.json`."""

    policy: str
    statement: str
    certificate: bytes
    signature: bytes


@dataclass(frozen=True)
class _Run:
    """The files of a run that an audit reads."""

    folder: Path
    config: Mapping[str, Any]
    statements: Mapping[str, list[dict[str, Any]]]
    run_id: str
    hashes: Mapping[str, str]
    unsigned: str
    entries: Mapping[str, _Entry]
    refused: Mapping[str, str]

    @property
    def silos(self) -> tuple[str, ...]:
        """The silos of the run, by its settings."""
        return tuple(sorted(self.config["rows"]))


def audit(folder: Path, trusted: Path | None = None, owners: Iterable[Path] = ()) -> Audit:
    """The audit of the run in `folder`.

    `trusted` has the certificates of authorities (PEM) whose silos are believed, such as the coordinator's
    `trusted.pem`. `owners` are `silo.toml` files: of each, the policy is compared with the hash that the silo signed,
    and the pinned keys with those of the signatures. Raises `BadInput` if the folder has no finished run with records,
    or a file cannot be used.
    """
    run = _read(folder)
    files = tuple(map(read_silo_file, owners))
    faults = [*_file_faults(run), *_missing_faults(run)]
    lines = [_heading(run)]
    for silo, entry in run.entries.items():
        faults += _entry_faults(run, silo, entry)
        lines.append(
            f"{silo} has signed with the key {_fingerprint(entry)}; its statement follows; its policy has the hash "
            f"{foreign_text(entry.policy)}"
        )
        lines += [f"  {line}" for line in _sent_lines(run.statements.get(silo, []))]
    if not run.entries:
        lines.append(NOT_SIGNED.format(run.unsigned or "no signature is in the file"))
        if trusted is not None or files:
            faults.append("no silo has signed this run, so no key can be compared")
        return Audit((*lines, _verdict(run, faults)), tuple(faults))
    faults += _key_faults(run, trusted, files)
    compared = _compared(trusted, files)
    return Audit((*lines, *MEANING, compared or NOT_COMPARED, _verdict(run, faults)), tuple(faults))


def _read(folder: Path) -> _Run:
    """The records of the run in `folder`; raises `BadInput` naming the file that is missing or damaged."""
    path = folder / SIGNATURES
    try:
        records = read_json(path)
        path = folder / "config.json"
        config = read_json(path)
        sorted(config["rows"])
        path = folder / "disclosure.json"
        statements = json.loads(path.read_text("utf-8"))["silos"] if path.exists() else {}
        for lines in statements.values():
            statement_hash(lines)
        path = folder / SIGNATURES
        entries = {silo: _entry(one) for silo, one in dict(records.get("silos", {})).items()}
        hashes = {str(name): str(value) for name, value in records["files"].items()}
        if not all(map(is_hash, hashes.values())):
            raise ValueError("not a hash")
        refused = {str(silo): str(one) for silo, one in records.get("refused", {}).items()}
        texts = str(records.get("run", "")), str(records.get("unsigned", ""))
    except FileNotFoundError:
        what = "no finished run of this version" if path.name == SIGNATURES else "an incomplete run"
        raise BadInput(f"{folder}: {what}: there is no {path.name}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path}: damaged, or cannot be read ({type(error).__name__})") from None
    return _Run(folder, config, statements, texts[0], hashes, texts[1], entries, refused)


def _entry(found: Mapping[str, str]) -> _Entry:
    try:
        decoded = [b64decode(found[name], validate=True) for name in ("certificate", "signature")]
    except binascii.Error as error:
        raise ValueError("not base64") from error
    return _Entry(str(found["policy"]), str(found["statement"]), *decoded)


def _heading(run: _Run) -> str:
    config = run.config
    about = f"{config.get('algorithm')} on {config.get('dataset')}, ended {config.get('ended') or 'at an unknown date'}"
    silos = ", ".join(run.silos)
    return foreign_text(f"Run {config.get('name')}: {about}, with {pluralize(len(run.silos), 'silo')}: {silos}")


def _sent_lines(statement: Iterable[Mapping[str, Any]]) -> list[str]:
    """The lines of a disclosure statement in words; a line that this version cannot read is shown as it is."""
    found = []
    for line in statement:
        try:
            found.append(Disclosed(**line).in_words)
        except (TypeError, ValueError):
            found.append(foreign_text(json.dumps(line)))
    return found


def _file_faults(run: _Run) -> Iterator[str]:
    """Files that are not as they were when the hashes were made."""
    when = "the silos signed it" if run.entries else "the run ended"
    for name, expected in run.hashes.items():
        path = run.folder / Path(name).name
        try:
            content = path.read_bytes()
        except OSError:
            yield f"{foreign_text(name)} is missing or cannot be read; it was there when {when}"
            continue
        if hashlib.sha256(content).hexdigest() != expected:
            yield f"{foreign_text(name)} has been changed since {when}"
    added = [name for name in FILES if name not in run.hashes and name != SIGNATURES and (run.folder / name).exists()]
    for name in added:
        yield f"{name} has been added since {when}"


def _missing_faults(run: _Run) -> Iterator[str]:
    """Silos of the run without a statement or a signature, and strangers among the signatures."""
    for silo in sorted({*run.entries, *run.statements} - {*run.silos}):
        yield f"{foreign_text(silo)} has a record, but is no silo of this run"
    for silo in run.silos:
        name = foreign_text(silo)
        if silo in run.refused:
            yield f"{name} has not signed: {foreign_text(run.refused[silo])}"
        elif silo not in run.entries and not run.unsigned:
            yield f"{name} took part in the run, and its signature is missing"
        if silo not in run.statements and silo not in run.refused:
            yield f"{name} took part in the run, and its disclosure statement is missing"


def _entry_faults(run: _Run, silo: str, entry: _Entry) -> Iterator[str]:
    """What is wrong with the record of `silo` by itself."""
    name = foreign_text(silo)
    holder = _holder(entry)
    if holder != silo:
        yield f"the signature of {name} is made with the certificate of {foreign_text(holder)}"
    content = record_content(run.run_id, silo, entry.policy, entry.statement, run.hashes)
    if not has_signed(entry.certificate, entry.signature, content):
        yield (
            f"the signature of {name} is not valid: it is for another run, statement, policy or list of files, or is "
            "not made with the key of its certificate"
        )
    if statement_hash(run.statements.get(silo, [])) != entry.statement:
        yield f"the disclosure statement of {name} in disclosure.json is not the one that {name} signed"


def _key_faults(run: _Run, trusted: Path | None, files: Iterable[SiloFile]) -> Iterator[str]:
    """Keys and policies that are not those of the auditor's own files."""
    day = str(run.config.get("ended", ""))
    for silo, entry in run.entries.items():
        if trusted is not None and (reason := distrust_of(entry.certificate, trusted, day)):
            yield f"the key of {foreign_text(silo)} is not to be trusted: {reason}"
    for file in files:
        yield from _owner_faults(run, file)


def _owner_faults(run: _Run, file: SiloFile) -> Iterator[str]:
    """Keys and the policy that are not those of an owner's `file`."""
    known = {file.name: file.identity.fingerprint()} | (dict(file.members.fingerprints) if file.members else {})
    for silo, entry in run.entries.items():
        if silo in known and _fingerprint(entry) != known[silo]:
            yield f"the key of {foreign_text(silo)} is not the one that {file.path} knows"
        elif silo not in known and file.members is not None:
            yield f"{foreign_text(silo)} is not among the members that {file.path} knows"
    own = run.entries.get(file.name)
    if own is None:
        yield f"{file.name}, the silo of {file.path}, has not signed this run"
    elif own.policy != policy_hash(file.policy):
        yield f"the policy in {file.path} is not the one under which {file.name} answered"


def _compared(trusted: Path | None, files: tuple[SiloFile, ...]) -> str:
    """A sentence on what keys and policies were compared with; "" if with nothing."""
    parts = [f"keys with the authorities in {trusted}"] if trusted is not None else []
    parts += [f"keys and the policy of {file.name} with {file.path}" for file in files]
    return f"Compared: {'; '.join(parts)}." if parts else ""


def _verdict(run: _Run, faults: list[str]) -> str:
    if faults:
        return f"Faults: {len(faults)}. Do not rely on this record."
    if not run.entries:
        return (
            f"No fault: the {pluralize(len(run.hashes), 'file')} are as the run wrote them, as far as hashes can show."
        )
    silos, files = pluralize(len(run.entries), "silo"), pluralize(len(run.hashes), "file")
    return f"No fault: {silos} signed; {files} and all statements are as signed."


def _holder(entry: _Entry) -> str:
    try:
        return holder_of(entry.certificate)
    except ValueError:
        return "nobody"


def _fingerprint(entry: _Entry) -> str:
    try:
        return certificate_fingerprint(entry.certificate)
    except ValueError:
        return "of a damaged certificate"
