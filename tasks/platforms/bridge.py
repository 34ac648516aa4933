"""The bridge between a run and a platform, in the process that the platform starts for the run.

`cross` connects to the run's socket and moves bytes: calls of the run to the platform's nodes, and the replies back, as
the relay does (`transport/relay.py`), with the same parcels. A silo is present while the platform lists its node and
its door answers. A call to an absent silo waits. A call that is lost on the way is delivered again, at most
`ConnectionLimits.deliveries` times; the silo's journal makes a repeated call harmless.
"""

import asyncio
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from ..transport.channel import LIMITS, Connection, ConnectionLimits, Parcel
from ..transport.relay import DIED_REPEATEDLY
from ..transport.tls import CHUNK_BYTES, PlainStream
from .door import ANSWER, NAME, REFUSED

POLL_SECONDS = 0.1
"""pause between two questions for replies"""
LOOK_SECONDS = 2.0
"""interval at which the nodes are listed"""
ASK_SECONDS = 5.0
"""pause before a node whose silo was away is asked for its silo again"""


class Platform(Protocol):
    """A platform's server side, which one thread calls."""

    def nodes(self) -> Collection[Any]:
        """The nodes that are connected at this moment."""
        ...

    def push(self, node: Any, content: bytes) -> str:
        """Send `content` to `node`, which replies with `door.ask` of it; returns the identifier of the message."""
        ...

    def pull(self, messages: Collection[str]) -> Mapping[str, bytes | None]:
        """The replies to `messages` that have arrived; None for a message to which there will be no reply."""
        ...


@dataclass(eq=False)
class _Call:
    """A call of the run that is not answered yet; `message` is on its way."""

    parcel: Parcel
    message: str = ""
    deliveries: int = 0


@dataclass
class Bridge:
    """The state of a bridge between the run at the end of `connection` and `platform`."""

    platform: Platform
    connection: Connection
    limits: ConnectionLimits = LIMITS
    silos: dict[str, Any] = field(default_factory=dict)
    """the nodes of the silos that are present"""
    _calls: dict[int, _Call] = field(default_factory=dict)
    _asked: dict[str, Any] = field(default_factory=dict)
    """by message on its way, the node that is asked for its silo"""
    _ask_after: dict[Any, float] = field(default_factory=dict)
    """by node, the time before which it is not asked"""
    _thread: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 1))

    async def run(self) -> None:
        """Move bytes until the run has ended; raises what the platform raises."""
        await self.connection.greet("coordinator")
        await self.connection.send(Parcel("present"))
        await self.connection.run(self._receive(), self._move())

    async def _receive(self) -> None:
        while True:
            parcel = await self.connection.receive()
            if parcel.kind == "call":
                self._calls[parcel.number] = _Call(parcel)
            elif parcel.kind == "release":
                self._calls.pop(parcel.number, None)

    async def _on_platform(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    async def _move(self) -> None:
        loop, look = asyncio.get_running_loop(), 0.0
        while True:
            if loop.time() >= look:
                await self._look()
                look = loop.time() + LOOK_SECONDS
            for call in tuple(self._calls.values()):
                if not call.message and call.parcel.silo in self.silos:
                    node = self.silos[call.parcel.silo]
                    call.message = await self._on_platform(self.platform.push, node, call.parcel.content)
            await self._pull()
            await asyncio.sleep(POLL_SECONDS)

    async def _look(self) -> None:
        """Find the silos whose nodes have left, and ask new nodes for their silos."""
        nodes, now = set(await self._on_platform(self.platform.nodes)), asyncio.get_running_loop().time()
        self._announce({silo: node for silo, node in self.silos.items() if node in nodes})
        waiting = {*self.silos.values(), *self._asked.values()}
        for node in nodes - waiting:
            if now >= self._ask_after.get(node, now):
                self._asked[await self._on_platform(self.platform.push, node, b"")] = node

    def _announce(self, silos: dict[str, Any]) -> None:
        if silos != self.silos:
            for call in tuple(self._calls.values()):
                if call.message and silos.get(call.parcel.silo) != self.silos.get(call.parcel.silo):
                    self._lose(call)  # its node has left
            self.silos = silos
            self.connection.post(Parcel("present", silos=tuple(sorted(silos))))

    async def _pull(self) -> None:
        sent = {call.message: call for call in self._calls.values() if call.message}
        if not sent and not self._asked:
            return
        replies = await self._on_platform(self.platform.pull, (*sent, *self._asked))
        for message, reply in replies.items():
            if message in self._asked:
                self._identify(self._asked.pop(message), reply)
            elif message in sent:
                self._answer(sent[message], reply)

    def _identify(self, node: Any, reply: bytes | None) -> None:
        """Note which silo is at `node`; a second node of a present silo is not accepted."""
        silo = reply[len(NAME) :].decode(errors="replace") if reply and reply.startswith(NAME) else ""
        if silo and silo not in self.silos:
            self._announce({**self.silos, silo: node})
        else:
            self._ask_after[node] = asyncio.get_running_loop().time() + ASK_SECONDS

    def _answer(self, call: _Call, reply: bytes | None) -> None:
        """Pass a reply on to the run; a call without a reply is delivered again, once its silo is present."""
        parcel = call.parcel
        if reply and reply.startswith(ANSWER):
            self._end(Parcel("answer", parcel.number, content=reply.removeprefix(ANSWER)))
        elif reply and reply.startswith(REFUSED):
            self._end(Parcel("lost", parcel.number, note=reply.removeprefix(REFUSED).decode(errors="replace")))
        else:  # the silo is away, or the message was lost: the node must name its silo before it gets another
            call.message = ""
            if reply is None:
                self._lose(call)
            if node := self.silos.get(parcel.silo):
                self._ask_after[node] = asyncio.get_running_loop().time() + ASK_SECONDS
                self._announce({silo: one for silo, one in self.silos.items() if one != node})

    def _lose(self, call: _Call) -> None:
        """Deliver `call`, whose message is lost, once more, or give it up."""
        call.message, call.deliveries = "", call.deliveries + 1
        if call.deliveries >= self.limits.deliveries:
            self._end(Parcel("lost", call.parcel.number, note=DIED_REPEATEDLY))

    def _end(self, parcel: Parcel) -> None:
        if self._calls.pop(parcel.number, None):
            self.connection.post(parcel)


def cross(platform: Platform, path: str) -> None:
    """Move bytes between `platform` and the run whose socket is at `path`, until the run has ended."""

    async def run() -> None:
        streams = await asyncio.open_unix_connection(path, limit=CHUNK_BYTES)
        connection = Connection(PlainStream(*streams), LIMITS)
        try:
            await Bridge(platform, connection).run()
        except (OSError, ValueError):
            pass  # the run has ended, or is one of another version, which has said so
        finally:
            connection.close()

    asyncio.run(run())
