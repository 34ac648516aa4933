"""Bytes that nobody honest sends to a socket, and how much memory a process has afterwards.

They are programs of pickle, false claims of lengths, mutated frames, requests and handshakes, noise, and floods.
"""

import pickle
import random
import socket
import ssl
import struct
import time
from contextlib import suppress
from itertools import repeat
from os import system
from pathlib import Path

import msgpack

from fedbnsl.tasks.transport.channel import Parcel
from tests.tasks.transport.relay_peers import frame

FLOOD_BYTES, FLOOD_SECONDS = 1 << 28, 10.0
"""when a flood ends"""
BLOCK = bytes(1 << 16)
ANSWER_SECONDS = 0.5
"""timeout of an answer"""


class Shell:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return system, (f"touch {self.path}",)


def programs(mark):
    """Programs of pickle, each of which would create the file `mark`, and one that changes a class."""
    yield from (pickle.dumps(Shell(mark), protocol) for protocol in range(6))
    yield f"cos\nsystem\n(S'touch {mark}'\ntR.".encode()
    yield f"(S'touch {mark}'\nios\nsystem\n.".encode()
    yield f"cbuiltins\nexec\n(S'import os; os.system(\"touch {mark}\")'\ntR.".encode()
    yield b"\x80\x04cfedbnsl.tasks.transport.channel\nParcel\n}\x8c\x0f__annotations__}\x8c\x04kind\x8c\x07os._exits}b."


def hostile(mark, seed, silo="a"):
    """Byte strings that would run code if somebody unpickled them, and noise around valid frames, also for `silo`."""
    noise = random.Random(seed)
    honest = [Parcel("call", 1, silo, b"x"), Parcel("answer", 1, content=b"y"), Parcel("release", 1), Parcel("present")]
    head = msgpack.packb(("<f8", (1 << 28,)))
    claims = [
        struct.pack(">BI", 0xDD, (1 << 32) - 1),  # a list of four billion items
        struct.pack(">BI", 0xDF, (1 << 32) - 1),
        struct.pack(">BI", 0xC6, (1 << 32) - 1),
        b"\x91" * 5000,
        b"\x81" * 5000,
        b"\x81\x80\x01",  # a dictionary as a key
        b"\x81\xc7\x10\x01" + bytes(16) + b"\x01",
        msgpack.packb({"kind": "call", "content": msgpack.ExtType(1, head)}),
        msgpack.packb({"kind": "call", "number": "1"}),
        msgpack.packb({"kind": "call", "number": 1, "silo": b"a", "content": "x"}),
        msgpack.packb({"kind": "call", "__class__": "os"}),
        msgpack.packb({"kind": msgpack.Timestamp(1)}),
    ]
    for content in (*programs(mark), *claims):
        yield len(content).to_bytes(8) + content
        yield content
    for content in programs(mark):
        yield frame(Parcel("call", 1, silo, content))
        yield frame(Parcel("answer", 1, content=content))
    for _ in range(40):
        yield noise.randbytes(noise.randrange(1, 300))
        content = noise.randbytes(noise.randrange(1, 300))
        yield len(content).to_bytes(8) + content
        yield mutated(frame(noise.choice(honest)), noise)


def mutated(content, noise):
    """`content` with one to three other bytes."""
    changed = bytearray(content)
    for _ in range(noise.randrange(1, 4)):
        changed[noise.randrange(len(changed))] = noise.randrange(256)
    return bytes(changed)


def handshakes(seed):
    """The first message of a TLS client, cut off and mutated, and what may follow it."""
    noise = random.Random(seed)
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        untrusting().wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    hello = sent.read()
    yield from (hello[:length] for length in range(1, len(hello), 40))
    yield from (mutated(hello, noise) for _ in range(40))
    for kind in (20, 21, 22, 23, 255):
        yield hello + struct.pack(">BHH", kind, 0x0303, 1 << 14) + noise.randbytes(1 << 14)
        yield struct.pack(">BHH", kind, 0x0301, (1 << 16) - 1) + noise.randbytes(300)


