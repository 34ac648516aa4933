"""A connection to vantage6 whose bridge is over the platform's mock client (`vantage6_mock.py`)."""

from .processes import PLATFORMS, ROOT
from .study import federation

PYTHON = PLATFORMS / "vantage6" / "bin" / "python"


def write_mock_connection(study):
    """Write vantage6.toml beside the federation's file; its Python starts the mock in place of the adapter's client."""
    folder = federation(study).parent
    bridge = folder / "python"
    bridge.write_text(f"#!/bin/sh\nshift 2\nexec {PYTHON} {ROOT / 'tests' / 'platforms' / 'vantage6_mock.py'} $*\n")
    bridge.chmod(0o755)
    (folder / "vantage6.toml").write_text(
        f'python = "{bridge}"\nhost = "https://localhost"\nport = 443\nusername = "me"\ncollaboration = 1\n'
        'image = "registry.example.org/fedbnsl"\n'
    )
