"""A process that serves until a signal says so, whatever number of signals it gets."""

import signal
import subprocess
import sys
import time

import pytest

SERVING = """
import asyncio
from fedbnsl.flows.terminal.daemon import log_line, run_until_signal

async def serve():
    log_line("serving")
    await asyncio.Event().wait()

run_until_signal(serve)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_that_follow_the_first_do_not_keep_it_from_saying_that_it_has_stopped(number):
    with subprocess.Popen([sys.executable, "-c", SERVING], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline().endswith("serving\n")
        while child.poll() is None:
            child.send_signal(number)
            time.sleep(0.0005)
        assert child.stdout.read().endswith("stopped\n")
    assert child.returncode == 0
