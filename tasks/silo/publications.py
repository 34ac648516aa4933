"""A silo's record of publications: digests of the rows behind its replies, and the rule for replies without an ε.

If two sums are over rows that differ in one row, the difference of the sums discloses that row. So a silo answers
without an ε only if none or at least k of its rows have changed since each earlier publication (`Policy.changed_rows`).

To count changes, the silo stores 8 bytes per row for each version of its rows: a digest of the row's values under the
silo's secret. No request removes a version: if the record is full, the silo refuses runs without an ε. The digests stay
in `.fedbnsl/SILO.published`, to which only the owner has access. The journal has the name of each version, so that the
removal of a version is detected. A digest is computed from the values that enter the replies: after columns were left
out, marks of missing values replaced and incomplete rows dropped. The digests do not depend on the order of rows and
columns, the number of files and the notation of numbers.

A replaced row counts as one removed and one added row. The number of changes between two versions is the larger of the
numbers of removed and of added rows. So k changes concern k records, even if each change is a replacement.

For events, a row is the time and type of an event. If no such row has changed, the silo still refuses to answer if the
devices of events or the links between devices have changed. In the same way, the rows of a time series must have the
same order and the same stretches, because both determine the windows that a statistic adds up.

Versions with different columns are compared in their common columns. If the file and the selection of rows are the
same, nothing has changed. If not, each common column gives a lower bound on the number of changed rows, because a
changed row changes at most one cell of the column. To compute the bound, the cells of a column are counted in `BUCKETS`
buckets; a keyed hash of a cell determines its bucket. The silo refuses a run unless the largest of these bounds is at
least k. Versions without a common column are not compared.
"""

import hashlib
import hmac
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.statistics.moments import Table, chunks, over_parts
from fedbnsl.tracking.kept_files import require_database

from .journal import Journal, keyed_checksum
from .policy import NotAllowed
from .private_folder import BadRecord, make_private_file, private_folder
from .runs import RunTerms

PUBLISHED_SUFFIX = ".published"
MAX_VERSIONS, MAX_RECORD_BYTES = 5_000, 4 << 30
"""maximum number and total size of the versions of the rows that a silo records"""
BUCKETS = 1024
"""number of buckets in which the cells of a column are counted"""
BLOCK_ROWS = 1 << 16
"""number of rows whose digests are computed at once"""
EMPTY = np.float64(np.nan).view(np.uint64)
"""the code of an empty cell"""
SCHEMA = "CREATE TABLE IF NOT EXISTS versions (number INTEGER PRIMARY KEY AUTOINCREMENT, content BLOB NOT NULL)"


class FewRowsChanged(NotAllowed):
    """Refused because the difference from an earlier publication would disclose few rows."""


@dataclass(frozen=True, eq=False)
class RowVersion:
    """The rows behind a publication, as digests that nobody can compute without the silo's secret."""

    columns: tuple[str, ...]
    """the names of the columns, sorted"""
    seal: str
    """the seal of the content of the file or files"""
    reading: str
    """a checksum of how the rows are read: kind of the data, marks of missing values, form of the file, time step,
    selected silos and stretches"""
    complete: tuple[str, ...]
    """the columns in which an empty cell causes a row to be dropped; empty if no rows are dropped"""
    rows: NDArray[np.uint64]
    """the digests of the rows, sorted, `[n_rows]`"""
    cells: NDArray[np.int64]
    """the number of cells of each column in each bucket, `[n_columns, BUCKETS]`"""
    arrangement: str = ""
    """for time series, a digest of the order of the rows and of their stretches; for events, of the events of each
    device and of the links of devices; empty for independent rows"""


wire.prepare(RowVersion)


