"""Messages between owners: frames over TLS, and both clients of the coordinator's relay (`relay.py`).

A frame is a length of 8 bytes and so many bytes, which encode a `Parcel` (`core/wire.py`); a frame of length 0 is a
ping. The first frame of each side is a `Greeting` with its version, whose form is the same in all versions. The content
of a call or an answer is opaque bytes here and in the relay. Both clients connect to the relay and listen nowhere:
`serve_silo` answers calls, `RelayClient` sends them. As the other side they accept only the holder of a coordinator's
certificate.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from threading import Thread
from typing import Literal, get_args

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import BadInput, SilosUnavailable, foreign_text

from ..silo.heartbeat import Heartbeat
from ..silo.messages import PROTOCOL_VERSION, MethodCall
from .certificates import COORDINATOR, Identity, holder_of
from .configuration import Endpoint, FederationFile
from .federation import PackedAnswer, transport_errors
from .tls import CHUNK_BYTES, PeerRefusedError, PlainStream, TlsStream

MAX_FRAME_BYTES = 1 << 30
CONNECTION_LOST = "the connection to the coordinator was lost"
RETRY_SECONDS = 0.2
"""pause of a run between two attempts to reach a coordinator that does not listen yet"""


@dataclass(frozen=True)
class ConnectionLimits:
    """What one side of a connection accepts from the other."""

    frame_bytes: int = MAX_FRAME_BYTES
    first_seconds: float = 10.0
    """timeout for the TLS handshake, for the first frame, and for the end of a connection"""
    ping_seconds: float = 2.0
    silence_seconds: float = 35.0
    """seconds without any byte after which a connection is lost"""
    deliveries: int = 3
    """how often the relay delivers a call to a silo whose connections end before the answer"""
    calls: int = 10_000
    """maximum number of calls of a run in the relay"""
    call_bytes: int = 4 << 30
    """maximum number of bytes of a run's calls in the relay"""


LIMITS = ConnectionLimits()


Kind = Literal["present", "refused", "call", "answer", "lost", "release"]


@dataclass(frozen=True)
class Parcel:
    """One message.

    - `present`, the relay's first parcel: the connected `silos`, and if one of them is silent, in `content` for how
      many seconds each has been silent; again after each change; for a silo, its name. A run also gets the `warnings`
      of the coordinator, and `refusals`: why peers could not join
    - `refused`, from the relay in place of `present`: a silo may not join, for the reason `note`
    - `call`: from a run for `silo`, or from the relay to this silo; sender and receiver agree on its `number`
    - `answer`: to the call of this `number`, from the silo or from the relay to the run
    - `lost`: from the relay to a run: there will be no answer, for the reason `note`
    - `release`: from a run: it needs no answer
    """

    kind: Kind
    number: int = 0
    silo: str = ""
    content: bytes = b""
    note: str = ""
    silos: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


wire.prepare(Parcel)


Role = Literal["coordinator", "silo", "check", "run"]
"""what a side of a connection is; a `check` is a silo that does not join"""
MAX_GREETING_BYTES = 1000


@dataclass(frozen=True)
class Greeting:
    """What each side states first: what it is, and its version."""

    role: Role
    protocol: int = PROTOCOL_VERSION
    version: str = field(default_factory=lambda: version("fedbnsl"))

    def pack(self) -> bytes:
        """The greeting as bytes; this form must never change."""
        return f"fedbnsl {self.protocol} {self.role} {self.version}".encode()

    @classmethod
    def unpack(cls, packed: bytes) -> "Greeting":
        """The greeting in `packed`; raises `PeerRefusedError` for anything else."""
        match packed.split(b" "):
            case [b"fedbnsl", protocol, role, release] if protocol.isdigit():
                name: Role = next((one for one in get_args(Role) if one.encode() == role), "silo")
                return cls(name, int(protocol), foreign_text(release.decode(errors="replace"), 40))
        raise PeerRefusedError(
            f"the other side does not state its version: it needs fedbnsl {version('fedbnsl')}, as this side has"
        )

    def __str__(self) -> str:
        """The version in words."""
        return f"fedbnsl {self.version} (protocol {self.protocol})"

    def require_same_protocol(self, other: "Greeting") -> None:
        """Raise `PeerRefusedError` unless the `other` side has the same version of the protocol."""
        if self.protocol != other.protocol:
            raise PeerRefusedError(
                f"the {other.role} has {other}, and this {self.role} has {self}: install one version at both"
            )


