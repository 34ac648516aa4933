"""The newest finished run of a deployment, kept in a small file beside the runs: what the next one is compared with.

Of the silos' rows the file has only their seals (`tasks/silo/seal.py`), which tell whoever lacks a silo's secret that
its rows are the same as before, or not, and nothing else. That alone is no part of what an ε bounds.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from fedbnsl.data.folder.about import read_about
from fedbnsl.data.folder.folder import TRUTH
from fedbnsl.flows.options.learn import LearnSettings

KEPT = ".repeated"
"""the folder of these files, beside those of the runs"""
NO_MATTER = {"name", "out", "resume", "silo_patience"}
"""settings that make no difference to what is learned"""


@dataclass(frozen=True)
class LastRun:
    """A finished run: its folder, what was asked (see `question_of`), and the seals of the silos that took part."""

    folder: str
    question: str
    seals: Mapping[str, str]


def last_run_file(runs: Path, deployment: str) -> Path:
    """Return where the last run of `deployment` is kept, whose runs are in the folder `runs`."""
    return runs / KEPT / f"{quote(deployment, safe='')}.json"


def read_last_run(file: Path) -> LastRun | None:
    """Return the last run, None where there is none or the file is not as it was written."""
    try:
        told = json.loads(file.read_text("utf-8"))
        return LastRun(str(told["folder"]), str(told["question"]), {str(k): str(v) for k, v in told["seals"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_last_run(file: Path, last: LastRun) -> None:
    """Keep `last`, whole or not at all; raises `OSError` where it cannot be written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    begun = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        begun.write_text(json.dumps(asdict(last), indent=1), "utf-8")
        os.replace(begun, file)
    finally:
        begun.unlink(missing_ok=True)


def question_of(settings: LearnSettings) -> str:
    """Return a digest of what is asked: all settings that matter, the version, and the files that are not rows.

    `about.json` enters without its checksums, which are digests of rows.
    """
    folder = Path(settings.data)
    about = read_about(folder) if folder.is_dir() else {}
    files = [folder / TRUTH, *(Path(one) for one in (settings.knowledge, settings.federation) if one)]
    contents = [hashlib.sha256(one.read_bytes()).hexdigest() if one.is_file() else "" for one in files]
    asked = settings.model_dump(mode="json", exclude=NO_MATTER)
    said = {name: value for name, value in about.items() if name != "checksums"}
    told = json.dumps([asked, said, contents, version("fedbnsl")], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()
