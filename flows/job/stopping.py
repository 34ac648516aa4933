"""Ctrl-C and SIGTERM, which end a command for certain.

Python raises `KeyboardInterrupt` in whatever code runs when the signal arrives, and some code loses it: pydantic, while
it builds a model, replaces it by an error of its own, and a destructor ignores it. The handler therefore also remembers
the signal, and a run raises `KeyboardInterrupt` again after the current round.
"""

import signal
import threading

_stopped = threading.Event()


def _stop(number: int, frame: object) -> None:
    _stopped.set()
    raise KeyboardInterrupt


def end_like_ctrl_c() -> None:
    """Let SIGTERM end this process as Ctrl-C does: workers and servers end with it, and the exit code is 130.

    A process that ignores Ctrl-C, as shells start those in the background, still does.
    """
    if threading.current_thread() is threading.main_thread():
        _stopped.clear()
        signal.signal(signal.SIGTERM, _stop)
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            signal.signal(signal.SIGINT, _stop)


def raise_if_stopped() -> None:
    """Raise `KeyboardInterrupt` if a signal has asked this process to end."""
    if _stopped.is_set():
        raise KeyboardInterrupt