class Connection:
    """One end of a connection.

    Methods raise `OSError` if the connection is lost, and `ValueError` if the other side violates the protocol.
    """

    def __init__(self, stream: TlsStream | PlainStream, limits: ConnectionLimits) -> None:
        self._stream, self._limits = stream, limits
        self._patience = limits.first_seconds
        self.heartbeats: Callable[[], int] = itertools.count().__next__
        """the number of heartbeats so far; a ping is sent if it has grown"""
        self.reads = 0
        """number of reads so far: it changes with each ping of the other side, and while a long frame arrives"""
        self._sending = asyncio.Lock()
        self._outbox: asyncio.Queue[Parcel] = asyncio.Queue()

    async def greet(self, role: Role) -> Greeting:
        """Exchange greetings as `role`; returns that of the other side.

        Raises `PeerRefusedError` if it has another version of the protocol.
        """
        own = Greeting(role)
        await self._send(own.pack())
        length = int.from_bytes(await self._read(8))
        other = Greeting.unpack(await self._read(length) if length <= MAX_GREETING_BYTES else b"")
        own.require_same_protocol(other)
        return other

    async def receive(self) -> Parcel:
        """The next parcel."""
        while True:
            length = int.from_bytes(await self._read(8))
            if length > self._limits.frame_bytes:
                raise ValueError(f"a frame of {length} bytes, more than {self._limits.frame_bytes}")
            frame = await self._read(length)
            self._patience = self._limits.silence_seconds
            if frame:
                return wire.decode(Parcel, frame)

    async def _read(self, length: int) -> bytes:
        parts = []
        while length:
            async with asyncio.timeout(self._patience):
                part = await self._stream.read(min(length, CHUNK_BYTES))
            if not part:
                raise ConnectionResetError("the other side closed the connection")
            self.reads += 1
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def post(self, parcel: Parcel) -> None:
        """Send `parcel` later, in order, while `run` runs."""
        self._outbox.put_nowait(parcel)

    async def send(self, parcel: Parcel | None) -> None:
        """Send `parcel`, None for a ping, as soon as all earlier parcels are sent."""
        await self._send(wire.encode(parcel) if parcel else b"")

    async def _send(self, frame: bytes) -> None:
        async with self._sending:
            # One write per frame: if this task is cancelled, no part of a frame is sent.
            self._stream.write(len(frame).to_bytes(8) + frame)
            await self._stream.drain()

    async def run(self, *works: Coroutine[object, object, object]) -> None:
        """Keep the connection alive and send what is posted while `works` run, until one of them ends."""
        tasks = [asyncio.create_task(work) for work in (*works, self._send_posted(), self._ping())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def _send_posted(self) -> None:
        while True:
            await self.send(await self._outbox.get())

    async def _ping(self) -> None:
        sent = -1
        while True:
            count = self.heartbeats()
            if count != sent:
                await self.send(None)
                sent = count
            await asyncio.sleep(self._limits.ping_seconds)

    def close(self) -> None:
        """Close the connection after what is already sent."""
        self._stream.close(self._limits.first_seconds)


async def connect(
    where: Endpoint, identity: Identity, role: Role, limits: ConnectionLimits = LIMITS
) -> tuple[Connection, Parcel]:
    """A connection of `identity` to the relay at `where` as `role`, and the relay's first parcel.

    Raises `PeerRefusedError` if either side refuses the other, other kinds of `OSError` if nobody responds in time, and
    `ValueError` if the other side is not a relay or a file of `identity` is unusable.
    """
    context = identity.client_context()
    async with asyncio.timeout(limits.first_seconds):
        streams = await asyncio.open_connection(where.host, where.port, limit=CHUNK_BYTES)
        stream = TlsStream(*streams, identity, context, server=False)
        connection = Connection(stream, limits)
        try:
            await stream.handshake()
            holder = holder_of(stream.certificate)
            if holder != COORDINATOR:
                raise PeerRefusedError(f"the other side has the certificate of '{holder}', not of a coordinator")
            await connection.greet(role)
            first = await connection.receive()
            if first.kind != "present":
                raise PeerRefusedError(first.note or "the other side is not the relay of a coordinator")
        except BaseException:
            connection.close()
            raise
    return connection, first


Opening = Coroutine[object, object, tuple[Connection, Parcel]]
"""opens a connection, and receives the first parcel of its other end"""


async def _connect_patiently(
    where: Endpoint, identity: Identity, limits: ConnectionLimits
) -> tuple[Connection, Parcel]:
    """As `connect`, but waits while nobody listens."""
    while True:
        try:
            return await connect(where, identity, "run", limits)
        except ConnectionRefusedError:
            await asyncio.sleep(RETRY_SECONDS)


async def serve_silo(
    name: str,
    where: Endpoint,
    identity: Identity,
    answer: Callable[[bytes], bytes],
    log: Callable[[str], None],
    reconnect_seconds: float = 3.0,
    limits: ConnectionLimits = LIMITS,
    heartbeat: Heartbeat | None = None,
) -> None:
    """Answer the calls of the relay at `where` by `answer` in one thread, until this task is cancelled.

    Reconnects after a lost connection, but not while a call makes no progress. The reason for a failure to join is
    logged once. If `answer` raises an exception, only its type is logged, and the connection is closed.
    """
    last_reason, thread, heartbeat = "", ThreadPoolExecutor(1), heartbeat or Heartbeat()

    def logged_answer(content: bytes) -> bytes:
        try:
            with heartbeat.answering():
                return answer(content)
        except Exception as error:  # its text may contain rows
            log(f"silo {name}: {type(error).__name__} while it answered a call")
            raise ConnectionError from None

    while True:
        try:
            connection, _ = await connect(where, identity, "silo", limits)
        except (OSError, ValueError) as error:
            reason = foreign_text(str(error)) or type(error).__name__
            if last_reason != reason:
                log(f"silo {name} cannot join {where.tls}: {reason}")
                last_reason = reason
        else:
            last_reason = ""
            log(f"silo {name} has joined {where.tls}")
            connection.heartbeats = heartbeat.count
            calls: asyncio.Queue[Parcel] = asyncio.Queue()
            try:
                with contextlib.suppress(OSError, ValueError):
                    await connection.run(
                        _receive_calls(connection, calls), _answer_calls(connection, calls, logged_answer, thread)
                    )
            finally:
                connection.close()
            log(f"silo {name}: connection to {where.tls} lost; reconnecting")
        count = heartbeat.count()
        await asyncio.sleep(reconnect_seconds)
        if heartbeat.count() == count:
            log(f"silo {name}: a call makes no progress, as if a disk did not respond; it reconnects afterwards")
        while heartbeat.count() == count:
            await asyncio.sleep(reconnect_seconds)


async def _receive_calls(connection: Connection, calls: "asyncio.Queue[Parcel]") -> None:
    while True:
        call = await connection.receive()
        # The relay sends a call only after the answer to the last one, so a silo holds at most two.
        if call.kind != "call" or not calls.empty():
            raise ValueError("a parcel that is not the next call")
        calls.put_nowait(call)


async def _answer_calls(
    connection: Connection, calls: "asyncio.Queue[Parcel]", answer: Callable[[bytes], bytes], thread: ThreadPoolExecutor
) -> None:
    while True:
        call = await calls.get()
        content = await asyncio.get_running_loop().run_in_executor(thread, answer, call.content)
        await connection.send(Parcel("answer", call.number, content=content))


@dataclass(frozen=True, eq=False)
class PendingBytes:
    """The answer to a call of a `RelayClient`, as bytes, which may not have arrived yet."""

    client: "RelayClient"
    silo: str
    number: int
    future: Future[bytes] = field(default_factory=Future)

    def result(self, timeout: float) -> bytes:
        """The answer; raises `TimeoutError` after `timeout` seconds, and `SiloLost` if it can never arrive."""
        return self.future.result(timeout)

    def lose(self, reason: str) -> None:
        """Have `result` raise `SiloLost`."""
        self.future.set_exception(SiloLost((self.silo,), reason))

    def release(self) -> None:
        """Have the relay forget the call; its answer is not needed."""
        self.client.release(self)


def read_silence(membership: Parcel) -> dict[str, float]:
    """The connected silos, sorted, and for how many seconds each has been silent, in a parcel `present` for a run."""
    seconds = wire.decode(tuple[float, ...], membership.content) if membership.content else ()
    return dict.fromkeys(membership.silos, 0.0) | dict(zip(membership.silos, seconds, strict=False))


class RelayClient:
    """A run's connection to the relay; its methods may be called from any thread."""

    def __init__(self) -> None:
        """Prepare a client; `connect` and `over` return connected ones."""
        self._numbers = itertools.count(1)
        self._silence: dict[str, float] = {}
        self.warnings: tuple[str, ...] = ()
        """lines about the federation that the user should see, such as certificates that expire soon"""
        self.refusals: tuple[str, ...] = ()
        """why peers could not join"""
        self._calls: dict[int, PendingBytes] = {}
        self._connection: Connection | None = None
        self._opened: Future[asyncio.AbstractEventLoop] = Future()
        self._loop: asyncio.AbstractEventLoop
        self._thread: Thread
        self._stopped = asyncio.Event()

    @classmethod
    def connect(
        cls,
        where: Endpoint,
        identity: Identity,
        timeout: float = 15.0,
        limits: ConnectionLimits = LIMITS,
        place: str = "",
    ) -> "RelayClient":
        """A client of the relay at `where`; leaving its `with` block closes the connection.

        Raises `SilosUnavailable` if none responds within `timeout` seconds, and `BadInput` if either side refuses the
        other; `place` begins the message.
        """
        try:
            return cls.over(_connect_patiently(where, identity, limits), timeout)
        except PeerRefusedError as error:
            raise BadInput(f"{place}{where}: {foreign_text(str(error))}") from None
        except Exception as error:
            raise SilosUnavailable(
                f"{place}no coordinator responds at {where} ({type(error).__name__}): start it with "
                "`fedbnsl coordinator start`"
            ) from None

    @classmethod
    def over(cls, opening: Opening, timeout: float) -> "RelayClient":
        """A client of the other end of the connection that `opening` opens; raises its errors, and `TimeoutError`."""
        client = cls()
        client._thread = Thread(target=lambda: asyncio.run(client._serve(opening, timeout)), daemon=True)
        client._thread.start()
        client._loop = client._opened.result()
        return client

    def __enter__(self) -> "RelayClient":
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def present(self) -> tuple[str, ...]:
        """The silos that are connected at this moment, sorted."""
        return tuple(self._silence)

    def silence(self) -> Mapping[str, float]:
        """The seconds for which each connected silo has been silent, as the relay hears it."""
        return self._silence

    def submit(self, silo: str, content: bytes) -> PendingBytes:
        """Send a call to `silo` and return at once; if the silo is away, the call waits in the relay."""
        call = PendingBytes(self, silo, next(self._numbers))
        self._loop.call_soon_threadsafe(self._start, call, content)
        return call

    def release(self, call: PendingBytes) -> None:
        """Have the relay forget `call`, unless it is already answered."""
        with contextlib.suppress(RuntimeError):  # after the end of the connection, the relay has forgotten it
            self._loop.call_soon_threadsafe(self._forget, call.number)

    def _start(self, call: PendingBytes, content: bytes) -> None:
        if self._connection is None:
            call.lose(CONNECTION_LOST)
            return
        self._calls[call.number] = call
        self._connection.post(Parcel("call", call.number, call.silo, content))

    def _forget(self, number: int) -> None:
        if self._calls.pop(number, None) and self._connection:
            self._connection.post(Parcel("release", number))

    async def _serve(self, opening: Opening, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                connection, first = await opening
        except Exception as error:
            self._opened.set_exception(error)
            return
        self._connection = connection
        self._see(first)
        self._opened.set_result(asyncio.get_running_loop())
        with contextlib.suppress(Exception):  # whatever ends the connection, all calls are lost
            await connection.run(self._stopped.wait(), self._receive(connection))
        connection.close()
        self._connection, self._silence = None, {}
        for call in self._calls.values():
            call.lose(CONNECTION_LOST)
        await self._stopped.wait()

    def _see(self, present: Parcel) -> None:
        self._silence, self.refusals = read_silence(present), tuple(map(foreign_text, present.refusals))
        self.warnings = tuple(dict.fromkeys((*self.warnings, *map(foreign_text, present.warnings))))

    async def _receive(self, connection: Connection) -> None:
        while True:
            parcel = await connection.receive()
            if parcel.kind == "present":
                self._see(parcel)
            elif call := self._calls.pop(parcel.number, None):
                if parcel.kind == "answer":
                    call.future.set_result(parcel.content)
                else:
                    call.lose(foreign_text(parcel.note))


@dataclass(frozen=True)
class RelayTransport:
    """The silos that a relay reaches (see `SiloTransport`)."""

    client: RelayClient

    def present(self) -> tuple[str, ...]:
        """The silos that are connected at this moment, sorted."""
        return self.client.present()

    def silence(self) -> Mapping[str, float]:
        """The seconds for which each connected silo has been silent, as the relay hears it."""
        return self.client.silence()

    def submit(self, silo: str, call: MethodCall) -> PackedAnswer:
        """Send `call` to `silo`; if the silo is away, the call waits in the relay."""
        packed = call.pack()
        with transport_errors(silo):
            return PackedAnswer(silo, call.method, self.client.submit(silo, packed))


@contextlib.contextmanager
def connect_to_coordinator(file: FederationFile, timeout: float = 15.0) -> Iterator[RelayTransport]:
    """Yield the transport to the silos of the federation of `file`.

    Raises `SilosUnavailable` if its coordinator does not respond within `timeout` seconds, and `BadInput` if it refuses
    this run. If silos are unavailable in the block, the error also states whom the coordinator has refused.
    """
    with RelayClient.connect(file.address, file.identity, timeout, place=f"{file.path}: ") as client:
        try:
            yield RelayTransport(client)
        except SilosUnavailable as error:
            refused = "".join(f"; the coordinator refused: {reason}" for reason in client.refusals)
            raise type(error)(f"{error}{refused}") from None
