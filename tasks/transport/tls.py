"""One end of a TLS connection over asyncio streams, which says at both ends why a certificate is refused.

After a failed handshake, asyncio's TLS closes the connection without sending the alert, so the other side does not
learn the reason, and its own side does not report the reason either. `TlsStream` runs Python's `ssl` over memory
buffers instead.
"""

import asyncio
import contextlib
import ssl
from typing import Any
from weakref import WeakKeyDictionary

from .certificates import Identity, holder_of

CHUNK_BYTES = 1 << 20
"""maximum number of bytes that one read returns"""
CERTIFICATE_MESSAGE = 11
"""the type of the message of a TLS handshake that has the certificates of its sender (RFC 8446, section 4.4.2)"""


class PeerRefusedError(ConnectionError):
    """One side of a connection refuses the other, for a reason that a new attempt does not change.

    `holder` is the name in the refused certificate, which proves nothing, or "".
    """

    def __init__(self, reason: str, holder: str = "") -> None:
        super().__init__(reason)
        self.holder = holder


class PlainStream:
    """A connection within one machine, without TLS, with the methods of `TlsStream` that a connected side uses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer, self.read, self.drain, self.write = writer, reader.read, writer.drain, writer.write

    def close(self, seconds: float) -> None:
        """Close the connection after what is already sent."""
        self._writer.close()


class TlsStream:
    """A TLS connection of the party `identity` over a connected `reader` and `writer`; `handshake` comes first.

    Methods raise `OSError` if the connection is lost.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        identity: Identity,
        context: ssl.SSLContext,
        *,
        server: bool,
    ) -> None:
        """Use `context`, a context of `identity` for a `server` or a client."""
        self._reader, self._writer, self._identity, self._server = reader, writer, identity, server
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with contextlib.suppress(AttributeError):  # without this hook, reasons are those of OpenSSL
            context._msg_callback = _record_certificate  # type: ignore[attr-defined]
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)

    async def handshake(self) -> None:
        """Agree on keys, and verify the certificates; raises `PeerRefusedError` if either side refuses the other's."""
        try:
            while True:
                try:
                    self._tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await self._feed()
        except ssl.SSLError as error:
            raise self._explained(error) from None
        finally:
            self._flush()
        await self._writer.drain()

    async def _feed(self) -> None:
        """Send what TLS has to send, and wait for bytes of the other side."""
        self._flush()
        await self._writer.drain()
        content = await self._reader.read(CHUNK_BYTES)
        if not content:
            raise ConnectionResetError("the other side closed the connection")
        self._incoming.write(content)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._writer.write(self._outgoing.read())

    def _explained(self, error: ssl.SSLError) -> ConnectionError:
        """`error` as an error that states whose certificate is refused, and why."""
        reason = str(error.reason or error)
        if isinstance(error, ssl.SSLCertVerificationError):
            certificate, own, holder = _certificates.get(self._tls, b""), "", ""
            with contextlib.suppress(Exception):  # a stranger's certificate may have any content
                own = self._identity.refusal_of(certificate, server=self._server)
                holder = holder_of(certificate)
            return PeerRefusedError(own or f"the other side's certificate is refused: {error.verify_message}", holder)
        if "ALERT" in reason:
            return PeerRefusedError(self._identity.refused_there(reason))
        if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return PeerRefusedError("the other side has sent no certificate")
        return PeerRefusedError(f"the other side does not speak TLS 1.3 ({reason})")

    async def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; b"" after the other side has closed the connection."""
        parts: list[bytes] = []
        try:
            while True:
                try:
                    while size and (part := self._tls.read(size)):
                        parts.append(part)
                        size -= len(part)
                    return b"".join(parts)
                except ssl.SSLWantReadError:
                    if parts:
                        return b"".join(parts)
                    await self._feed()
        except ssl.SSLError as error:
            raise self._explained(error) from None

    def write(self, content: bytes) -> None:
        """Send `content` as soon as the network takes it."""
        view = memoryview(content)
        for begin in range(0, len(view), CHUNK_BYTES):
            self._tls.write(view[begin : begin + CHUNK_BYTES])
            self._flush()

    async def drain(self) -> None:
        """Wait until the network has taken most of what was written."""
        await self._writer.drain()

    @property
    def certificate(self) -> bytes:
        """The verified certificate of the other side, in DER."""
        return self._tls.getpeercert(binary_form=True) or b""

    @property
    def peer(self) -> tuple[str, int]:
        """The address of the other side: host and port."""
        host, port = (self._writer.get_extra_info("peername") or ("unknown", 0))[:2]
        return host, port

    def close(self, seconds: float) -> None:
        """Close the connection after what is already sent, and in any case after `seconds`."""
        with contextlib.suppress(ssl.SSLError, OSError, ValueError):
            self._tls.unwrap()
        if not self._writer.is_closing():
            self._flush()
            self._writer.close()
            with contextlib.suppress(RuntimeError):  # the loop has ended
                asyncio.get_running_loop().call_later(seconds, self._writer.transport.abort)


_certificates: "WeakKeyDictionary[ssl.SSLObject, bytes]" = WeakKeyDictionary()
"""by connection, the certificate that the other side has sent, in DER; not verified"""


def _record_certificate(
    connection: ssl.SSLObject, direction: str, version: Any, content: Any, message: Any, data: bytes
) -> None:
    """Remember the certificate in a message of a handshake; a hook of Python's `ssl`.

    After a failed handshake, `ssl` reports a reason but not whose certificate it is.
    """
    if direction == "read" and message == CERTIFICATE_MESSAGE and connection not in _certificates:
        # 1 byte of type, 3 of length, 1 of length of the context, the context, 3 of length, and for each certificate 3
        # of length and its bytes.
        begin = 5 + data[4] + 3
        length = int.from_bytes(data[begin : begin + 3])
        _certificates[connection] = bytes(data[begin + 3 : begin + 3 + length])
