"""Run a module so that it ends when the process that started it ends.

Servers are started by `python -m fedbnsl.flows.servers.parent_watchdog MODULE ARGUMENTS...`. Started directly, a server
would continue to run after the process that started it is killed.
"""

import ctypes
import os
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let the kernel end this process when its parent ends; this works only on Linux."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            raise SystemExit(1)


if __name__ == "__main__":
    end_with_parent()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
