"""A supervisor: it serves in a child process with limits of memory, and starts another child after a crash.

A request of another party can make the child use all memory it may have, or never end. The child then ends, and the
next child continues from the journals on disk. The supervisor itself handles no request.
"""

import contextlib
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable

from .parent_watchdog import end_with_parent

PAUSE_SECONDS = 3.0
"""pause before the next child starts"""
ENDED_BY_LIMIT = 70
"""exit code of a child that a limit has ended"""
FINAL_CODES = (0, 1, 2, 3)
"""exit codes of a child that need no other child: it was stopped, or cannot serve"""


def supervise(memory_bytes: int, log: Callable[[str], None]) -> None:
    """Return in a child process that may use at most `memory_bytes` of address space; the caller then serves.

    This process waits. It passes signals to the child, starts another child after a crash, and exits with the exit code
    of the last one, or 0 if a signal ended it.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    while True:
        child = os.fork()
        if not child:
            end_with_parent()
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
            return

        def forward(number: int, frame: object, child: int = child) -> None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(child, number)

        for number in before:
            signal.signal(number, forward)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # No signal goes to a process that has ended; the next child inherits these handlers.
        for number, handler in before.items():
            signal.signal(number, handler)
        if code in FINAL_CODES or -code in (signal.SIGINT, signal.SIGTERM):
            sys.exit(max(code, 0))
        log(f"error: the process that serves ended ({_reason(code)}); starting it again")
        time.sleep(PAUSE_SECONDS)


def within_seconds(
    answer: Callable[[bytes], bytes], seconds: float, log: Callable[[str], None]
) -> Callable[[bytes], bytes]:
    """`answer`, but a call that takes more than `seconds` or too much memory ends this process."""

    def limited(content: bytes) -> bytes:
        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            return answer(content)
        except MemoryError:
            os._exit(ENDED_BY_LIMIT)
        finally:
            timer.cancel()

    def end() -> None:
        # A thread that computes in compiled code cannot be interrupted.
        log(f"error: a call took more than {seconds:g} s")
        os._exit(ENDED_BY_LIMIT)

    return limited


def _reason(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
