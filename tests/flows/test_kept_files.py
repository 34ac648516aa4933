"""Every file that fedbnsl writes and reads again states the version of its format, and is refused with another one.

A federation runs as a deployment does: it is interrupted, resumed, repeated, and compared. An audit hook of Python sees
which of the files that it has written it opens again. So a new kind of kept file without a format fails here.
"""

import json
import os
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedbnsl import benchmark, load
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.engines.flow_run_log import FlowRunLog
from fedbnsl.flows.engines.recurring import ended_run, only_run
from fedbnsl.flows.engines.resuming import read_started
from fedbnsl.flows.engines.retention import read_record
from fedbnsl.flows.engines.run_comparison import claimed_run, read_last_run, read_run
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.inference.audit import audit
from fedbnsl.flows.learn import learn_from_silos
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.options.repeat import RepeatSettings
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tasks.silo.journal import Journal
from fedbnsl.tasks.silo.ledger import FileLedger
from fedbnsl.tasks.silo.publications import Publications
from fedbnsl.tracking import checkpoint
from fedbnsl.tracking.kept_files import FORMATS, format_of
from fedbnsl.tracking.mlflow.tracker import read_outbox
from fedbnsl.tracking.own_servers import MLFLOW, PREFECT, announced_server, announcement
from tests.flows.owners import owners_of

WITHOUT_FORMAT = {
    "*.csv": "tables of results, whose format is that of config.json",
    "metrics.json": "figures by name, beside config.json",
    "disclosure.json": "statements by silo, beside signatures.json",
    "*.html": "for browsers; its hash is compared",
    "*.png": "pictures; their hashes are compared",
    "secret": "32 random bytes",
    ".running": "an empty lock",
    "*-wal": "SQLite's own, beside a database",
}
"""patterns of files that are read again and state no format, and why"""

SEEN: list[set[str]] = []
"""the files that are opened to be read, in a set, while a test collects them"""


def watch(event, arguments):
    """An audit hook, which Python cannot remove: it notes files that are opened for reading."""
    if not SEEN or event not in ("open", "sqlite3.connect"):
        return
    path, *more = arguments
    if event == "open":
        mode, flags = more
        if isinstance(path, int) or (mode is None and flags & os.O_ACCMODE == os.O_WRONLY):
            return
        if mode is not None and "r" not in mode and "+" not in mode:
            return
    SEEN[-1].add(os.path.abspath(os.fsdecode(path)))


sys.addaudithook(watch)


class InterruptError(Exception):
    """The end of a run by a signal."""


def learn(settings, repeat, *listeners):
    """Learn as a scheduled run does, without Prefect."""
    orchestration = Orchestration()
    orchestration.connected = False
    log = FlowRunLog(orchestration, "run")
    return learn_from_silos(settings.named(), RunContext(listeners), orchestration, log, repeat)


