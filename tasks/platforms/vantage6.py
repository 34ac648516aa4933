"""The adapter to vantage6: an algorithm that hands calls to the owner's silo, and the bridge of a run.

A node runs the algorithm `answer` in a container of the image that `deploy/vantage6.Containerfile` defines. The owner's
node configuration names the silo's door: `algorithm_env: {FEDBNSL_SILO: "silo:7000"}`. The bridge is a client of the
vantage6 server, so it runs wherever the researcher works: `fedbnsl learn --platform vantage6` starts it.
"""

import os
import sys
import tomllib
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from vantage6.common.task_status import has_task_failed

from .door import AWAY, ask

VARIABLE, PASSWORD = "FEDBNSL_SILO", "VANTAGE6_PASSWORD"
MAX_NODES = 100
"""maximum number of nodes of a collaboration that a run can reach"""


def answer(call: str) -> str:
    """The reply of the silo at the owner's door to `call`; both are bytes in base64."""
    door = os.environ.get(VARIABLE, "")
    reply = ask(door, b64decode(call)) if door else AWAY + f"{VARIABLE} is not set".encode()
    return b64encode(reply).decode()


class Vantage6Platform:
    """The nodes of a collaboration (see `Platform`), by organisation.

    `client` is an authenticated `UserClient`; `image` is the algorithm's image, which the nodes allow.
    """

    def __init__(self, client: Any, collaboration: int, image: str) -> None:
        self._client, self._collaboration, self._image = client, collaboration, image

    def nodes(self) -> Collection[int]:
        """The organisations whose nodes are online."""
        found = self._client.node.list(collaboration=self._collaboration, is_online=True, per_page=MAX_NODES)
        return tuple(node["organization"]["id"] for node in found["data"])

    def push(self, node: int, content: bytes) -> str:
        """Create a task for the organisation `node`."""
        task = self._client.task.create(
            collaboration=self._collaboration,
            organizations=[node],
            name="fedbnsl",
            description="a call of a run of fedbnsl",
            image=self._image,
            input_={"method": "answer", "kwargs": {"call": b64encode(content).decode()}},
        )
        if "id" not in task:
            raise ConnectionRefusedError(f"the server has created no task: {task.get('msg', 'no reason given')}")
        return str(task["id"])

    def pull(self, messages: Collection[str]) -> Mapping[str, bytes | None]:
        """The results of completed tasks; None for a task that has failed."""
        found = dict[str, bytes | None]()
        for message in messages:
            status = self._client.task.get(int(message))["status"]
            if has_task_failed(status):
                found[message] = None
            elif status == "completed":
                (result,) = self._client.result.from_task(int(message))["data"]
                found[message] = b64decode(result["result"])
        return found


def cross_as_user(path: str, configuration: str) -> None:
    """Move bytes between the run whose socket is at `path`, and the nodes of the collaboration in `configuration`."""
    from vantage6.client import UserClient

    from .bridge import cross

    settings = tomllib.loads(Path(configuration).read_text("utf-8"))
    client = UserClient(settings["host"], settings["port"], settings.get("path", "/api"), log_level="error")
    client.authenticate(settings["username"], os.environ[PASSWORD])
    client.setup_encryption(settings.get("private_key"))
    cross(Vantage6Platform(client, settings["collaboration"], settings["image"]), path)


if __name__ == "__main__":
    cross_as_user(*sys.argv[1:])
