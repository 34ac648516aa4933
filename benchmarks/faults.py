"""Fault injection in real processes: killed processes, damaged files, locked databases, absent silos.

`python benchmarks/faults.py [--story NAME]` starts the command line in separate processes. The line for a fault shows
the exit code, the message, whether the result equals that of an undisturbed run bit for bit, and the spent ε, which
must be that of an undisturbed run. The faults are defined in `faults_local.py` and `faults_federation.py`. `--record`
writes the lines to `results/faults.json`, in which those of other stories stay.

`python benchmarks/faults.py --random N --seed S` draws N faults with their processes and moments (`random_faults.py`),
and ends with exit code 1 if a promise was violated. `--record` adds them to `results/random-faults.json`.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from fault_story import Fault, Place
from faults_federation import federation
from faults_local import journal, masked, observers, outputs, private
from measure import RESULTS
from processes import TRACEBACK, Home, free_port, prefect_server
from random_faults import SHORT, Injection, injections, summary

STORIES = {
    "private": private,
    "journal": journal,
    "masked": masked,
    "observers": observers,
    "outputs": outputs,
    "federation": federation,
}


def chosen_faults(names: list[str], scratch: Path) -> Iterator[tuple[str, Fault]]:
    """Run the stories `names`, each in its own folder, with one Prefect server for all.

    Yields their faults with the names of the stories.
    """
    home = Home(scratch / "home")
    try:
        with prefect_server(home, free_port()):
            place = Place.prepared(home)
            for name in names:
                start = time.monotonic()
                yield from ((name, fault) for fault in STORIES[name](place))
                print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    finally:
        home.end()


def drawn(number: int, seed: int, scratch: Path, *, record: bool) -> None:
    """Inject `number` random faults; raises `SystemExit` if a promise was violated."""
    home = Home(scratch / "home")
    done: list[Injection] = []
    try:
        with prefect_server(home, free_port()):
            for one in injections(Place.prepared(home, SHORT), number, seed):
                done.append(one)
                print(" | ".join(one.row().values()), flush=True)
                if record:
                    write_record(seed, done)
    finally:
        home.end()
    violated = [one for one in done if one.violations]
    if violated:
        raise SystemExit(f"{len(violated)} of {number} injections violated a promise; the logs are in {scratch}")


def write_record(seed: int, done: list[Injection]) -> None:
    """Add the injections of a `seed` to the record, so that a night that is cut short is recorded so far."""
    file = RESULTS / "random-faults.json"
    earlier = json.loads(file.read_text("utf-8"))["runs"] if file.exists() else {}
    runs = earlier | {str(seed): [asdict(one) for one in done]}
    content = {"rows": summary([Injection(**one) for ones in runs.values() for one in ones]), "runs": runs}
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_lines(lines: dict[str, list[dict[str, str]]]) -> None:
    """Write the lines of stories, in place of their lines in the record."""
    file = RESULTS / "faults.json"
    runs = json.loads(file.read_text("utf-8"))["runs"] | lines
    content = {"rows": [row for name in STORIES for row in runs.get(name, ())], "runs": runs}
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Run the requested stories; print the table line by line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--story", choices=STORIES, action="append", help="one or more; default: all")
    parser.add_argument("--random", type=int, metavar="N", help="draw N faults, instead of the stories")
    parser.add_argument("--seed", type=int, default=0, help="seed of the drawn faults")
    parser.add_argument("--record", action="store_true", help="write the table to the folder results")
    asked = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="faults-"))
    if asked.random:
        drawn(asked.random, asked.seed, scratch, record=asked.record)
        shutil.rmtree(scratch)
        return
    faults, lines = [], dict[str, list[dict[str, str]]]()
    for name, fault in chosen_faults(asked.story or list(STORIES), scratch):
        faults.append(fault)
        lines.setdefault(name, []).append(fault.row())
        print(" | ".join(fault.row().values()), flush=True)
        if asked.record:
            write_lines(lines)
    if any(fault.said.startswith(TRACEBACK) for fault in faults):
        raise SystemExit(f"a traceback was printed, which no user should see: the logs are in {scratch}")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
