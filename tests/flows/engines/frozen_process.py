"""A run of the command line in which a silo freezes: `python frozen_process.py AT PIDS ROWS FILE learn ...`.

The process of silo-2 gets SIGSTOP before the first exchange whose method or part of the run is AT, in round 2 if it is
a round. If ROWS, the path of its rows, is not empty, its disk hangs instead: a pipe takes the place of the rows. PIDS
are the process ids of silos of owners as JSON; without any, silo-2 is on a worker of this machine. The process id and
the time are written to FILE.
"""

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from fedbnsl.flows.cli.main import main
from fedbnsl.tasks.transport.cluster import hosted_silos
from fedbnsl.tasks.transport.federation import Roster

SILO = "silo-2"


def process_of(transport, pids):
    """The id of the process of the silo."""
    if pids:
        return pids[SILO]
    address, _ = hosted_silos(transport.client)[SILO]
    return transport.client.run(os.getpid, workers=[address])[address]


def kinds(call):
    """The method of a call, and of a solve from round 2 on its part of the run."""
    solves = call.method in ("solve", "secure_answer")
    late = solves and (call.arguments[1] > 1 or call.arguments[0].part != "round")
    return {call.method, call.arguments[0].part} if late else {call.method}


def hang(rows):
    """Put a pipe, whose reader waits for ever, in the place of the file `rows`, which is kept beside it."""
    rows.rename(rows.with_name(f".{rows.name}"))
    os.mkfifo(rows)


def release(rows):
    """Undo `hang`; what waits for the pipe reads nothing."""
    with contextlib.suppress(OSError):  # nobody waits
        os.close(os.open(rows, os.O_WRONLY | os.O_NONBLOCK))
    rows.with_name(f".{rows.name}").replace(rows)


def stop_silo_before(at, pids, rows, file):
    """Stop the silo before the first exchange of the kind `at`."""
    ask = Roster.ask

    def asking(roster, calls, **how):
        if not file.exists() and any(at in kinds(call) for call in calls.values()):
            pid = process_of(roster.transport, pids)
            if rows:
                hang(Path(rows))
            else:
                os.kill(pid, signal.SIGSTOP)
            file.write_text(json.dumps([pid, time.time()]))
        return ask(roster, calls, **how)

    Roster.ask = asking


if __name__ == "__main__":
    at, pids, rows, file, *words = sys.argv[1:]
    stop_silo_before(at, json.loads(pids), rows, Path(file))
    main(words)
