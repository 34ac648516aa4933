"""The door of a silo: a socket at which a platform's node hands over calls, on the owner's machine.

Platforms start a new process for each message, in an environment of their own. A silo has keys and rows in memory, and
dependencies of its own, so it is another process, and the node only passes bytes on by `ask`; `silo.py` has the silo's
end. The address of a door is the path of a Unix socket, or HOST:PORT in a network of containers.

A frame is a length of 8 bytes and so many bytes. The silo first sends its name; the node sends the call; the silo sends
empty frames while it makes progress, then its reply. The first bytes of a reply say what it is.

Whoever reaches the socket can only deliver calls, which carry the coordinator's signature (`transport/signatures.py`).
This module has no dependency outside the standard library, because a node loads it for each message.
"""

import socket

ANSWER, REFUSED, AWAY, NAME = b"answer:", b"refused:", b"away:", b"name:"
"""how a reply begins: an answer; why the silo does not read a call; why the silo cannot be reached; its name"""
MAX_FRAME_BYTES = 1 << 30
SILENCE_SECONDS = 35.0
"""seconds without any byte after which a node gives up a silo"""


def ask(address: str, call: bytes, silence_seconds: float = SILENCE_SECONDS) -> bytes:
    """The reply of the silo whose door is at `address`; with an empty `call`, its name.

    Raises nothing: if the silo cannot be reached, or is silent for `silence_seconds`, the reply says so.
    """
    try:
        where = host_and_port(address)
        with socket.socket(socket.AF_INET if where else socket.AF_UNIX) as connection:
            connection.settimeout(silence_seconds)
            connection.connect(where or address)
            name = _receive(connection)
            if not call:
                return NAME + name
            connection.sendall(frame(call))
            while not (reply := _receive(connection)):
                pass
            return reply
    except (OSError, ValueError) as error:
        return AWAY + f"no silo answers at its socket ({type(error).__name__})".encode()


def host_and_port(address: str) -> tuple[str, int] | None:
    """The host and the port that `address` names; None if it is the path of a Unix socket."""
    host, _, port = address.rpartition(":")
    return (host, int(port)) if host and port.isdecimal() and "/" not in host else None


def frame(content: bytes) -> bytes:
    """`content` as a frame."""
    return len(content).to_bytes(8) + content


def _receive(connection: socket.socket) -> bytes:
    """The next frame, which is empty for a ping."""
    return _receive_exactly(connection, checked_length(_receive_exactly(connection, 8)))


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(min(length - len(parts), 1 << 20))
        if not part:
            raise ConnectionResetError
        parts += part
    return bytes(parts)


def checked_length(header: bytes) -> int:
    """The length in the `header` of a frame; raises `ValueError` above `MAX_FRAME_BYTES`."""
    length = int.from_bytes(header)
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes")
    return length