def interrupt(progress):
    if progress.round.number == 2:
        raise InterruptError


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder of everything, copies of the files of an interrupted run, and the files that were read again."""
    place = tmp_path_factory.mktemp("kept")
    data = homogeneous(variables=4, silos=3, rows=80, seed=1)
    write_folder(place / "data", data)
    given, home = {path for path in place.rglob("*") if path.is_file()}, place / "home"
    patch = pytest.MonkeyPatch()
    patch.chdir(place)
    patch.setenv("PREFECT_HOME", str(home))
    patch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    SEEN.append(set())
    copies = {}
    with owners_of(silo_files(place / "data"), place / "federation") as owners:
        (owners.file.parent / "about.json").write_text('{"kind": "continuous"}')
        given |= {path for path in (place / "federation").rglob("*") if path.is_file()}
        nightly = RepeatSettings(deployment="nightly", unchanged="learn")

        def settings(name, **more):
            return LearnSettings(
                data=str(owners.file.parent), federation=str(owners.file), name=name, out=f"runs/{name}", **more
            )

        several = {"algorithm": "notears-admm", "params": {"rounds": 4}}
        now = datetime.now(UTC)
        with only_run(place / "runs", "nightly", now), pytest.raises(InterruptError):
            learn(settings("monday", **several), nightly, interrupt)
        copies = {path: path.read_bytes() for path in (place / "runs").rglob("*") if path.is_file()}
        assert claimed_run(settings("x", **several).named(), "nightly")
        with only_run(place / "runs", "nightly", now + timedelta(days=1)):
            learn(settings("monday", resume=True, **several), nightly)
        learn(settings("tuesday", **several), nightly)
        learn(settings("private", algorithm="dp-covariance", epsilon=50.0), None)
    load(place / "runs" / "monday")
    assert audit(place / "runs" / "monday").faults == ()
    assert ended_run(place / "runs", "nightly")
    assert read_outbox(place / "runs" / "tuesday")
    assert read_record(place / "runs" / "monday").deployment == "nightly"
    benchmark(str(place / "data"), ["secure-sum"], seeds=1, out=str(place / "bench"), workers=0)
    benchmark(str(place / "data"), ["secure-sum"], seeds=1, out=str(place / "bench"), workers=0)
    for kind in (PREFECT, MLFLOW):
        with announcement(home, kind) as public:
            os.pwrite(public.lock, b"", 0)
            copies[home / kind.file] = url(public)
            announced_server(home, lambda: "a:b", kind)
    read = {Path(path) for path in SEEN.pop()}
    patch.undo()
    written = {path for path in place.rglob("*") if path.is_file()} | set(copies)
    return place, copies, (read & written) - given


def url(public):
    """The content of the record of a server, after its address has been written."""
    copy = os.dup(public.lock)
    public.name("http://127.0.0.1:9/api")
    try:
        return os.pread(copy, 1000, 0)
    finally:
        os.close(copy)


def test_every_file_that_is_read_again_is_in_the_table(kept):
    place, _, read = kept
    names = {path.relative_to(place).as_posix() for path in read}
    unknown = {
        name
        for name in names
        if format_of(Path(name)) is None and not any(Path(name).match(pattern) for pattern in WITHOUT_FORMAT)
    }
    assert unknown == set()
    assert {format_of(Path(name)).what for name in names if format_of(Path(name))} == {
        one.what for one in FORMATS.values()
    }


def restated(path, version):
    """Have the file at `path` state another `version`; fails if it states none."""
    if path.suffix in (".sqlite", ".ledger", ".published"):
        with closing(sqlite3.connect(path)) as db:
            (old,) = db.execute("PRAGMA user_version").fetchone()
            db.execute(f"PRAGMA user_version = {version}")
        assert old == format_of(path).version
        return
    content = path.read_bytes()
    if content[:1] == b"{":
        first, *lines = content.decode().splitlines() if path.suffix == ".jsonl" else [content.decode()]
        values = json.loads(first)
        assert values["format"] == format_of(path).version
        path.write_text("\n".join([json.dumps(values | {"format": version}), *lines]))
        return
    line, _, rest = content.partition(b"\n")
    words = line.split(b" ")
    assert words[-1] == b"%d" % format_of(path).version
    path.write_bytes(b" ".join([*words[:-1], b"%d" % version]) + b"\n" + rest)


def journal(path):
    with Journal(path):
        pass


def published(path):
    with Journal(path.with_suffix(".sqlite")) as beside:
        Publications(path, beside).check("silo-1", None, 1)


def deployment_lock(path):
    with only_run(path.parent.parent, path.stem, datetime.now(UTC)):
        pass


READERS = {
    "*.sqlite": journal,
    "*.ledger": lambda path: FileLedger(path).charges(),
    "*.published": published,
    "checkpoint.bin": checkpoint.load,
    "started.json": lambda path: read_started(path.parent),
    "untracked.bin": lambda path: read_outbox(path.parent),
    "config.json": lambda path: read_run(path.parent),
    "signatures.json": lambda path: audit(path.parent),
    "model.json": lambda path: load(path.parent),
    ".repeated/*.json": read_last_run,
    ".repeated/*.claim": read_last_run,
    ".repeated/*.lock": deployment_lock,
    ".record.json": lambda path: read_record(path.parent),
    "runs.jsonl": lambda path: benchmark(
        str(path.parent.parent / "data"), ["secure-sum"], seeds=1, out=str(path.parent), workers=0
    ),
}
"""by pattern, what reads a file"""


@pytest.mark.parametrize("pattern", READERS)
@pytest.mark.parametrize("change", [1, -1])
def test_a_file_of_another_format_is_refused_in_one_line(kept, pattern, change):
    """The line names the file, both versions, and the remedy."""
    place, copies, _ = kept
    for path, content in copies.items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    known = FORMATS[pattern]
    path = next(
        path for path in sorted(place.rglob("*")) if format_of(path) == known and path.match(pattern.split("/")[-1])
    )
    restated(path, known.version + change or 77)
    try:
        with pytest.raises(BadInput) as refused:
            READERS[pattern](path)
    finally:
        stated = known.version + change or 77
        restate_back(path, stated, known.version)
    assert str(refused.value) == (
        f"{path}: {known.what} in format {stated}; this version of fedbnsl reads format {known.version}: {known.remedy}"
    )


def restate_back(path, stated, version):
    """Undo `restated`."""
    if path.suffix in (".sqlite", ".ledger", ".published"):
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"PRAGMA user_version = {version}")
    else:
        for old, new in ((b'"format": %d', b'"format": %d'), (b" %d\n", b" %d\n")):
            path.write_bytes(path.read_bytes().replace(old % stated, new % version, 1))


@pytest.mark.parametrize("kind", [PREFECT, MLFLOW], ids=["prefect", "mlflow"])
def test_a_server_of_another_version_is_left_alone_with_a_note(kind, tmp_path, capsys):
    with announcement(tmp_path, kind) as public:
        held = os.dup(public.lock)
        public.name("http://127.0.0.1:9/api")
        file = tmp_path / kind.file
        restated(file, 9)
        assert announced_server(tmp_path, lambda: "a:b", kind) is None
        os.close(held)
    known = format_of(file)
    assert capsys.readouterr().err == (
        f"note: {file}: {known.what} in format 9; this version of fedbnsl reads format {known.version}: {known.remedy}"
        "; this run does without that server\n"
    )


def test_every_format_has_a_reader_here():
    assert set(READERS) | {PREFECT.file, MLFLOW.file} == set(FORMATS)


def test_a_file_without_a_version_has_the_first_format(tmp_path):
    """As the release 0.1.0 wrote them."""
    path = tmp_path / "a.sqlite"
    journal(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 0")
    journal(path)
