"""`fedbnsl coordinator start`: the process to which the silos and the runs of a federation connect."""

import gc
from pathlib import Path
from typing import Annotated

import typer

from fedbnsl.algorithms.errors import BadInput


def serve_federation(path: Path) -> None:
    """Serve the federation in the file at `path` until a signal arrives; raises `BadInput` if it cannot listen."""
    from fedbnsl.tasks.transport.certificates import expiry_warnings
    from fedbnsl.tasks.transport.configuration import read_federation_file
    from fedbnsl.tasks.transport.relay import run_relay

    from ..terminal.daemon import log_line, run_until_signal

    file = read_federation_file(path)
    validities = file.identity.validities()
    for line in (*map(str, validities), *(f"warning: {line}" for line in expiry_warnings(validities))):
        log_line(line)
    # Each rejected handshake leaves 300 kB in a cycle of references. By default, Python collects cycles so seldom that
    # a stranger who connects again and again occupies 450 MB.
    gc.freeze()
    gc.set_threshold(700, 2, 2)
    try:
        run_until_signal(lambda: run_relay(file.identity, file.listen.host, file.listen.port, file.silos, log_line))
    except (OSError, RuntimeError) as error:
        raise BadInput(f"{path}: cannot listen at {file.listen} ({error.__cause__ or error})") from None


app = typer.Typer(help="Run the coordinator of a federation.", no_args_is_help=True, add_completion=False)


@app.callback()
def coordinator() -> None:
    """Run the coordinator of a federation."""


@app.command()
def start(
    federation: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The coordinator's configuration file, written by `fedbnsl federation init`."
        ),
    ] = Path("federation.toml"),
) -> None:
    """Accept silos with a valid certificate and runs of `fedbnsl learn --federation`, until stopped."""
    serve_federation(federation)