def untrusting():
    """The context of a TLS client without a certificate that accepts every server."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def head(target, *headers):
    """The beginning of a request, without the empty line at its end."""
    return "".join(f"{line}\r\n" for line in (f"{' '.join(target)} HTTP/1.1", *headers)).encode()


def requests(mark, targets, headers, seed):
    """Requests to `targets` with `headers`: programs as bodies, false lengths, and requests cut off and mutated."""
    noise = random.Random(seed)

    def post(content, *more):
        return head(noise.choice(targets), *headers, *more) + b"\r\n" + content

    kinds = ("json", "octet-stream", "python-pickle", "msgpack", "x-www-form-urlencoded", "x-protobuf")
    for content in hostile(mark, seed):
        more = f"Content-Type: application/{noise.choice(kinds)}", f"Content-Length: {len(content)}"
        yield post(content, *more)
    honest = post(b"{}", "Content-Type: application/json", "Content-Length: 2")
    yield from (honest[:length] for length in range(1, len(honest), 10))
    yield from (mutated(honest, noise) for _ in range(100))
    for length in (10**18, 1 << 64, "1" * 5000, -1, "+2", "abc", "2\r\nContent-Length: 3"):
        yield post(b"{}", f"Content-Length: {length}")
    for size in ("ffffffffffffffff", "f" * 5000, "-1", "0x2", "zz", "", "2;a=b"):
        yield post(f"{size}\r\n{{}}\r\n".encode(), "Transfer-Encoding: chunked", "Content-Type: application/json")
    yield post(b"2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked", "Content-Length: 5")
    yield post(b"\x1f\x8b" + noise.randbytes(500), "Content-Encoding: gzip", "Content-Length: 502")
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    upgrade += ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: prefect")
    for path in ("/", "/api/events/in", "/api/events/out", "/api/logs/out", "/api/task_runs/subscriptions/scheduled"):
        opened = head(("GET", path), *headers, *upgrade) + b"\r\n"
        yield opened + b"\x82\xff\x7f" + b"\xff" * 7 + bytes(4) + noise.randbytes(1000)  # a message of 2⁶³ bytes
        for content in programs(mark):
            yield opened + struct.pack(">BBH", 0x82, 0xFE, len(content)) + bytes(4) + content
            yield opened + noise.randbytes(300)


def floods(host):
    """Streams without an end, as parts: bodies, headers, handshakes, and requests of which nobody reads the answers."""
    post, get = head(("POST", "/api/flow_runs/filter"), host), head(("GET", "/"), host)
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    for begin, block in (
        (post + b"Content-Length: 1000000000000\r\n\r\n", BLOCK),
        (chunked, b"10000\r\n" + BLOCK + b"\r\n"),
        (chunked + b"1;", b"a" * len(BLOCK)),
        (get + b"X: ", b"a" * len(BLOCK)),
        (get, b"X: a\r\n" * 10000),
        (b"GET /", b"a" * len(BLOCK)),
        (b"", (get + b"\r\n") * 1000),
        (b"\x16\x03\x01\xff\xff", BLOCK),
        (b"", struct.pack(">BHH", 22, 0x0301, 1 << 14) + b"\x01\xff\xff\xff" + BLOCK[: (1 << 14) - 4]),
        (struct.pack(">Q", 1 << 30), BLOCK),
    ):
        yield begin, *repeat(block, FLOOD_BYTES // len(block))


def send(address, parts, context=None):
    """Send `parts` as far as the other side reads them within `FLOOD_SECONDS`, and then read its answer."""
    end = time.monotonic() + FLOOD_SECONDS
    with (
        suppress(OSError),
        socket.create_connection(address, FLOOD_SECONDS) as plain,
        context.wrap_socket(plain) if context else plain as peer,
    ):
        for part in parts:
            peer.sendall(part)
            if time.monotonic() > end:
                break
        peer.settimeout(ANSWER_SECONDS)
        if not context:
            peer.shutdown(socket.SHUT_WR)
        while peer.recv(len(BLOCK)) and time.monotonic() < end:
            pass


def memory(process="self", kind="VmRSS"):
    """The bytes of memory of a process: resident now, or at most until now (`VmHWM`)."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{kind}:"))
