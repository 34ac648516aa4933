"""The silo's end of its door: it answers the signed calls that a platform's node hands over (`door.py`)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput

from ..silo.heartbeat import Heartbeat
from ..transport.certificates import Identity
from ..transport.signatures import answer_signed
from ..transport.tls import PeerRefusedError
from .door import ANSWER, REFUSED, checked_length, frame, host_and_port

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[object, object, None]]

PING_SECONDS = 2.0
MAX_PATH_BYTES = 100
"""maximum length of the path of a socket; Linux allows 107 bytes"""


async def serve_at(
    address: str,
    name: str,
    identity: Identity,
    answer: Callable[[bytes], bytes],
    heartbeat: Heartbeat,
    log: Callable[[str], None],
    ping_seconds: float = PING_SECONDS,
) -> None:
    """Answer signed calls at the door `address` of the silo `name`, one by one, until this task is cancelled.

    If `answer` raises an exception, only its type is logged, because its text may contain rows, and the connection is
    closed. Raises `BadInput` if there can be no socket at `address`.
    """
    thread, writers = ThreadPoolExecutor(1), set[asyncio.StreamWriter]()

    def reply(content: bytes) -> bytes:
        with heartbeat.answering():
            try:
                return ANSWER + answer_signed(identity, name, content, answer)
            except PeerRefusedError as refusal:
                log(f"refused: {refusal}")
                return REFUSED + str(refusal).encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(frame(name.encode()))
            content = await reader.readexactly(checked_length(await reader.readexactly(8)))
            writers.add(writer)
            answered = await asyncio.get_running_loop().run_in_executor(thread, reply, content)
            writers.discard(writer)
            writer.write(frame(answered))
            await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass  # the node has only asked for the name, or has left
        except Exception as error:
            log(f"silo {name}: {type(error).__name__} while it answered a call")
        finally:
            writers.discard(writer)
            writer.close()

    async with _listening(address, serve):
        log(f"silo {name} answers at {address}")
        last = heartbeat.count()
        while True:
            await asyncio.sleep(ping_seconds)
            if (now := heartbeat.count()) != last:
                last = now
                for writer in writers:
                    writer.write(frame(b""))


@contextlib.asynccontextmanager
async def _listening(address: str, serve: Serve) -> AsyncIterator[None]:
    """A block in which `serve` gets the connections to a socket at `address`."""
    where, path = host_and_port(address), Path(address)
    if where is None and len(bytes(path)) > MAX_PATH_BYTES:
        raise BadInput(f"{path}: the path of a socket has at most {MAX_PATH_BYTES} bytes: choose a shorter one")
    try:
        if where:
            server = await asyncio.start_server(serve, *where)
        else:
            path.unlink(missing_ok=True)
            server = await asyncio.start_unix_server(serve, path)
            # The node may run as another user of this group. It cannot read rows, and its calls carry a signature.
            path.chmod(0o660)
    except OSError as error:
        raise BadInput(f"{address}: no socket can be created there ({error.strerror})") from None
    try:
        yield
    finally:
        server.close()
        if where is None:
            path.unlink(missing_ok=True)
