"""Fault injection in real processes: killed processes, damaged files, locked databases, absent silos.

`python benchmarks/faults.py [--story NAME]` starts the command line in separate processes. The line for a fault shows
the exit code, the message, whether the result equals that of an undisturbed run bit for bit, and the spent ε, which
must be that of an undisturbed run. The faults are defined in `faults_local.py` and `faults_federation.py`. `--record`
writes the table to `results/faults.json`.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from fault_story import Fault, Place
from faults_federation import federation
from faults_local import journal, masked, observers, outputs, private
from measure import RESULTS
from processes import TRACEBACK, Home, free_port, prefect_server

STORIES = {
    "private": private,
    "journal": journal,
    "masked": masked,
    "observers": observers,
    "outputs": outputs,
    "federation": federation,
}


def told(names: list[str], scratch: Path) -> Iterator[Fault]:
    """Run the stories `names`, each in its own folder, with one Prefect server for all; yield their faults."""
    home = Home(scratch / "home")
    try:
        with prefect_server(home, free_port()):
            place = Place.prepared(home)
            for name in names:
                start = time.monotonic()
                yield from STORIES[name](place)
                print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    finally:
        home.end()


def main() -> None:
    """Run the requested stories; print the table line by line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--story", choices=STORIES, action="append", help="one or more; default: all")
    parser.add_argument("--record", action="store_true", help="write the table to results/faults.json")
    asked = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="faults-"))
    faults = []
    for fault in told(asked.story or list(STORIES), scratch):
        faults.append(fault)
        print(" | ".join(fault.row().values()), flush=True)
    if asked.record:
        rows = [fault.row() for fault in faults]
        content = json.dumps({"rows": rows, "runs": {}}, indent=1, ensure_ascii=False)
        (RESULTS / "faults.json").write_text(content + "\n", encoding="utf-8")
    if any(fault.said.startswith(TRACEBACK) for fault in faults):
        raise SystemExit(f"a traceback was printed, which no user should see: the logs are in {scratch}")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