def row_version(
    table: Table,
    schema: Schema,
    key: bytes,
    seal: str = "",
    reading: str = "",
    complete: tuple[str, ...] = (),
    stretches: tuple[int, ...] = (),
) -> RowVersion:
    """The version of the rows in `table` `[n_rows, n_variables]`, in memory or read in passes, under a secret `key`."""
    events = schema.kind == "events"
    columns = ("event", "time") if events else tuple(sorted(schema.table_columns))
    own = hmac.new(key, b"rows", hashlib.sha256).digest()
    levels_of = {"event": schema.variables} if events else schema.levels
    labels = {name: _label_codes(levels, own) for name, levels in levels_of.items()}
    factor, offset = np.frombuffer(hmac.new(key, b"buckets", hashlib.sha256).digest(), np.uint64)[:2]
    shift = np.uint64(64 - int(math.log2(BUCKETS)))

    def version_of(part: Table) -> tuple[list[NDArray[np.uint64]], NDArray[np.int64]]:
        digests, cells = [], np.zeros((len(columns), BUCKETS), np.int64)
        for chunk in chunks(part):
            for begin in range(0, len(chunk), BLOCK_ROWS):
                codes = _codes(chunk[begin : begin + BLOCK_ROWS], schema, columns, labels)
                digests.append(_digests(codes, own))
                for counts, column in zip(cells, codes.T, strict=True):
                    bucket = (column * (factor | np.uint64(1)) + offset) >> shift
                    counts += np.bincount(bucket.astype(np.int64), minlength=BUCKETS)
        return digests, cells

    digests: list[NDArray[np.uint64]] = []
    cells = np.zeros((len(columns), BUCKETS), np.int64)
    for own_digests, own_cells in over_parts(table, version_of):
        digests += own_digests
        cells += own_cells
    rows = np.concatenate(digests) if digests else np.empty(0, np.uint64)
    arrangement = ""
    if events:
        arrangement = _device_digest(np.concatenate(list(chunks(table))), schema, labels["event"], own)
    elif schema.kind == "time-series":
        arrangement = keyed_checksum(own, rows.tobytes(), stretches)
    return RowVersion(columns, seal, reading, complete, np.sort(rows), cells, arrangement)


def _device_digest(table: NDArray[Any], schema: Schema, labels: NDArray[np.uint64], key: bytes) -> str:
    """A digest of the devices of the events in `table` `[n, 5 + links]`, and of their links.

    This digest includes the number of each device, but not its window. The digests of single events
    (`RowVersion.rows`) leave out both, because one more event could change the numbers of other devices or the window
    of its own device, and thus many digests.
    """
    device, time, event = (table[:, schema.table_columns.index(name)] for name in ("device", "time", "event"))
    codes = np.column_stack([_number_codes(device), _number_codes(time), labels[event.astype(np.int64)]])
    links = np.sort(_number_codes(table[:, len(schema.table_columns) :]), axis=1)
    return hmac.new(key, np.sort(_digests(np.hstack([codes, links]), key)).tobytes(), hashlib.sha256).hexdigest()


def version_under(terms: RunTerms, silo: str, table: Table, key: bytes, seal: str) -> RowVersion:
    """The version of the rows of `silo` that enter its replies; `table` has these rows, read as `terms` declare."""
    schema, declared = terms.schema, terms.declared
    drops_rows = schema.complete_rows or (schema.kind == "time-series" and not schema.gaps)
    stretches = schema.stretches.get(silo, ())
    chosen = (declared.form, declared.step, declared.reading.silos, stretches)
    # Which columns have labels says nothing about which rows are read.
    rows_of = schema.kind if schema.kind in ("time-series", "events") else "independent rows"
    reading = keyed_checksum(key, rows_of, dict(declared.marks), *chosen)
    return row_version(
        table, schema, key, seal, reading, declared.decisive(schema.variables) if drops_rows else (), stretches
    )


def _codes(
    rows: NDArray[Any], schema: Schema, columns: tuple[str, ...], labels: dict[str, NDArray[np.uint64]]
) -> NDArray[np.uint64]:
    """The cells of `rows` as 64-bit codes `[n_rows, n_columns]`, which do not depend on the other rows."""
    codes = np.empty((len(rows), len(columns)), np.uint64)
    for place, name in enumerate(columns):
        column = rows[:, schema.table_columns.index(name)]
        if name in labels:
            codes[:, place] = labels[name][np.where(np.isnan(column), -1, column).astype(np.int64)]
        else:
            codes[:, place] = _number_codes(np.asarray(column, np.float64))
    return codes


