"""A federation for tests over real TLS sockets; the relay and the silos run in threads of this process."""

import asyncio
import shutil
import threading
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress

from fedbnsl.data.folder.about import declarations
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.tasks.silo.guard import Guard
from fedbnsl.tasks.silo.messages import answer
from fedbnsl.tasks.silo.policy import UNRESTRICTED
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.certificates import (
    Identity,
    issue,  # noqa: F401 - for tests that issue their own
)
from fedbnsl.tasks.transport.channel import serve_silo
from fedbnsl.tasks.transport.configuration import Endpoint
from fedbnsl.tasks.transport.relay import run_relay


def identity(folder, name):
    """The identity of which `federation init` wrote the files to `folder`."""
    return Identity(folder / f"{name}.pem", folder / f"{name}.key", folder / "trusted.pem")


class Owners:
    """A coordinator's relay and the silos whose files are `files`, in one thread."""

    def __init__(self, folder, files, policies=None, about=None):
        self.about = about or {"kind": "continuous"}
        self.folder, self.files, self.policies, self.said = folder, files, policies or {}, []
        self.serving, self.services = {}, {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def file(self):
        """The coordinator's file."""
        return self.folder / "coordinator" / "federation.toml"

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def begin(self, work):
        """Start the coroutine `work`, which runs until `end`."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @staticmethod
    def end(running):
        running.cancel()
        with suppress(CancelledError):
            running.result(20)

    def start(self):
        init_federation(self.folder, list(self.files), "127.0.0.1:1")
        self._thread.start()
        self.start_relay(0)
        self.file.write_text(self.file.read_text().replace("127.0.0.1:1", str(self.where)))
        for silo in self.files:
            self.join(silo)

    def start_relay(self, port):
        listening, found = threading.Event(), []

        def started(port):
            found.append(port)
            listening.set()

        coordinator = identity(self.folder / "coordinator", "coordinator")
        self.relay = self.begin(run_relay(coordinator, "127.0.0.1", port, tuple(self.files), self.said.append, started))
        assert listening.wait(20)
        self.where = Endpoint("127.0.0.1", found[0])

    def end_relay(self):
        self.end(self.relay)

    def join(self, silo):
        """Have `silo` join."""
        service = self.services[silo] = self.service(silo)
        mine = identity(self.folder / silo, silo)
        self.serving[silo] = self.begin(
            serve_silo(
                silo,
                self.where,
                mine,
                lambda content: answer(service, content, self.said.append),
                self.said.append,
                0.1,
            )
        )
        self.wait_for(lambda: f"silo {silo} has joined {self.where.tls}" in self.said)

    def service(self, silo):
        """A new service of `silo`, under its owner's policy."""
        signer = identity(self.folder / silo, silo)
        guard = Guard(self.policies.get(silo, UNRESTRICTED), declared=declarations(self.about), signer=signer)
        return SiloService(silo, self.files[silo], guard=guard)

    @staticmethod
    def wait_for(holds):
        pause = threading.Event()
        assert any(holds() or pause.wait(0.02) for _ in range(1000))

    def kill(self, silo):
        """End the connection of `silo` without notice, as if its machine had crashed: its memory is lost."""
        self.end(self.serving.pop(silo))
        self.services.pop(silo).close()

    def stop(self):
        for silo in list(self.serving):
            self.kill(silo)
        self.end_relay()
        self.run(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)

    @staticmethod
    async def _end_tasks():
        """End the tasks that are left, such as those of connections that were just closed."""
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def owners_of(files, folder, policies=None, about=None):
    """Yield the running `Owners` of the silos whose files are `files`, each with `about` as its about.json."""
    shutil.rmtree(folder, ignore_errors=True)
    found = Owners(folder, files, policies, about)
    found.start()
    try:
        yield found
    finally:
        found.stop()
