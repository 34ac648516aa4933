"""What MLflow has not been told of a run because it could not be reached, kept in the run's folder until it can.

One file: how the run began, then a record for each round and for the end, each with its length and a checksum before
it. It only grows, so a run that is killed leaves all but the record it was writing. Nothing is pickled.
"""

import csv
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput

from .run import RunLog, open_run, reopen_run
from .telling import Ending, Opening, ToldRound

UNTRACKED = "untracked.bin"
KINDS: dict[bytes, type[Opening | ToldRound | Ending]] = {b"O": Opening, b"R": ToldRound, b"E": Ending}
LENGTH = 8


@dataclass(frozen=True)
class Untracked:
    """What is kept of a run: how it began, the rounds since MLflow was lost, and the end if the run is over."""

    opening: Opening
    rounds: tuple[ToldRound, ...] = ()
    ending: Ending | None = None


def keep(folder: Path, told: Opening | ToldRound | Ending) -> None:
    """Add `told` to what the run in `folder` has to tell MLflow later; an opening begins anew."""
    body = wire.encode(told)
    mark = next(mark for mark, kind in KINDS.items() if isinstance(told, kind))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / UNTRACKED).open("wb" if isinstance(told, Opening) else "ab") as file:
        file.write(mark + len(body).to_bytes(LENGTH, "big") + hashlib.sha256(body).digest() + body)


def untracked_in(folder: Path) -> Untracked | None:
    """Return what the run in `folder` has to tell MLflow, None if that is nothing. Raises `BadInput` if damaged."""
    path = folder / UNTRACKED
    if not path.exists():
        return None
    records = list(_records(path.read_bytes()))
    if not records or not isinstance(records[0], Opening):
        raise BadInput(f"{path}: damaged; what MLflow was to be told of this run cannot be read")
    ending = next((one for one in reversed(records) if isinstance(one, Ending)), None)
    return Untracked(records[0], tuple(one for one in records if isinstance(one, ToldRound)), ending)


def hand_over(kept: Untracked, folder: Path, rows: Iterable[dict[str, float]] = ()) -> RunLog:
    """Tell MLflow what was `kept` of the run in `folder`, and forget it there; return the log of the run.

    The MLflow run goes on, or a new one begins if that is gone. It is given the figures of the earlier rounds, too, if
    it lacks them: `rows`, or by default what `rounds.csv` has. Raises `BadInput` if the store cannot be opened, and
    whatever MLflow raises.
    """
    opening = kept.opening
    log = (reopen_run(opening.run_id, opening.uri) if opening.run_id else None) or open_run(opening)
    keep_opening = replace(opening, run_id=log.run_id)
    if keep_opening != opening:
        _begin_again(folder, kept, keep_opening)
    known, structures = log.known_rounds(), {int(one.row["round"]) for one in kept.rounds}
    log.figures(row for row in rows or _rows_of(folder) if int(row["round"]) not in known | structures)
    log.rounds(kept.rounds, known)
    if kept.ending is not None:
        log.finish(kept.ending, folder)
    (folder / UNTRACKED).unlink(missing_ok=True)
    return log


def _begin_again(folder: Path, kept: Untracked, opening: Opening) -> None:
    """Keep the same with another opening: if handing over fails half-way, the next time goes on with that run."""
    for told in (opening, *kept.rounds, *((kept.ending,) if kept.ending else ())):
        keep(folder, told)


def _records(content: bytes) -> Iterator[Opening | ToldRound | Ending]:
    """Yield the records up to the end, or to the first that is not whole."""
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
    """Return the rows of `rounds.csv`, none where it is not written yet."""
    path = folder / "rounds.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: float(cell) for name, cell in row.items() if cell} for row in csv.DictReader(file)]
