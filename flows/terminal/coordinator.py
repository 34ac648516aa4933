"""`fedbnsl coordinator start`: the meeting point of a federation."""

from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tasks.transport.configuration import read_federation_file

from .attending import say, until_told


def start(path: Path) -> None:
    """Serve the federation of the file at `path` until told to end; raises `BadInput` if it cannot listen."""
    from fedbnsl.tasks.transport.coordinator import serve

    file = read_federation_file(path)
    try:
        until_told(lambda: serve(file.identity, file.listen.host, file.listen.port, file.silos, say))
    except (OSError, RuntimeError) as error:
        raise BadInput(f"{path}: cannot listen at {file.listen} ({error.__cause__ or error})") from None
