"""The coordinator's relay: it moves the calls of runs to silos, and the silos' answers back.

The relay never interprets the content of calls and answers. The certificate of a peer decides what it may do: a run
has a coordinator's certificate and may send calls, a silo may only answer the calls that were delivered to it, under
the name in its certificate. A silo gets one call at a time. A call to a silo that is away waits until the silo joins.
If the silo's connection ends before the answer, the call is delivered again when the silo rejoins, but only
`ConnectionLimits.deliveries` times. The calls of a run end with its connection.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import foreign_text

from .certificates import Identity, Validity, expiry_warnings, holder_of, is_coordinator, peer_validity
from .channel import LIMITS, Connection, ConnectionLimits, Parcel
from .configuration import Endpoint
from .federation import Liveness
from .tls import CHUNK_BYTES, PeerRefusedError, TlsStream

TOO_MANY_CALLS = "the coordinator holds too many calls of this run"
DIED_REPEATEDLY = "its worker died repeatedly while solving"
MAX_REFUSALS = 100
"""maximum number of refusals that the relay remembers"""
MAX_REFUSALS_OF_PEER = 8
"""maximum number of different reasons of one peer that the relay remembers and logs"""
MAX_SENT_REFUSALS = 10
"""maximum number of these reasons that a run gets, the newest ones; above the maximum of one peer"""


@dataclass(eq=False)
class _Run:
    """A connected run, its calls by number, and the number of their bytes."""

    connection: Connection
    calls: "dict[int, _Call]" = field(default_factory=dict)
    call_bytes: int = 0


@dataclass(eq=False)
class _Call:
    """A call that is not answered yet."""

    run: _Run
    number: int
    silo: str
    content: bytes
    deliveries: int = 0


@dataclass(frozen=True, eq=False)
class _Queue:
    """The calls to one silo, connected or away, in order; the first one may be delivered already."""

    calls: dict[_Call, None] = field(default_factory=dict)
    filled: asyncio.Event = field(default_factory=asyncio.Event)


class Relay:
    """The state of a relay for `silos`, or for any silos if there are none."""

    def __init__(
        self, identity: Identity, silos: tuple[str, ...], log: Callable[[str], None], limits: ConnectionLimits
    ) -> None:
        """Serve as the coordinator with `identity`; `log` gets a line for each join, exit and new refusal."""
        self._identity, self._silos, self._log, self._limits = identity, silos, log, limits
        self._connections: set[Connection] = set()
        self._runs: set[_Run] = set()
        self._present: dict[str, Connection] = {}
        self._liveness, self._silence = Liveness(limits.ping_seconds), dict[str, float]()
        self._queues: dict[str, _Queue] = {}
        self._numbers = itertools.count(1)
        self._refusals: dict[tuple[str, str], str] = {}
        """(peer, reason for refusing it) -> the name that the peer has or claims"""
        self._expiries: dict[str, Validity] = {}
        """the dates of the certificates of the silos that have joined"""
        self._files = self._file_times()
        self._read_identity()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a peer until its connection ends; a peer without a trusted certificate is refused."""
        self._reread_identity()
        stream = TlsStream(reader, writer, self._identity, self._context, server=True)
        connection, address = Connection(stream, self._limits), Endpoint(*stream.peer)
        peer = f"a peer at {address.host}"
        self._connections.add(connection)
        try:
            async with asyncio.timeout(self._limits.first_seconds):
                await stream.handshake()
            certificate, name = stream.certificate, holder_of(stream.certificate)
            run = is_coordinator(certificate, self._authorities)
            peer = "a run" if run else f"silo {name}"
            greeting = await connection.greet("coordinator")
            if run:
                await self._serve_run(connection)
            else:
                only_checks = greeting.role == "check"
                await self._serve_silo(name, connection, peer_validity(certificate), address, only_checks)
        except PeerRefusedError as error:
            self._log_refusal(address.host, f"{peer}: {error}", error.holder)
        except ValueError as error:
            self._log_refusal(address.host, f"{peer} sends {error}")
        except (OSError, asyncio.CancelledError):
            pass  # the peer has left, or the relay ends
        finally:
            self._connections.remove(connection)
            connection.close()

    def _file_times(self) -> tuple[float, ...]:
        files = (self._identity.certificate, self._identity.key, self._identity.trusted)
        return tuple(file.stat().st_mtime for file in files if file.exists())

    def _read_identity(self) -> None:
        """Read the coordinator's files, which are used until they are read again; raises `BadInput` as `check`."""
        self._identity.require_coordinator()
        context, validities = self._identity.server_context(), self._identity.validities()
        self._context, self._validities, self._authorities = context, validities, self._identity.own_authorities()

    def _reread_identity(self) -> None:
        """Use renewed certificates from the next connection on; unusable files change nothing."""
        if self._files != (now := self._file_times()):
            self._files = now
            try:
                self._read_identity()
                self._log("certificate, key and trusted authorities have been read again")
            except ValueError as error:
                self._log(f"warning: {error}; the certificates read before remain in use")

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    async def _serve_run(self, connection: Connection) -> None:
        run = _Run(connection)
        self._runs.add(run)
        try:
            await connection.send(self._membership())
            await connection.run(self._receive_calls(run))
        finally:
            self._runs.remove(run)
            for call in tuple(run.calls.values()):
                self._forget(call)

    async def _receive_calls(self, run: _Run) -> None:
        while True:
            parcel = await run.connection.receive()
            known = run.calls.get(parcel.number)
            if parcel.kind == "call" and known is None:
                self._accept(_Call(run, parcel.number, parcel.silo, parcel.content))
            elif parcel.kind != "release":
                raise ValueError("a parcel that is neither a new call nor the release of one")
            elif known:
                self._forget(known)

    def _accept(self, call: _Call) -> None:
        run, call_bytes = call.run, call.run.call_bytes + len(call.content)
        if len(run.calls) >= self._limits.calls or call_bytes > self._limits.call_bytes:
            run.connection.post(Parcel("lost", call.number, note=TOO_MANY_CALLS))
            return
        run.calls[call.number], run.call_bytes = call, call_bytes
        queue = self._queues.setdefault(call.silo, _Queue())
        queue.calls[call] = None
        queue.filled.set()

    def _forget(self, call: _Call) -> None:
        """Remove a call that is answered, released or lost."""
        queue = self._queues[call.silo]
        del call.run.calls[call.number], queue.calls[call]
        call.run.call_bytes -= len(call.content)
        if not queue.calls:
            queue.filled.clear()
            if call.silo not in self._present:
                del self._queues[call.silo]

    async def _serve_silo(
        self, name: str, connection: Connection, expiry: Validity, address: Endpoint, only_checks: bool
    ) -> None:
        reason = self._objection(name, only_checks)
        if reason:
            self._log_refusal(f"silo {name}", reason, name)
            await connection.send(Parcel("refused", note=reason))
            return
        mended = {(f"silo {name}", name), (address.host, name), (address.host, "")}
        self._refusals = {
            (peer, why): claimed for (peer, why), claimed in self._refusals.items() if (peer, claimed) not in mended
        }
        if only_checks:
            await connection.send(Parcel("present", silos=(name,)))
            return
        self._present[name] = connection
        self._expiries[name] = expiry
        queue = self._queues.setdefault(name, _Queue())
        answers: dict[int, asyncio.Future[bytes]] = {}
        self._log(foreign_text(f"silo {name} has joined from {address.tls}"))
        for line in expiry_warnings((expiry,)):
            self._log(foreign_text(f"warning: {line}"))
        self._announce()
        try:
            await connection.send(Parcel("present", silos=(name,)))
            await connection.run(_receive_answers(connection, answers), self._deliver(queue, connection, answers))
        finally:
            del self._present[name]
            self._log(foreign_text(f"silo {name} has left"))
            self._announce()
            first = next(iter(queue.calls), None)
            if first and first.deliveries >= self._limits.deliveries:
                self._forget(first)
                first.run.connection.post(Parcel("lost", first.number, note=DIED_REPEATEDLY))

    def _objection(self, name: str, only_checks: bool) -> str:
        """Why the silo `name` may not join; empty if it may, or if it `only_checks` and is a member."""
        if self._silos and name not in self._silos:
            return f"silo {name} is not a member: federation.toml lists {', '.join(self._silos)}"
        if name in self._present and not only_checks:
            return f"silo {name} already has a worker: a second worker of this name is not accepted"
        return ""

    async def _deliver(
        self, queue: _Queue, connection: Connection, answers: "dict[int, asyncio.Future[bytes]]"
    ) -> None:
        """Deliver the calls in `queue` one after the other, and pass the answers on."""
        while await queue.filled.wait():
            call, number = next(iter(queue.calls)), next(self._numbers)
            call.deliveries += 1
            answer = answers[number] = asyncio.get_running_loop().create_future()
            await connection.send(Parcel("call", number, content=call.content))
            content = await answer
            if call in queue.calls:  # otherwise the run has released it or ended
                self._forget(call)
                with contextlib.suppress(OSError):
                    await call.run.connection.send(Parcel("answer", call.number, content=content))

    async def watch(self) -> None:
        """Tell all runs of silos that send no ping, until this task is cancelled."""
        while True:
            await asyncio.sleep(self._limits.ping_seconds)
            heard = self._liveness.look(lambda: {silo: (one, one.reads) for silo, one in self._present.items()})
            # A ping may just miss a look.
            silence = {silo: seconds for silo, seconds in heard.items() if seconds >= 2 * self._limits.ping_seconds}
            if silence != self._silence:
                self._silence = silence
                self._announce()

    def _membership(self) -> Parcel:
        warnings = expiry_warnings((*self._validities, *self._expiries.values()))
        refusals = tuple(reason for _, reason in self._refusals)[-MAX_SENT_REFUSALS:]
        silos = tuple(sorted(self._present))
        seconds = wire.encode(tuple(self._silence.get(silo, 0.0) for silo in silos)) if self._silence else b""
        return Parcel("present", silos=silos, content=seconds, warnings=warnings, refusals=refusals)

    def _announce(self) -> None:
        for run in self._runs:
            run.connection.post(self._membership())

    def _log_refusal(self, peer: str, reason: str, name: str = "") -> None:
        """Log, once, that a peer with this `name` is refused: a silo, or a host, whose peers may claim any name."""
        known = sum(one == peer for one, _ in self._refusals)
        # A refused silo tries again every few seconds, and a stranger may give a new reason each time.
        if (peer, reason) in self._refusals or known >= MAX_REFUSALS_OF_PEER:
            return
        if len(self._refusals) >= MAX_REFUSALS:
            self._refusals.clear()
        self._refusals[peer, reason] = name
        last = "; its other refusals are not logged" if known + 1 == MAX_REFUSALS_OF_PEER else ""
        self._log(foreign_text(f"refused: {reason}{last}"))
        self._announce()


async def _receive_answers(connection: Connection, answers: "dict[int, asyncio.Future[bytes]]") -> None:
    while True:
        parcel = await connection.receive()
        answer = answers.pop(parcel.number, None)
        if parcel.kind != "answer" or answer is None:
            raise ValueError("something other than the answer to the call that it has")
        answer.set_result(parcel.content)


async def run_relay(
    identity: Identity,
    host: str,
    port: int,
    silos: tuple[str, ...],
    log: Callable[[str], None],
    started: Callable[[int], None] | None = None,
    limits: ConnectionLimits = LIMITS,
) -> None:
    """Run the relay of a federation until this task is cancelled; `started` gets the port at which it listens."""
    relay = Relay(identity, silos, log, limits)
    server = await asyncio.start_server(
        relay.serve,
        host,
        port,
        limit=CHUNK_BYTES,
    )
    try:
        listening = Endpoint(host, server.sockets[0].getsockname()[1])
        log(f"listening at {listening.tls} for {', '.join(silos) or 'any silo'}")
        if started:
            started(listening.port)
        await relay.watch()
    finally:
        server.close()
        relay.close()
