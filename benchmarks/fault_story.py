"""A fault story: one run with its faults, started and observed to its end, and compared with an undisturbed run."""

import re
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from processes import Home, Program, epsilon_of

from fedbnsl.data.folder.folder import silo_files

LONGEST = 170
"""maximum number of characters of a message in the table"""
PLAIN = ("-a", "notears-admm", "-p", "rounds=60", "-p", "tolerance=1e-300", "--seed", "4", "--no-diagnose")
MASKED = ("-a", "notears-admm", "-p", "rounds=10", "-p", "tolerance=1e-300", "--seed", "4", "--no-diagnose", "--secure")
PRIVATE = ("-a", "dp-fed-sparse", "-p", "rounds=24", "--seed", "4", "--epsilon", "8")
KINDS = {"plain": PLAIN, "masked": MASKED, "private": PRIVATE}
"""the kinds of runs, each with its words on the command line"""


@dataclass(frozen=True)
class Fault:
    """One line of the table."""

    name: str
    done: str
    code: int | str
    said: str = ""
    bits: str = "–"
    epsilon: str = "–"

    def row(self) -> dict[str, str]:
        """The line as a row of a table of results."""
        said = re.sub(r"\s+", " ", self.said.replace("|", "¦"))
        said = said if len(said) <= LONGEST else said[: LONGEST - 1] + "…"
        return {
            "fault": self.name,
            "what was done": self.done,
            "exit code": str(self.code),
            "said": said,
            "same bits": self.bits,
            "ε after (undisturbed)": self.epsilon,
        }


@dataclass
class Place:
    """The folder of the stories: data to copy, and the result and ε of an undisturbed run of each kind."""

    home: Home
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: KINDS)
    undisturbed: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """the duration of the undisturbed run of each kind"""

    @classmethod
    def prepared(cls, home: Home, kinds: Mapping[str, tuple[str, ...]] = KINDS) -> "Place":
        """Make the data."""
        words = ("--variables", "6", "--silos", "3", "--rows", "300", "--seed", "2")
        assert home.start("prepare", "homogeneous", home.folder / "data", *words).wait() == 0
        return cls(home, kinds)

    def story(self, name: str, kind: str) -> "Story":
        """Begin a story about a run of that kind, on a copy of the data; the undisturbed run comes first."""
        if kind not in self.undisturbed:
            whole, start = Story(self, f"whole-{kind}", kind), time.monotonic()
            program = whole.learn()
            assert program.wait() == 0, program.log.read_text()
            self.seconds[kind] = time.monotonic() - start
            self.undisturbed[kind] = (whole.found(), epsilon_of(whole.files))
        return Story(self, name, kind)


@dataclass
class Story:
    """A run on a copy of the data, in a folder of its own."""

    place: Place
    name: str
    kind: str
    faults: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Copy the data."""
        self.folder = self.place.home.folder / self.name
        self.data, self.out, noise = self.folder / "data", self.folder / "out", self.folder / "noise"
        self.source = self.data
        shutil.copytree(self.place.home.folder / "data", self.data)
        self.files = silo_files(self.data)
        noise.mkdir()
        self.surroundings = {"KNOWN_NOISE": str(noise)} if self.kind == "private" else {}

    def learn(self, *words: str | Path, **surroundings: str) -> Program:
        """Start the run."""
        asked = ("learn", self.source, *self.place.kinds[self.kind], "--out", self.out, *words)
        return self.place.home.start(*asked, **self.surroundings | surroundings)

    def resume(self, **surroundings: str) -> Program:
        """Start a command that resumes the run."""
        return self.place.home.start("learn", "--resume", self.out, **self.surroundings | surroundings)

    def add(self, name: str, done: str, program: Program, word: str = "error") -> None:
        """Wait for the end of `program` and record the fault."""
        self.faults.append(Fault(name, done, program.wait(), program.said(word)))

    def refused_resume(self, name: str, done: str) -> None:
        """Try to resume the run in its current state."""
        self.add(name, done, self.resume())

    def found(self) -> bytes:
        """The structure that was learned, with its weights."""
        return (self.out / "structure.csv").read_bytes()

    def end(self) -> Iterator[Fault]:
        """Yield its faults, compared with the undisturbed run."""
        whole, cost = self.place.undisturbed[self.kind]
        bits = "yes" if self.found() == whole else "NO"
        epsilon = "–"
        if self.kind == "private":
            epsilon = f"{epsilon_of(self.files):.4f} ({cost:.4f})"
        for fault in self.faults:
            yield replace(fault, bits=bits, epsilon=epsilon)


@contextmanager
def changed(path: Path, beside: tuple[str, ...] = ("-wal", "-shm")) -> Iterator[bytes]:
    """Yield the content of a file to change; after the block, the file and SQLite's files beside it are restored."""
    files = [path, *(path.with_name(path.name + ending) for ending in beside)]
    before = {file: file.read_bytes() for file in files if file.exists()}
    yield before[path]
    for file in files:
        file.unlink(missing_ok=True)
        if file in before:
            file.write_bytes(before[file])


def flip(path: Path, where: int) -> None:
    """Flip all bits of the 16 bytes from `where` on."""
    content = bytearray(path.read_bytes())
    content[where : where + 16] = bytes(255 - byte for byte in content[where : where + 16])
    path.write_bytes(content)


def state_in(journal: Path) -> int:
    """The position of a run's state in the file of a journal."""
    with closing(sqlite3.connect(journal)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (state,) = db.execute("SELECT state FROM standings").fetchone()
    where = journal.read_bytes().find(state[:64])
    assert len(state) > 100, "a state that has nothing to flip"
    assert where > 0
    return where + 32


def emptied(ledger: Path) -> None:
    """Delete all charges."""
    with closing(sqlite3.connect(ledger)) as db:
        db.execute("DELETE FROM charges")
        db.commit()
