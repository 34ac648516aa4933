"""The supervisor of a silo: signals reach the child that serves, also after another child crashed."""

import subprocess
import sys

PROGRAM = """
import os, signal, sys, time
from fedbnsl.flows.servers import supervisor

supervisor.PAUSE_SECONDS = 0.05
supervisor.supervise(2**40, lambda line: print(line, file=sys.stderr))
if not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w").close()
    os._exit(supervisor.ENDED_BY_LIMIT)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(30)
"""


def test_a_child_after_a_crash_ends_on_a_signal(tmp_path):
    """It must not pass the signal to the child before it, which does not exist any more."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "crashed")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert "ended (exit code 70); starting it again" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
