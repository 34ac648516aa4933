"""`signatures.json`: the hashes of the files of a run, and the records of the run that its silos have signed.

Silos of other owners sign after the files are written, before they forget the run (`tasks/silo/signed_records.py`). If
one process reads the rows of all silos, nobody else could sign, and the file has the hashes only.
"""

import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedbnsl.tasks.silo.signed_records import SignedRecord
from fedbnsl.tracking.kept_files import write_json
from fedbnsl.tracking.outputs import SIGNATURES
from fedbnsl.tracking.staging import notice

ONE_PROCESS = "one process read the rows of all silos, so there was no other owner to sign"
BROKEN_OFF = "the run was broken off, and silos sign finished runs only"

Sign = Callable[[dict[str, str]], Mapping[str, SignedRecord | str]]
"""the hashes of files -> by silo its signed record, or why it has signed none"""


def write_unsigned(folder: Path, files: Mapping[str, Path], reason: str = ONE_PROCESS) -> dict[str, Path]:
    """Write the hashes of the `files` of a run into `folder`; returns the files and the file of the hashes."""
    return _write(folder, files, {"files": hashes_of(files), "unsigned": reason})


def write_signed(folder: Path, run_id: str, files: Mapping[str, Path], sign: Sign) -> dict[str, Path]:
    """Have the silos `sign` the hashes of the `files` of the run `run_id`, and write the signed records into `folder`.

    Returns the files and the file of the records.
    """
    hashes = hashes_of(files)
    records = sign(hashes)
    signed = {silo: _as_json(one) for silo, one in records.items() if isinstance(one, SignedRecord)}
    refused = {silo: one for silo, one in records.items() if isinstance(one, str)}
    for silo, reason in refused.items():
        notice(f"{silo} has not signed the record of this run: {reason}")
    return _write(folder, files, {"run": run_id, "files": hashes, "silos": signed, "refused": refused})


def hashes_of(files: Mapping[str, Path]) -> dict[str, str]:
    """The SHA-256 hashes of `files`, in hexadecimal."""
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sorted(files.items())}


def _as_json(record: SignedRecord) -> dict[str, str]:
    """The `record` with bytes in base64."""
    return {
        "policy": record.policy,
        "statement": record.statement,
        "certificate": b64encode(record.certificate).decode(),
        "signature": b64encode(record.signature).decode(),
    }


def _write(folder: Path, files: Mapping[str, Path], content: Mapping[str, Any]) -> dict[str, Path]:
    path = folder / SIGNATURES
    try:
        write_json(path, content)
    except OSError as error:  # the results are there: the run is not lost
        notice(f"{path}: cannot be written ({error.strerror}); this run cannot be audited")
        return dict(files)
    return {**files, SIGNATURES: path}
