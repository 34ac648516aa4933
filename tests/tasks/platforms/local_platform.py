"""A platform in threads of this process, for tests: its nodes hand calls to doors of silos, and can be disturbed."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread

from fedbnsl.tasks.platforms import launch
from fedbnsl.tasks.platforms.bridge import cross
from fedbnsl.tasks.platforms.door import ask
from fedbnsl.tasks.platforms.silo import serve_at
from fedbnsl.tasks.silo.heartbeat import Heartbeat
from fedbnsl.tasks.silo.messages import answer
from tests.flows.owners import Owners, identity


class LocalPlatform:
    """Nodes at the sockets `doors`, by name of the node.

    `up` are the connected nodes. `deliver(node, call)` returns the call as it arrives, and `bring(node, call, reply)`
    the reply as it arrives, None if it is lost.
    """

    def __init__(self, doors):
        self.doors, self.up = doors, set(doors)
        self.deliver = lambda node, call: call
        self.bring = lambda node, call, reply: reply
        self._numbers, self._sent, self._threads = itertools.count(1), {}, ThreadPoolExecutor(16)

    def nodes(self):
        return tuple(sorted(self.up))

    def push(self, node, content):
        def exchange():
            return self.bring(node, content, ask(str(self.doors[node]), self.deliver(node, content), 5))

        name = str(next(self._numbers))
        self._sent[name] = self._threads.submit(exchange)
        return name

    def pull(self, messages):
        return {name: self._sent.pop(name).result() for name in messages if self._sent[name].done()}

    @contextmanager
    def start(self, folder, path, file):
        """Run a bridge of this platform (see `launch.Starter`)."""
        thread = Thread(target=cross, args=(self, str(path)), daemon=True)
        thread.start()
        yield
        thread.join(20)


class Doors(Owners):
    """Silos that answer at doors in place of a relay."""

    def start_relay(self, port):
        self.where = "127.0.0.1:1"

    def door(self, silo):
        return self.folder / f"{silo}.sock"

    def join(self, silo):
        service = self.services[silo] = self.service(silo)
        self.serving[silo] = self.begin(
            serve_at(
                str(self.door(silo)),
                silo,
                identity(self.folder / silo, silo),
                lambda content: answer(service, content, self.said.append),
                Heartbeat(),
                self.said.append,
                0.1,
            )
        )
        self.wait_for(self.door(silo).exists)

    def end_relay(self):
        pass


@contextmanager
def platform_of(files, folder, patch, policies=None, about=None):
    """Yield the `Doors` of the silos whose files are `files`, and a platform with a node for each, called flower."""
    doors = Doors(folder, files, policies, about)
    doors.start()
    platform = LocalPlatform({f"node of {silo}": doors.door(silo) for silo in files})
    patch.setitem(launch.STARTERS, "flower", platform.start)
    patch.setattr("fedbnsl.tasks.platforms.bridge.ASK_SECONDS", 0.2)
    patch.setattr("fedbnsl.tasks.platforms.bridge.LOOK_SECONDS", 0.1)
    patch.setattr("fedbnsl.tasks.platforms.bridge.POLL_SECONDS", 0.01)
    try:
        yield doors, platform
    finally:
        doors.stop()
