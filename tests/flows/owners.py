"""A federation for tests over real TLS sockets; coordinator and workers run in threads of this process."""

import asyncio
import shutil
import threading
from contextlib import contextmanager

import dask

from fedbnsl.data.folder.about import declarations
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.tasks.silo.guard import Guard
from fedbnsl.tasks.silo.policy import UNRESTRICTED
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.cluster import QUIET
from fedbnsl.tasks.transport.coordinator import FederationScheduler
from fedbnsl.tasks.transport.identity import (
    Identity,
    issue,  # noqa: F401 - for tests that issue their own
)
from fedbnsl.tasks.transport.silo_worker import SiloWorker
from fedbnsl.tasks.transport.unpickling import restrict_unpickling


def identity(folder, name):
    """The identity of which `federation init` wrote the files to `folder`."""
    return Identity(folder / f"{name}.pem", folder / f"{name}.key", folder / "trusted.pem")


class Owners:
    """A coordinator and the workers of the silos whose files are `files`, in one thread."""

    def __init__(self, folder, files, policies=None, about=None):
        self.about = about or {"kind": "continuous"}
        self.folder, self.files, self.policies, self.said = folder, files, policies or {}, []
        self.workers, self.services = {}, {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def file(self):
        """The coordinator's file."""
        return self.folder / "coordinator" / "federation.toml"

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def start(self):
        restrict_unpickling()
        init_federation(self.folder, list(self.files), "127.0.0.1:0")
        self._thread.start()
        self.scheduler = self.run(self._scheduler())
        port = self.scheduler.address.rpartition(":")[2]
        self.file.write_text(self.file.read_text().replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        for silo in self.files:
            self.join(silo)

    async def _scheduler(self):
        security = identity(self.folder / "coordinator", "coordinator").security()
        options = {"security": security, "protocol": "tls", "host": "127.0.0.1", "port": 0, "dashboard": False}
        return await FederationScheduler(tuple(self.files), self.said.append, **options, extensions={})

    def join(self, silo):
        """Start the worker of `silo`."""
        policy = self.policies.get(silo, UNRESTRICTED)
        guard = Guard(policy, declared=declarations(self.about))
        self.services[silo] = SiloService(silo, self.files[silo], guard=guard)
        self.workers[silo] = self.run(self._worker(silo))

    async def _worker(self, silo):
        mine = identity(self.folder / silo, silo)
        where = self.scheduler.address
        return await SiloWorker(where, self.services[silo], mine, ("127.0.0.1", 0), self.said.append)

    def kill(self, silo):
        """End the worker of `silo` without notice, as if its machine had crashed: its memory is lost."""
        self.run(self._end(self.workers.pop(silo)))
        self.services.pop(silo).close()

    async def _end(self, worker):
        worker.batched_stream.abort()
        await worker.close(timeout=0, executor_wait=False, nanny=False)

    def stop(self):
        for silo in list(self.workers):
            self.kill(silo)
        self.run(self.scheduler.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)


@contextmanager
def owners_of(files, folder, policies=None, about=None):
    """Yield the running `Owners` of the silos whose files are `files`, each with `about` as its about.json."""
    shutil.rmtree(folder, ignore_errors=True)
    with dask.config.set(QUIET):
        found = Owners(folder, files, policies, about)
        found.start()
        try:
            yield found
        finally:
            found.stop()
