"""The adapter to Flower: a ServerApp with the bridge of a run, and a ClientApp that hands calls to the owner's silo.

`fedbnsl learn --platform flower` submits both as a Flower app. The SuperNode of an owner names the silo's door:
`flower-supernode --node-config 'silo="/run/fedbnsl/clinic.sock"'`.
"""

from collections.abc import Collection, Mapping

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from .door import AWAY, ask

KEY = "fedbnsl"
"""the name of the record, and of its field, that has the bytes of a message"""
QUERY = "query"
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
    """The SuperNodes that a `grid` reaches (see `Platform`)."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def nodes(self) -> Collection[Node]:
        """The connected SuperNodes."""
        return tuple((node.node_id, node.last_activated_at) for node in self._grid.get_nodes())

    def push(self, node: Node, content: bytes) -> str:
        """Send `content` to `node`."""
        message = Message(_record(content), dst_node_id=node[0], message_type=QUERY)
        return str(*self._grid.push_messages([message]))

    def pull(self, messages: Collection[str]) -> Mapping[str, bytes | None]:
        """The replies that have arrived; None for an error, such as a SuperNode that has left."""
        found = dict[str, bytes | None]()
        for reply in self._grid.pull_messages(messages):
            content = None if reply.has_error() else reply.content[KEY][KEY]
            found[reply.metadata.reply_to_message_id] = content if isinstance(content, bytes) else None
        return found
