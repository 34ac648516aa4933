"""Where a party of a federation is reached: a host and a port."""

from dataclasses import dataclass

from fedbnsl.algorithms.errors import BadInput


@dataclass(frozen=True)
class Endpoint:
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as it is written in a file."""
        return f"{self.host}:{self.port}"

    @property
    def tls(self) -> str:
        """As Dask writes the address of a party that is reached over TLS."""
        return f"tls://{self}"


def endpoint(said: str, what: str) -> Endpoint:
    """Return the host and port in HOST:PORT; raises `BadInput` that says `what` has another form."""
    host, colon, port = said.removeprefix("tls://").rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 65536) or "/" in host:
        raise BadInput(f"{what} is '{said}': give HOST:PORT, as in 10.0.0.5:8786")
    return Endpoint(host, int(port))
