"""Tracking of a run that does not depend on MLflow: every call to MLflow is guarded here.

If MLflow cannot be reached, records go to an outbox in the run's folder and are uploaded later. The outbox is one file:
the start of the run, then a record for each round, and a record for the end. Before each record are its kind, its
length and a checksum. Records are appended, so a run that is killed loses at most the record that it was writing.
Nothing is pickled.

`BackgroundTracker` calls MLflow in a thread, in order, so that no round waits for MLflow or for its import.
"""

import csv
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from threading import BoundedSemaphore, Event
from typing import Any

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure

from ..kept_files import after_first_line
from ..kept_files import first_line as first_line_of
from ..result import RunResult
from ..staging import create_private_folder, first_line, notice, private_opener
from .run import RoundEvent, RunEnd, RunLog, RunStart, ending_of, open_run, reopen_run
from .store import database_of

OUTBOX_FILE = "untracked.bin"
KINDS: dict[bytes, type[RunStart | RoundEvent | RunEnd]] = {b"O": RunStart, b"R": RoundEvent, b"E": RunEnd}
LENGTH = 8


@dataclass(frozen=True)
class Outbox:
    """Records to upload: the start of the run, the rounds since MLflow failed, and the end if the run is over."""

    opening: RunStart
    rounds: tuple[RoundEvent, ...] = ()
    ending: RunEnd | None = None


def append_to_outbox(folder: Path, record: RunStart | RoundEvent | RunEnd) -> None:
    """Append a record to the outbox of the run in `folder`; a `RunStart` begins a new outbox."""
    body = wire.encode(record)
    mark = next(mark for mark, kind in KINDS.items() if isinstance(record, kind))
    create_private_folder(folder)
    path, begins = folder / OUTBOX_FILE, isinstance(record, RunStart)
    with open(path, "wb" if begins else "ab", opener=private_opener) as file:
        if begins:
            file.write(first_line_of(path))
        file.write(mark + len(body).to_bytes(LENGTH, "big") + hashlib.sha256(body).digest() + body)


def read_outbox(folder: Path) -> Outbox | None:
    """The outbox of the run in `folder`; None if there is no outbox. Raises `BadInput` if it is damaged."""
    path = folder / OUTBOX_FILE
    if not path.exists():
        return None
    records = list(_records(after_first_line(path, path.read_bytes())))
    if not records or not isinstance(records[0], RunStart):
        raise BadInput(f"{path}: damaged; the records of this run for MLflow cannot be read")
    ending = next((one for one in reversed(records) if isinstance(one, RunEnd)), None)
    return Outbox(records[0], tuple(one for one in records if isinstance(one, RoundEvent)), ending)


def upload_outbox(outbox: Outbox, folder: Path, rows: Iterable[dict[str, float]] = ()) -> RunLog:
    """Upload the `outbox` of the run in `folder`, and delete it there; returns the log of the run.

    Continues the MLflow run, or starts a new MLflow run if the former was deleted. `rows` has the metrics of all
    earlier rounds, by default from `rounds.csv`; those that MLflow does not have are logged, too. Raises `BadInput` if
    the store cannot be opened, and any error of MLflow.
    """
    opening = outbox.opening
    log = (reopen_run(opening.run_id, opening.uri) if opening.run_id else None) or open_run(opening)
    saved_opening = replace(opening, run_id=log.run_id)
    if saved_opening != opening:
        _rewrite(folder, outbox, saved_opening)
    known, structures = log.known_rounds(), {int(one.row["round"]) for one in outbox.rounds}
    log.figures(row for row in rows or _rows_of(folder) if int(row["round"]) not in known | structures)
    log.rounds(outbox.rounds, known)
    if outbox.ending is not None:
        log.finish(outbox.ending, folder)
    (folder / OUTBOX_FILE).unlink(missing_ok=True)
    return log


def _rewrite(folder: Path, outbox: Outbox, opening: RunStart) -> None:
    """Write the outbox with another `opening`, whose MLflow run the next upload continues if this upload fails."""
    for record in (opening, *outbox.rounds, *((outbox.ending,) if outbox.ending else ())):
        append_to_outbox(folder, record)


def _records(content: bytes) -> Iterator[RunStart | RoundEvent | RunEnd]:
    """Yield the records up to the end, or up to the first incomplete record."""
    head, place = 1 + LENGTH + 32, 0
    while len(content) >= place + head:
        kind = KINDS.get(content[place : place + 1])
        length = int.from_bytes(content[place + 1 : place + 1 + LENGTH], "big")
        digest, body = content[place + 1 + LENGTH : place + head], content[place + head : place + head + length]
        if kind is None or hashlib.sha256(body).digest() != digest:
            return
        yield wire.decode(kind, body)
        place += head + length


def _rows_of(folder: Path) -> list[dict[str, float]]:
    """The rows of `rounds.csv`; no rows if the file does not exist yet."""
    path = folder / "rounds.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: float(cell) for name, cell in row.items() if cell} for row in csv.DictReader(file)]


