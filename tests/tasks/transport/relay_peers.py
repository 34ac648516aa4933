"""The parties of a relay, for tests over real TLS sockets: relay and silos in threads, or a silo in its own process.

python relay_peers.py FOLDER NAME PORT: a silo that reports each call on its standard output and never answers one that
says "hang".
"""

import asyncio
import hashlib
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from fedbnsl.algorithms.core import wire
from fedbnsl.tasks.transport.certificates import Identity
from fedbnsl.tasks.transport.channel import LIMITS, ConnectionLimits, Greeting, Parcel, RelayClient, serve_silo
from fedbnsl.tasks.transport.configuration import Endpoint
from fedbnsl.tasks.transport.relay import run_relay

QUICK = ConnectionLimits(frame_bytes=40 << 20, first_seconds=2.0, ping_seconds=0.1, silence_seconds=8.0)


def identity_of(folder, holder):
    """The identity of `holder` in the federation of which `federation init` wrote the files to `folder`."""
    own = folder / holder
    return Identity(own / f"{holder}.pem", own / f"{holder}.key", own / "trusted.pem")


def eventually(holds, seconds=10.0):
    """Wait until `holds()` is true; returns its value."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.01)
    return found


def frame(parcel):
    packed = wire.encode(parcel)
    return len(packed).to_bytes(8) + packed


def digest(content):
    return hashlib.sha256(content).digest()


class Loop:
    """An event loop in a thread."""

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        return self

    def start(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def __exit__(self, *_):
        async def end():
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.start(end()).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


class Hub:
    """A relay for the federation in `folder`, and those who connect to it."""

    def __init__(self, folder, loop, silos, limits, port):
        self.folder, self.loop, self.limits, self.log = folder, loop, limits, []
        ports = []
        coordinator = identity_of(folder, "coordinator")
        self.task = loop.start(run_relay(coordinator, "127.0.0.1", port, silos, self.log.append, ports.append, limits))
        self.where = Endpoint("127.0.0.1", eventually(lambda: ports)[0])

    def silo(self, name, answer=digest, log=None, limits=None, reconnect=0.05):
        """Start silo `name` in the thread of the relay; cancel the returned future to end it."""
        mine, log = identity_of(self.folder, name), (lambda line: None) if log is None else log.append
        return self.loop.start(serve_silo(name, self.where, mine, answer, log, reconnect, limits or self.limits))

    def run(self, timeout=5.0):
        return RelayClient.connect(self.where, identity_of(self.folder, "coordinator"), timeout, self.limits)

    @contextmanager
    def run_with(self, *silos):
        """A client that knows that `silos` are present."""
        with self.run() as client:
            eventually(lambda: set(silos) <= set(client.present()))
            yield client

    def peer(self, holder, folder=None):
        """A connection of `holder` that sends what the test writes."""
        return Peer(self.where, identity_of(folder or self.folder, holder).client_context())


@contextmanager
def hub(folder, silos=(), limits=QUICK, port=0):
    with Loop() as loop:
        running = Hub(folder, loop, silos, limits, port)  # an event loop has only weak references to its tasks
        yield running


class Peer:
    """One end of a TLS connection with blocking reads."""

    def __init__(self, where, context):
        plain = socket.create_connection((where.host, where.port), timeout=10)
        self.socket = context.wrap_socket(plain)
        self.greet("silo")

    def greet(self, role, packed=None):
        """Exchange versions with the other side, as every connection begins."""
        packed = Greeting(role).pack() if packed is None else packed
        self.socket.sendall(len(packed).to_bytes(8) + packed)
        try:
            self.exactly(int.from_bytes(self.exactly(8)))
        except EOFError:
            raise ConnectionResetError from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, content):
        self.socket.sendall(content if isinstance(content, bytes) else frame(content))

    def exactly(self, length):
        parts = b""
        while len(parts) < length:
            part = self.socket.recv(length - len(parts))
            if not part:
                raise EOFError
            parts += part
        return parts

    def receive(self, seconds=10.0):
        """The next parcel, None if only pings arrive for so many seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            packed = self.exactly(int.from_bytes(self.exactly(8)))
            if packed:
                return wire.decode(Parcel, packed)
        return None

    def is_closed(self, seconds=5.0):
        """Whether the other side closes the connection within `seconds`, while this side stays silent."""
        deadline = time.monotonic() + seconds
        with suppress(EOFError, ConnectionError, OSError):
            while time.monotonic() < deadline:
                self.socket.settimeout(max(0.01, deadline - time.monotonic()))
                self.exactly(1)
        return time.monotonic() < deadline


class FalseRelay:
    """A server with a coordinator's certificate (or that of `holder`) that behaves as `behave(peer)` says."""

    def __init__(self, identity, behave):
        self.context, self.behave, self.visits = identity.server_context(), behave, 0
        self.greeting = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.where = Endpoint("127.0.0.1", self.listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            with suppress(OSError, EOFError):
                plain.settimeout(5)
                peer = object.__new__(Peer)
                peer.socket = self.context.wrap_socket(plain, server_side=True)
                self.visits += 1
                with peer:
                    peer.greet("coordinator", self.greeting)
                    self.behave(peer)
            plain.close()


def silo_process(hub, name):
    """A silo in its own process (see the docstring of this module)."""
    command = [sys.executable, __file__, str(hub.folder), name, str(hub.where.port)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def main(folder, name, port):
    def answer(content):
        print(f"call {content.decode()}", flush=True)
        if content == b"hang":
            threading.Event().wait()
        return digest(content)

    where = Endpoint("127.0.0.1", int(port))
    asyncio.run(serve_silo(name, where, identity_of(Path(folder), name), answer, print, 0.05, LIMITS))


if __name__ == "__main__":
    main(*sys.argv[1:])
