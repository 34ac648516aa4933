"""Only one module uses undocumented parts of Prefect."""

import ast
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from fedbnsl.tasks import prefect_internals

ROOT = Path(prefect_internals.__file__).resolve().parents[1]
ADAPTER = ROOT / "tasks" / "prefect_internals.py"
FILES = [file for room in ("algorithms", "data", "flows", "tasks", "tracking") for file in (ROOT / room).rglob("*.py")]


def undocumented(source):
    """The modules of Prefect in `source`, by import or by name in a string, that are not part of its public API."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names += [node.module]
            names += [f"{node.module}.{one.name}" for one in node.names if f"{node.module}.{one.name}" in SUBMODULES]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and PATH.fullmatch(node.value):
            names += [node.value]
    return [name for name in names if name.split(".")[0] == "prefect" and not public(name)]


SUBMODULES = {"prefect.utilities", "prefect.events", "prefect.server", "prefect.logging", "prefect.cli"}
PATH = re.compile(r"prefect(\.[a-z_]+)+(:\w+)?")
FILE_NAMES = ("prefect.db", "prefect.yaml")


def public(name):
    documented = prefect_internals.PUBLIC_MODULES
    inside = any(name.startswith(f"{one}.") for one in documented if one != "prefect")
    return name in documented or inside or name in FILE_NAMES


def test_no_other_module_uses_what_prefect_does_not_document():
    assert {
        str(file.relative_to(ROOT)): found for file in FILES if (found := undocumented(file.read_text()))
    }.keys() == {str(ADAPTER.relative_to(ROOT))}


@pytest.mark.parametrize(
    "line",
    [
        "from prefect.utilities.engine import emit_event",
        "def late():\n    import prefect.events.clients",
        "from prefect import server",
        "from prefect import events, flow",
        "app = 'prefect.server.api.server:create_app'",
        "there = 'prefect.cli' in sys.modules",
    ],
)
def test_each_way_to_reach_an_internal_module_is_found(line):
    assert undocumented(line)


def test_the_public_api_is_free_to_use():
    assert not undocumented("from prefect import flow\nfrom prefect.client.schemas.objects import State\n")


def test_the_tested_versions_are_those_that_are_installed():
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (prefect,) = (one for one in required["orchestration"] if re.match(r"prefect\b", one))
    assert re.findall(r"[<>=]+[\d.]+", prefect) == list(prefect_internals.TESTED_VERSIONS)


STUBBORN = """
import asyncio, os, signal, threading, prefect
from prefect.runner import Runner
from fedbnsl.tasks import prefect_internals

def serve(deployment, **options):
    signal.signal(signal.SIGTERM, lambda *given: Runner.handle_sigterm(None))
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    asyncio.run(last_calls())

async def last_calls():
    try:
        await asyncio.sleep(90)
    except asyncio.CancelledError:
        await asyncio.sleep(90)

prefect.serve, prefect_internals.STOP_SECONDS = serve, 1.0
try:
    prefect_internals.serve_until_stopped(None)
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.parametrize("interrupt", [signal.SIG_DFL, signal.SIG_IGN], ids=["foreground", "background"])
def test_a_stopped_schedule_does_not_wait_for_a_busy_server(interrupt):
    """The runner's last calls are repeated for minutes; a service manager would kill the process before.

    Shells start background processes with SIGINT ignored.
    """
    began, words = time.monotonic(), [sys.executable, "-c", STUBBORN]
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        out, errors = process.communicate(timeout=85)
    finally:
        process.kill()
    assert out.splitlines() == ["stopped"], errors
    assert time.monotonic() - began < 80
