"""The heartbeat of a process that hosts silos, which stops while the answer to a call makes no progress.

One thread sends heartbeats, another one answers calls. If the latter waits for a disk that never responds, the former
would go on for ever. So during a call, a heartbeat requires processor time of the answer.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PROGRESS_SECONDS = 0.001
"""processor time that counts as progress: a slow disk needs it within seconds, a waiting process not within minutes"""


class Heartbeat:
    """The heartbeat of this process, whose calls are answered by one thread."""

    def __init__(self, *, remote_rows: bool = False, reader_seconds: Callable[[], float] = lambda: 0.0) -> None:
        """The process has no call yet.

        With `remote_rows`, another machine reads the rows, such as a database server. Then a call may wait for long
        without processor time, and heartbeats never stop. `reader_seconds` returns the processor time of the processes
        that read rows for this one.
        """
        self._remote_rows, self._reader_seconds = remote_rows, reader_seconds
        self._answering, self._beats, self._seconds = False, 0, 0.0

    @contextmanager
    def answering(self) -> Iterator[None]:
        """A call is answered within the block."""
        self._answering = True
        try:
            yield
        finally:
            self._answering = False

    def count(self) -> int:
        """The number of heartbeats, one more than before unless a call has made no progress since the last heartbeat.

        Only the thread that sends heartbeats may call this method: its own processor time is no progress.
        """
        seconds = time.process_time() - time.thread_time() + self._reader_seconds()
        if self._remote_rows or not self._answering or abs(seconds - self._seconds) >= PROGRESS_SECONDS:
            self._beats, self._seconds = self._beats + 1, seconds
        return self._beats
