"""The run's end of a platform: it has the platform start a bridge (`bridge.py`), and calls silos over the bridge.

The bridge connects to a Unix socket in a folder that only this user can enter. So the platform's server side runs on
this machine, as this user, in an environment of its own: it is started by the platform's command on PATH.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import MAX_LINE_LENGTH, BadInput, SilosUnavailable, foreign_text

from ..silo.messages import MethodCall
from ..transport.certificates import Identity
from ..transport.channel import LIMITS, Connection, Parcel, PendingBytes, RelayClient, RelayTransport
from ..transport.configuration import FederationFile, read_toml
from ..transport.federation import PackedAnswer, transport_errors
from ..transport.signatures import open_answer, sign_call
from ..transport.tls import CHUNK_BYTES, PeerRefusedError, PlainStream

WORDS = re.compile(r"[!-~]+")
"""what is text in the output of a command, and not a frame around it"""
START_SECONDS = 180.0
"""seconds for which a run waits for the bridge that it has had started"""


@dataclass(frozen=True)
class SignedAnswerPending:
    """The answer to the signed `call`, which may not have arrived yet (see `PendingAnswer`)."""

    pending: PendingBytes
    identity: Identity
    call: bytes

    def result(self, timeout: float) -> bytes:
        """The answer, whose signature is verified; raises `TimeoutError`, `SiloLost` and `PeerRefusedError`."""
        return open_answer(self.identity, self.pending.silo, self.call, self.pending.result(timeout))

    def release(self) -> None:
        """Have the bridge forget the call."""
        self.pending.release()


@dataclass(frozen=True)
class PlatformTransport(RelayTransport):
    """The silos that a bridge reaches (see `SiloTransport`); calls are signed with `identity`."""

    identity: Identity

    def submit(self, silo: str, call: MethodCall) -> PackedAnswer:
        """Send `call` to `silo`; if the silo is away, the call waits in the bridge."""
        with transport_errors(silo):
            packed = sign_call(self.identity, silo, call.pack())
            pending = SignedAnswerPending(self.client.submit(silo, packed), self.identity, packed)
            return PackedAnswer(silo, call.method, pending)


@contextlib.contextmanager
def connect_to_platform(
    file: FederationFile, platform: str, timeout: float = START_SECONDS
) -> Iterator[PlatformTransport]:
    """Have `platform` start a bridge, and yield the transport over it to the silos of the federation of `file`.

    The bridge ends with the block. Raises `BadInput` if the platform's command is missing or fails, and
    `SilosUnavailable` if no bridge connects within `timeout` seconds.
    """
    with tempfile.TemporaryDirectory(prefix="fedbnsl-") as folder, socket.socket(socket.AF_UNIX) as listening:
        path = Path(folder) / "run"
        listening.bind(str(path))
        listening.listen(1)
        with STARTERS[platform](Path(folder), path, file):
            try:
                client = RelayClient.over(_accept(listening), timeout)
            except TimeoutError:
                raise SilosUnavailable(
                    f"{platform} has accepted the job, but has not started it within {timeout:g} s"
                ) from None
            except PeerRefusedError as error:
                raise BadInput(f"{platform}: {foreign_text(str(error))}") from None
            with client:
                yield PlatformTransport(client, file.identity)


async def _accept(listening: socket.socket) -> tuple[Connection, Parcel]:
    """The connection of the first bridge at the socket, and its first parcel."""
    arrived: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if arrived.done():
            writer.close()
        else:
            arrived.set_result(Connection(PlainStream(reader, writer), LIMITS))

    server = await asyncio.start_unix_server(serve, sock=listening.dup(), limit=CHUNK_BYTES)
    connection = await arrived
    server.close()
    await connection.greet("run")
    return connection, await connection.receive()


Starter = Callable[[Path, Path, FederationFile], contextlib.AbstractContextManager[None]]
"""(empty folder, socket of the run, file of the federation) -> block in which the platform runs a bridge"""
END_SECONDS = 60.0
"""seconds for which a run waits for the end of the processes that it has started"""

FLOWER_APP = """
[project]
name = "fedbnsl"
version = "1.0.0"
description = "Moves bytes between a run of fedbnsl and the silos"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "fedbnsl"

[tool.flwr.app.components]
serverapp = "app:server_app"
clientapp = "app:client_app"

[tool.flwr.app.config]
socket = ""
"""
FLOWER_MODULE = """
from fedbnsl.tasks.platforms import flower

