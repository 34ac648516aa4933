"""The adapter to Flower: a ServerApp with the bridge of a run, and a ClientApp that hands calls to the owner's silo.

`fedbnsl learn --platform flower` submits both as a Flower app. The SuperNode of an owner names the silo's door:
`flower-supernode --node-config 'silo="/run/fedbnsl/clinic.sock"'`.
"""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from .door import AWAY, ask

KEY = "fedbnsl"
"""the name of the record, and of its field, that has the bytes of a message"""
QUERY = "query"
MAX_PULLS = 1024
"""maximum number of replies that are pulled at the same time"""
Node = tuple[int, str]
"""a SuperNode's identifier, and when it was started, because a restarted SuperNode has lost the messages that it had"""

client_app, server_app = ClientApp(), ServerApp()


def answer(message: Message, context: Context) -> Message:
    """The reply of the silo at the door that the owner's `node_config` names."""
    path = context.node_config.get("silo")
    call = message.content[KEY][KEY]
    if isinstance(path, str) and isinstance(call, bytes):
        reply = ask(path, call)
    else:
        reply = AWAY + b"the SuperNode has no --node-config 'silo=\"PATH\"'"
    return Message(_record(reply), reply_to=message)


client_app.query()(answer)


def serve(grid: Grid, context: Context) -> None:
    """Move bytes between the run whose socket `run_config` names, and the SuperNodes, until the run has ended."""
    from .bridge import cross  # takes a second, which Flower would spend at the owners for each message

    cross(FlowerPlatform(grid), str(context.run_config["socket"]))


server_app.main()(serve)


def _record(content: bytes) -> RecordDict:
    return RecordDict({KEY: ConfigRecord({KEY: content})})


class FlowerPlatform:
    """The SuperNodes that a `grid` reaches (see `Platform`).

    If a SuperNode dies while it uploads a reply, Flower waits two hours for the rest. So each reply is pulled by a
    thread of its own, which is left behind if the call is delivered again.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._threads = ThreadPoolExecutor(MAX_PULLS)
        self._pulls: dict[str, Future[Iterable[Message]]] = {}

    def nodes(self) -> Collection[Node]:
        """The connected SuperNodes."""
        return tuple((node.node_id, node.last_activated_at) for node in self._grid.get_nodes())

    def push(self, node: Node, content: bytes) -> str:
        """Send `content` to `node`."""
        message = Message(_record(content), dst_node_id=node[0], message_type=QUERY)
        return str(*self._grid.push_messages([message]))

    def pull(self, messages: Collection[str]) -> Mapping[str, bytes | None]:
        """The replies that have arrived; None for an error, such as a SuperNode that has left."""
        ended = [message for message in messages if message in self._pulls and self._pulls[message].done()]
        found = {message: reply for message in ended for reply in self._pulled(message)}
        for message in messages:
            if message not in found and message not in self._pulls:
                self._pulls[message] = self._threads.submit(self._grid.pull_messages, [message])
        return found

    def _pulled(self, message: str) -> list[bytes | None]:
        """What the pull of `message`, which has ended, has brought: the reply, None for an error, or nothing yet."""
        replies = self._pulls.pop(message).result()
        contents = [None if reply.has_error() else reply.content[KEY][KEY] for reply in replies]
        return [content if isinstance(content, bytes) else None for content in contents]
