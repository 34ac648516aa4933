"""HTTP/1.1 in the servers of Prefect and MLflow, with a bound on what a client sends ahead: `uvicorn --http`.

While uvicorn answers a request, it reads 256 kB of the following ones. A client without a credential that sends many
short requests and reads no answer would occupy hundreds of megabytes.
"""

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_BYTES_AHEAD = 1 << 20


class BoundedProtocol(H11Protocol):  # type: ignore[misc, unused-ignore]
    """uvicorn's protocol on h11, which also bounds headers; a connection ends if too much of it waits to be parsed."""

    def data_received(self, data: bytes) -> None:
        """Parse `data` as far as the answer to the current request permits."""
        super().data_received(data)
        if len(self.conn.trailing_data[0]) > MAX_BYTES_AHEAD:
            self.transport.abort()