server_app = flower.server_app
client_app = flower.client_app
"""


@contextlib.contextmanager
def _flower(folder: Path, path: Path, file: FederationFile) -> Iterator[None]:
    """A run of the Flower app over one of the user's connections to a SuperLink, by default Flower's default."""
    target, app = file.platforms.get("flower", ""), folder / "app"
    app.mkdir()
    (app / "pyproject.toml").write_text(FLOWER_APP, encoding="utf-8")
    (app / "app.py").write_text(FLOWER_MODULE, encoding="utf-8")
    _command("flwr", "run", str(app), *([target] if target else []), "--run-config", f'socket="{path}"')
    yield


NVFLARE_CLASSES = ("fedbnsl.tasks.platforms.nvflare.BridgeController", "fedbnsl.tasks.platforms.nvflare.SiloExecutor")
VANTAGE6_KEYS = {"python": str, "host": str, "port": int, "username": str, "collaboration": int, "image": str}
"""required keys of the file of a connection to vantage6"""
SIMULATOR = "simulator"
"""the target of NVFlare with which its simulator runs the job"""


@contextlib.contextmanager
def _nvflare(folder: Path, path: Path, file: FederationFile) -> Iterator[None]:
    """A job of NVFlare, submitted with a startup kit, by default the active one, or run by the simulator."""
    app, local = folder / "job" / "app" / "config", folder / "workspace" / "local"
    app.mkdir(parents=True)
    local.mkdir(parents=True)
    controller, executor = NVFLARE_CLASSES
    server = {"id": "bridge", "path": controller, "args": {"socket": str(path)}}
    files: dict[Path, dict[str, Any]] = {
        app / "config_fed_server.json": {
            "format_version": 2,
            "workflows": [server],
            "server": {"task_request_interval": 0.1},
        },
        app / "config_fed_client.json": {
            "format_version": 2,
            "executors": [{"tasks": ["*"], "executor": {"path": executor, "args": {}}}],
            "default_task_fetch_interval": 0.1,
        },
        # What a site's owner allows by hand, the simulator's workspace has to allow, too.
        local / "resources.json": {"class_allow_list": NVFLARE_CLASSES},
        app.parents[1] / "meta.json": {"name": "fedbnsl", "min_clients": 1, "deploy_map": {"app": ["@ALL"]}},
    }
    for place, content in files.items():
        place.write_text(json.dumps(content), encoding="utf-8")
    job, target = str(folder / "job"), file.platforms.get("nvflare", "")
    if target != SIMULATOR:
        _command("nvflare", "job", "submit", "-j", job, *(["--startup-kit", target] if target else []))
        yield
        return
    clients = ("-c", ",".join(file.silos), "-t", str(len(file.silos)))
    words = [_program("nvflare"), "simulator", "-w", str(folder / "workspace"), *clients, job]
    with (folder / "output").open("wb") as output, _ended(subprocess.Popen(words, stdout=output, stderr=output)):
        yield


@contextlib.contextmanager
def _vantage6(folder: Path, path: Path, file: FederationFile) -> Iterator[None]:
    """A client of a vantage6 server, in the environment that the file of the connection names."""
    target = file.platforms.get("vantage6")
    if target is None:
        raise BadInput(f'{file.path}: [platforms] must have vantage6 = "FILE", which names the server and the user')
    connection = file.path.parent / target
    settings = read_toml(connection)
    for key, kind in VANTAGE6_KEYS.items():
        if not isinstance(settings.get(key), kind):
            raise BadInput(
                f"{connection}: {key} is {settings.get(key)!r}: it must be {'a number' if kind is int else 'a string'}"
            )
    words = [settings["python"], "-m", "fedbnsl.tasks.platforms.vantage6", str(path), str(connection)]
    with (folder / "output").open("wb") as output:
        try:
            process = subprocess.Popen(words, stdout=output, stderr=output)
        except OSError as error:
            raise BadInput(f"{connection}: python: {settings['python']} cannot be run ({error.strerror})") from None
        with _ended(process):
            yield


@contextlib.contextmanager
def _ended(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """A block after which `process` has ended: by itself, or killed after `END_SECONDS`."""
    try:
        yield
    finally:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _program(name: str) -> str:
    """The path of a platform's command; raises `BadInput` if it is missing."""
    if found := shutil.which(name):
        return found
    raise BadInput(f"{name}: no such command on PATH: activate the environment of the platform")


def _command(program: str, *arguments: str, **options: Any) -> None:
    """Run the platform's `program`; raises `BadInput` with its last line if it is missing or fails."""
    found = _program(program)
    environment = os.environ | {"FLWR_TELEMETRY_ENABLED": "0"}
    done = subprocess.run([found, *arguments], capture_output=True, text=True, env=environment, check=False, **options)
    if done.returncode:
        words = " ".join(WORDS.findall(done.stdout + done.stderr)) or "no output"
        raise BadInput(f"{program} {arguments[0]} failed: {foreign_text(words, MAX_LINE_LENGTH)}")


STARTERS: dict[str, Starter] = {"flower": _flower, "nvflare": _nvflare, "vantage6": _vantage6}