def _number_codes(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    # Adding 0 makes −0 the same number as 0.
    return np.where(np.isnan(numbers), EMPTY, (numbers + 0.0).view(np.uint64))


def _label_codes(levels: tuple[str, ...], key: bytes) -> NDArray[np.uint64]:
    """The codes of the labels and, as the last element, at index −1, the code of an empty cell.

    A label that is a number has the code of the number. Otherwise, a single new word in a column of numbers, which
    makes all its cells labels, would change the digests of all rows.
    """
    codes = np.full(len(levels) + 1, EMPTY)
    for place, label in enumerate(levels):
        try:
            number = float(label)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            codes[place] = _number_codes(np.array([number]))[0]
        else:
            codes[place] = np.frombuffer(hashlib.blake2b(label.encode(), digest_size=8, key=key).digest(), np.uint64)[0]
    return codes


def _digests(codes: NDArray[np.uint64], key: bytes) -> NDArray[np.uint64]:
    """The digests of rows with these `codes` `[n_rows, n_columns]`."""
    packed, size = np.ascontiguousarray(codes).tobytes(), 8 * codes.shape[1]
    starts = range(0, len(packed), size)
    each = (hashlib.blake2b(packed[at : at + size], digest_size=8, key=key).digest() for at in starts)
    return np.frombuffer(b"".join(each), np.uint64)


def changed_rows(earlier: NDArray[np.uint64], now: NDArray[np.uint64]) -> int:
    """The number of rows added or removed between two multisets of digests, whichever is larger."""
    both = np.concatenate([earlier, now])
    order = np.argsort(both, kind="stable")  # fast for two sorted parts
    values = both[order]
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])[: len(values)])
    gained = np.add.reduceat(np.where(order < len(earlier), -1, 1), starts) if len(values) else np.zeros(1, np.int64)
    return max(int(gained[gained > 0].sum()), int(-gained[gained < 0].sum()))


def discloses_rows(earlier: RowVersion, now: RowVersion, least: int) -> bool:
    """Whether the two versions may differ in at least one, but fewer than `least` rows, or only in arrangement."""
    if earlier.columns == now.columns:
        changed = changed_rows(earlier.rows, now.rows)
        return changed < least and (changed > 0 or earlier.arrangement != now.arrangement)
    common = sorted(set(earlier.columns) & set(now.columns))
    if not common or _same_rows(earlier, now):
        return False
    gained = np.stack(
        [now.cells[now.columns.index(name)] - earlier.cells[earlier.columns.index(name)] for name in common]
    )
    changed = np.maximum(np.maximum(gained, 0).sum(axis=1), np.maximum(-gained, 0).sum(axis=1))
    return int(changed.max()) < least


def _is_same(earlier: RowVersion, now: RowVersion) -> bool:
    """Whether both are the same rows and columns, so that a new publication adds nothing to an earlier one."""
    same = (earlier.columns, earlier.arrangement) == (now.columns, now.arrangement)
    return same and np.array_equal(earlier.rows, now.rows)


def _same_rows(earlier: RowVersion, now: RowVersion) -> bool:
    """Whether both versions certainly have the same rows of the same files, though not the same columns."""
    if (earlier.seal, earlier.reading) != (now.seal, now.reading):
        return False
    one, other = set(earlier.complete), set(now.complete)
    # Rows that are complete in more columns are also complete in fewer. So equally many rows are the same rows.
    nested = one <= other or other <= one
    return nested and len(earlier.rows) == len(now.rows)


