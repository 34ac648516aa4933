"""The adapter to NVFlare: a controller with the bridge of a run, and an executor that hands calls to the owner's silo.

`fedbnsl learn --platform nvflare` submits both as a job, or runs them in NVFlare's simulator. The owner of a silo sets
the environment variable `FEDBNSL_SILO` of the NVFlare client to the silo's door; `{client}` in it stands for the
client's name.
"""

import itertools
import os
from collections.abc import Collection, Mapping

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from .door import AWAY, ask

KEY = "fedbnsl"
"""the name of a task, and of the entry that has the bytes of a message"""
VARIABLE = "FEDBNSL_SILO"


class SiloExecutor(Executor):  # type: ignore[misc]
    """Hands calls to the silo at the owner's door."""

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """The reply of the silo."""
        path = os.environ.get(VARIABLE, "").replace("{client}", fl_ctx.get_identity_name())
        reply = make_reply(ReturnCode.OK)
        reply[KEY] = ask(path, shareable[KEY]) if path else AWAY + f"{VARIABLE} is not set".encode()
        return reply


class BridgeController(Controller):  # type: ignore[misc]
    """Moves bytes between the run at the socket with the path `socket`, and the clients."""

    def __init__(self, socket: str) -> None:
        super().__init__(task_check_period=0.1)
        self._socket = socket

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: the run begins when `control_flow` has connected to it."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Move bytes until the run has ended or the job is aborted."""
        from .bridge import cross  # takes a second

        cross(NvflarePlatform(self, abort_signal, fl_ctx), self._socket)

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: the end of the job closes the connection to the run."""

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Ignore a reply to a call that has been given up."""


class NvflarePlatform:
    """The clients of a job (see `Platform`)."""

    def __init__(self, controller: Controller, abort_signal: Signal, fl_ctx: FLContext) -> None:
        self._controller, self._abort_signal, self._fl_ctx = controller, abort_signal, fl_ctx
        self._numbers = itertools.count(1)
        self._replies: dict[str, bytes | None] = {}

    def nodes(self) -> Collection[str]:
        """The names of the connected clients; raises `ConnectionAbortedError` once the job is aborted."""
        if self._abort_signal.triggered:
            raise ConnectionAbortedError("the job was aborted")
        clients = (client.name for client in self._fl_ctx.get_engine().get_clients())
        return tuple(name for name in clients if self._controller.get_client_disconnect_time(name) is None)

    def push(self, node: str, content: bytes) -> str:
        """Send `content` to the client `node`."""
        message = str(next(self._numbers))

        def received(client_task: ClientTask, fl_ctx: FLContext) -> None:
            reply = client_task.result
            self._replies[message] = reply.get(KEY) if reply.get_return_code() == ReturnCode.OK else None

        def done(task: Task, fl_ctx: FLContext) -> None:
            self._replies.setdefault(message, None)

        task = Task(KEY, Shareable({KEY: content}), result_received_cb=received, task_done_cb=done)
        self._controller.send(task, self._fl_ctx, targets=[node])
        return message

    def pull(self, messages: Collection[str]) -> Mapping[str, bytes | None]:
        """The replies that have arrived; None if a client has failed or left."""
        return {message: self._replies.pop(message) for message in messages if message in self._replies}