class Tracker:
    """The MLflow run of a run, or its outbox.

    The first call that fails prints one line; from then on all records go to the outbox in the run's `folder`. They are
    uploaded at the end of the run, when the run is resumed, or by `fedbnsl track`, whichever comes first.
    """

    def __init__(self, folder: Path, opening: RunStart, rows: tuple[dict[str, float], ...] = ()) -> None:
        """Continue the MLflow run that `opening` names; if there is none, or if it was deleted, start a new run.

        `rows` has the metrics of earlier rounds; the metrics that MLflow does not have are logged.
        """
        self._folder, self._opening = folder, opening
        self._log: RunLog | None = None
        try:
            self._log = self._opened(rows)
            self._opening = replace(opening, run_id=self._log.run_id)
        except Exception as error:
            self._lost(error)

    @property
    def opening(self) -> RunStart:
        """The start of the run, with the id of its MLflow run."""
        return self._opening

    @property
    def url(self) -> str | None:
        """The URL of the run in MLflow; None if MLflow does not have the run."""
        return self._log.url if self._log else None

    def rounds(self, events: Sequence[RoundEvent]) -> None:
        """Log finished rounds."""
        self._send(lambda log: log.rounds(events), events)

    def finish(self, result: RunResult) -> None:
        """Log the result, whose files are in the folder, after the records in the outbox."""
        ending = ending_of(result)
        self._send(lambda log: log.finish(ending, self._folder), (ending,))
        if self._log is None:
            try:
                outbox = read_outbox(self._folder)
                self._log = upload_outbox(outbox, self._folder) if outbox else None
            except Exception:
                return
            notice("MLflow is available again: all records were uploaded")

    def fail(self, message: str) -> None:
        """Log that the run failed; this record never goes to the outbox, because the run can be resumed."""
        if self._log is not None:
            try:
                self._log.fail(message)
            except Exception as error:
                self._lost(error)

    def _opened(self, rows: tuple[dict[str, float], ...]) -> RunLog:
        opening, outbox = self._opening, read_outbox(self._folder)
        if outbox is not None:
            return upload_outbox(outbox, self._folder, rows)
        if not opening.run_id and not rows:
            return open_run(opening)
        return upload_outbox(Outbox(opening), self._folder, rows)

    def _send(self, call: Callable[[RunLog], object], records: Sequence[RoundEvent | RunEnd]) -> None:
        if self._log is not None:
            try:
                call(self._log)
                self._check_there()
                return
            except Exception as error:
                self._lost(error)
        for record in records:
            self._store(record)

    def _check_there(self) -> None:
        """Raise `FileNotFoundError` if the database was deleted; SQLite would still write to the deleted file."""
        database = database_of(self._opening.uri)
        if database is not None and not database.exists():
            raise FileNotFoundError(f"{database} was deleted")

    def _lost(self, error: Exception) -> None:
        """Stop using MLflow, and print a notice."""
        self._log = None
        notice(
            f"MLflow is not available ({reason(error)}); the run continues, and `fedbnsl track {self._folder}` uploads "
            "its records later"
        )
        if not (self._folder / OUTBOX_FILE).exists():
            self._store(self._opening)

    def _store(self, record: RunStart | RoundEvent | RunEnd) -> None:
        try:
            append_to_outbox(self._folder, record)
        except OSError as error:
            notice(f"records for MLflow cannot be saved for later, either ({first_line(error)})")


def reason(error: Exception) -> str:
    """The reason of an MLflow failure in one line; if the database failed, its message."""
    lines = str(error).splitlines()
    return next((line for line in lines if line.startswith("(sqlite3.")), first_line(error))


START_TIMEOUT_SECONDS = 3.0
"""maximum time that the import of MLflow waits for the first round, because both would compete for a processor"""
SEND_INTERVAL_SECONDS = 0.5
"""pause between uploads of rounds; an upload costs 15 ms of CPU, for any number of rounds"""
MAX_QUEUE = 64
"""maximum number of rounds that wait for their upload, each with its structure; with more, the run waits for MLflow"""


class BackgroundTracker:
    """A `Tracker` in a separate thread.

    After the thread has opened an MLflow run, or failed to, it calls `opened` with the start of the run. The caller can
    save this start with the id of the MLflow run, so that a resumed run continues the same MLflow run. An `OSError` of
    `opened` is ignored.
    """

    def __init__(
        self,
        folder: Path,
        opening: RunStart,
        rows: tuple[dict[str, float], ...] = (),
        opened: Callable[[RunStart], None] = lambda opening: None,
    ) -> None:
        """Start an MLflow run, or continue the run that `opening` names, after the first round at the latest."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="MLflow")
        self._room, self._begun, self._ending = BoundedSemaphore(MAX_QUEUE), Event(), Event()
        self._waiting: SimpleQueue[RoundEvent] = SimpleQueue()

        def open_tracker() -> Tracker:
            self._begun.wait(START_TIMEOUT_SECONDS)
            tracker = Tracker(folder, opening, rows)
            with suppress(OSError):
                opened(tracker.opening)
            return tracker

        self._tracker = self._thread.submit(open_tracker)

    @property
    def url(self) -> str | None:
        """The URL of the run in MLflow, None if MLflow does not have it; waits until the MLflow run has started."""
        return self._tracker.result().url

    def round(self, row: Mapping[str, float], structure: Structure) -> None:
        """Queue a finished round for the next upload."""
        self._room.acquire()
        self._waiting.put(RoundEvent(dict(row), structure))
        self._do(self._send_rounds).add_done_callback(lambda _: self._room.release())

    def finish(self, result: RunResult) -> None:
        """Log the result, whose files are in the folder, and wait until everything is uploaded."""
        self._ending.set()
        self._do(lambda tracker: tracker.finish(result)).result()
        self._thread.shutdown()

    def fail(self, message: str) -> None:
        """Log that the run failed, and wait until everything is uploaded."""
        self._ending.set()
        self._do(lambda tracker: tracker.fail(message)).result()
        self._thread.shutdown()

    def _send_rounds(self, tracker: Tracker) -> None:
        events = [self._waiting.get() for _ in range(self._waiting.qsize())]
        if events:
            tracker.rounds(events)
            self._ending.wait(SEND_INTERVAL_SECONDS)

    def _do(self, call: Callable[[Tracker], Any]) -> "Future[Any]":
        self._begun.set()
        return self._thread.submit(lambda: call(self._tracker.result()))