class Publications:
    """The versions of a silo's rows behind its publications, in the file at `path` and in the silo's journal."""

    def __init__(self, path: Path, journal: Journal) -> None:
        """Use the file at `path`, which the first publication creates."""
        self.path = path
        self._journal = journal

    def check(self, silo: str, now: RowVersion, least: int) -> str:
        """The name of the kept version with the same rows and columns as `now`; "" if `now` is new.

        Raises `FewRowsChanged` if `now` differs from a kept version in at least one, but fewer than `least` rows, and
        `BadRecord` if a version that the journal names is damaged or missing.
        """
        for name, earlier in self._versions():
            if _is_same(earlier, now):
                return name
        for _, earlier in self._versions():
            if discloses_rows(earlier, now, least):
                raise FewRowsChanged(
                    f"silo {silo}: fewer than {least} rows changed since an earlier publication, and the difference "
                    f"of the two would disclose them: wait until {least} rows have changed, or use --epsilon if its "
                    "owner limits ε"
                )
        return ""

    def record(self, silo: str, now: RowVersion, least: int) -> str:
        """Record that replies about `now` are sent; returns its name. If `check` raises, nothing is recorded."""
        if known := self.check(silo, now, least):
            return known
        content = wire.encode(now)
        with self._open() as db:
            number, size = db.execute("SELECT COUNT(*), TOTAL(LENGTH(content)) FROM versions").fetchone()
            if number >= MAX_VERSIONS or size + len(content) > MAX_RECORD_BYTES:
                raise FewRowsChanged(
                    f"silo {silo}: its record of publications is full, so runs without an ε are refused: the owner can "
                    "delete it with `fedbnsl silo forget`"
                )
            # The digests are stored before their name, so that a crash in between only leaves an additional version.
            db.execute("INSERT INTO versions (content) VALUES (?)", (content,))
            db.commit()
            self._journal.name_version(self._name(content))
        return self._name(content)

    def _versions(self) -> Iterator[tuple[str, RowVersion]]:
        """The kept versions and their names, the earliest first; raises `BadRecord` if one is damaged or missing."""
        for name, content in self._contents():
            try:
                yield name, wire.decode(RowVersion, content)
            except (ValueError, TypeError):
                raise self._damaged() from None

    def _contents(self) -> Iterator[tuple[str, bytes]]:
        """The names and the encoded versions, one in memory at a time."""
        missing = self._journal.versions()
        if self.path.exists():
            with self._open() as db:
                for (number,) in db.execute("SELECT number FROM versions ORDER BY number").fetchall():
                    (content,) = db.execute("SELECT content FROM versions WHERE number = ?", (number,)).fetchone()
                    missing.discard(self._name(content))
                    yield self._name(content), content
        if missing:
            raise self._damaged()

    def _name(self, content: bytes) -> str:
        return keyed_checksum(self._journal.key, "version", content)

    def _damaged(self) -> BadRecord:
        return BadRecord(
            f"{self.path}: the record of publications from these rows is missing or damaged, so runs without an ε are "
            "refused: restore the file, or have the owner delete the record with `fedbnsl silo forget`"
        )

    def _open(self) -> "closing[sqlite3.Connection]":
        try:
            make_private_file(self.path)
            db = sqlite3.connect(self.path, timeout=30)
            db.execute("PRAGMA secure_delete = ON")
            require_database(self.path, db, BadRecord)
            db.execute(SCHEMA)
        except (OSError, sqlite3.Error):
            raise self._damaged() from None
        return closing(db)


def published_path(source: Path, silo: str) -> Path:
    """The path of the record of `silo`, whose rows are the file `source` (or, if pooled, the folder)."""
    return private_folder(source) / f"{silo}{PUBLISHED_SUFFIX}"


def forget_publications(source: Path) -> list[Path]:
    """Delete the records of publications from the rows at `source`, also in journals; returns the deleted files.

    Only the owner may call this function.
    """
    folder = private_folder(source)
    found = sorted(folder.glob(f"*{PUBLISHED_SUFFIX}"))
    for path in sorted(folder.glob("*.sqlite")):
        with Journal(path) as journal:
            journal.forget_publications()
    for path in found:
        path.unlink()
    return found
