"""Faults of runs with all silos on this machine."""

import re
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from fault_story import Fault, Place, Story, changed, emptied, flip, state_in
from processes import Program, epsilon_of, free_port, listens, prefect_server, until

from fedbnsl.tracking.checkpoint import load


def private(place: Place) -> Iterator[Fault]:
    """One private run through all faults that end or interrupt it, and the runs after it."""
    story = place.story("private", "private")
    first = story.learn()
    first.at_round(story.out, 3)
    # The run is suspended so that it cannot end, because it is as short as the start of another one.
    first.process.send_signal(signal.SIGSTOP)
    story.refused_resume("`--resume` of a run still going", "in another process, after round 3")
    first.process.send_signal(signal.SIGCONT)
    first.workers()[0].kill()
    first.at_round(story.out, 6)
    story.faults.append(
        Fault("a silo's worker, embedded", "kill -9 of its process in a round", "–", "(the run goes on)")
    )
    first.tell(signal.SIGKILL)
    story.add("the coordinator", "kill -9 after round 6, then `--resume`", first, "round")
    interrupted(story)
    for word in (signal.SIGINT, signal.SIGTERM):
        program = story.resume()
        at = rounds_done(story) + 3
        program.at_round(story.out, at)
        program.process.send_signal(word)
        story.add(word.name, f"sent after round {at}, then `--resume`", program, "stopped")
    last = story.resume()
    assert last.wait() == 0, last.log.read_text()
    yield from story.end()
    yield from after(story)


def rounds_done(story: Story) -> int:
    """The current round of the run."""
    return load(story.out / "checkpoint.bin").number


