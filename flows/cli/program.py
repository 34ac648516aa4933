"""The program `fedbnsl`: an interrupt while its modules are imported ends it like an interrupt of a command."""

import sys


def program() -> None:
    """Import the command line and run it; see `flows.cli.main`."""
    try:
        from .main import main as run
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)  # `algorithms.errors.STOPPED`, which may not have been imported yet
    run()