def interrupted(story: Story) -> None:
    """Changes to the files of a killed run, and the messages of `--resume`; each change is reverted."""
    kept = story.data / ".fedbnsl"
    rows, ledger = story.data / "silo-2.csv", kept / "silo-2.ledger"
    with changed(story.out / "checkpoint.bin") as content:
        flip(story.out / "checkpoint.bin", len(content) // 2)
        story.refused_resume("checkpoint damaged", "16 bytes flipped, then `--resume`")
    with changed(rows) as content:
        head, row, rest = content.split(b"\n", 2)
        rows.write_bytes(b"\n".join((head, row.replace(b"1", b"2"), rest)))
        story.refused_resume("other rows", "one row of a silo changed, then `--resume`")
    with changed(rows):
        rows.unlink()
        story.refused_resume("a silo away at `--resume`", "its file taken away")
    with changed(ledger):
        emptied(ledger)
        story.refused_resume("ledger emptied between rounds", "all charges deleted, then `--resume`")
    with changed(ledger):
        ledger.unlink()
        story.refused_resume("ledger deleted between rounds", "its file deleted, then `--resume`")


def after(story: Story) -> Iterator[Fault]:
    """Messages of new private runs on the same rows after the ledger was changed, or without any budget left."""
    ledger, before = story.data / ".fedbnsl" / "silo-2.ledger", epsilon_of(story.files)
    faults: list[Fault] = []
    cases = (
        ("ledger emptied between runs", "all charges deleted, then a new run", emptied),
        ("ledger deleted between runs", "its file deleted, then a new run", Path.unlink),
    )
    for name, done, touch in cases:
        with changed(ledger):
            touch(ledger)
            faults += refused(story, name, done)
    faults += refused(story, "budget spent", "`--budget 9` after a run of ε 8", "--budget", "9")
    for fault in faults:
        yield replace(fault, bits="no result", epsilon=f"{epsilon_of(story.files):.4f} ({before:.4f})")


def refused(story: Story, name: str, done: str, *words: str) -> list[Fault]:
    """Return the message of another run on the same data, with its own results folder."""
    again = Story(story.place, re.sub(r"\W", "-", name), story.kind)
    again.data, again.source, again.files = story.data, story.data, story.files
    again.add(name, done, again.learn(*words))
    return again.faults


def journal(place: Place) -> Iterator[Fault]:
    """A silo's journal is damaged while a run is suspended; the learner's silos keep a state between rounds."""
    story = place.story("journal", "plain")
    program = story.learn()
    program.at_round(story.out, 5)
    program.tell(signal.SIGKILL)
    file = story.data / ".fedbnsl" / "silo-2.sqlite"
    where = state_in(file)
    with changed(file):
        flip(file, where)
        story.refused_resume("journal damaged", "16 bytes of a silo's state flipped, then `--resume`")
    story.add("– then", "the journal as it was, `--resume`", story.resume(), "report")
    yield from story.end()


def masked(place: Place) -> Iterator[Fault]:
    """A worker dies within secure sums, and MLflow's server cannot be reached."""
    story = place.story("masked", "masked")
    nowhere = f"http://127.0.0.1:{free_port()}"
    program = story.learn(MLFLOW_TRACKING_URI=nowhere)
    for number in (3, 6):
        program.at_round(story.out, number)
        program.workers()[0].kill()
    story.add(
        "a worker within a secure sum", "kill -9 in rounds 4 and 7, all of which are masked sums", program, "round"
    )
    story.faults.append(
        Fault("MLflow's server unreachable", "nobody listens there", program.wait(), program.said("MLflow"))
    )
    told = place.home.start("track", story.out)
    story.add("– then", "`fedbnsl track RUN`, with a database", told, "MLflow")
    yield from story.end()


def observers(place: Place) -> Iterator[Fault]:
    """Prefect's server and MLflow's database disappear during a run."""
    story = place.story("prefect-gone", "plain")
    port = free_port()
    keep = place.home.surroundings["PREFECT_API_URL"]
    gone = place.home.folder / "gone.db"
    with prefect_server(place.home, port) as server:
        program = story.learn(MLFLOW_TRACKING_URI=f"sqlite:///{gone}")
        told_rounds(program, gone, 5)
        server.process.kill()
        until(lambda: not listens(port), "the end of Prefect's server")
        for file in gone.parent.glob("gone.db*"):
            file.unlink()
        story.add("Prefect's server", "kill -9 when MLflow knew five rounds", program, "Prefect no longer")
    place.home.surroundings["PREFECT_API_URL"] = keep
    story.faults.append(
        Fault(
            "MLflow's database deleted",
            "when it knew five rounds",
            program.wait(),
            program.said("MLflow is not available"),
        )
    )
    told = place.home.start("track", story.out)
    story.add("– then", "`fedbnsl track RUN`", told, "MLflow")
    yield from story.end()
    yield from locked(place)


def told_rounds(program: Program, database: Path, number: int) -> None:
    """Wait until MLflow has this number of rounds or the run is over."""

    def known() -> int:
        try:
            with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
                (rounds,) = db.execute("SELECT COUNT(DISTINCT step) FROM metrics WHERE key = 'round/edges'").fetchone()
        except sqlite3.OperationalError:  # not there yet
            return 0
        return int(rounds)

    until(lambda: program.process.poll() is not None or known() >= number, f"{number} rounds in MLflow")


def locked(place: Place) -> Iterator[Fault]:
    """Another process holds MLflow's database."""
    story = place.story("mlflow-locked", "plain")
    file = place.home.folder / "locked.db"
    program = story.learn(MLFLOW_TRACKING_URI=f"sqlite:///{file}")
    told_rounds(program, file, 3)
    with closing(sqlite3.connect(file, timeout=30)) as db:
        db.execute("BEGIN EXCLUSIVE")
        story.add("MLflow's database locked", "when it knew three rounds, to the end", program, "MLflow")
    told = place.home.start("track", story.out)
    story.add("– then", "`fedbnsl track RUN`, once it is let go", told, "MLflow")
    yield from story.end()


def outputs(place: Place) -> Iterator[Fault]:
    """If results cannot be written, no ε is spent."""
    story = Story(place, "outputs", "private")
    story.out = story.data / "silo-1.csv" / "out"
    story.add("`--out` not writable", "below a file", story.learn())
    before = epsilon_of(story.files)
    for fault in story.faults:
        yield replace(fault, bits="no result", epsilon=f"{before:.4f} (0.0000)")
    yield from disk_full(place)


def disk_full(place: Place) -> Iterator[Fault]:
    """The disk of the results is full when they are written, and has room again when the run goes on."""
    story = place.story("full", "private")
    disk = story.folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        yield Fault("disk full", "skipped: no file system can be mounted here", 0)
        return
    try:
        story.out = disk / "out"
        program = story.learn()
        program.at_round(story.out, 3)
        (disk / "ballast").write_bytes(b"x" * (shutil.disk_usage(disk).free - 4096))
        story.add("disk full", "a file system filled up after round 3", program)
        (disk / "ballast").unlink()
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        story.add("– then", "room made, `--resume`", story.resume(), "report")
        yield from story.end()
    finally:
        subprocess.run(["umount", str(disk)], check=True)
