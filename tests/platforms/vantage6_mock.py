"""A bridge over vantage6's own mock client, for tests: `vantage6_mock.py SOCKET CONNECTION`.

The mock is the client that an algorithm gets, so this module adds what only a user's client has.
"""

import os
import sys
from pathlib import Path

import pandas as pd
from vantage6.algorithm.tools.mock_client import MockAlgorithmClient

from fedbnsl.tasks.platforms.bridge import cross
from fedbnsl.tasks.platforms.vantage6 import VARIABLE, Vantage6Platform

STUDY = Path(os.environ["FEDBNSL_STUDY"])
SILOS = sorted(path.stem for path in STUDY.glob("*.sock"))


class UserMock:
    """The methods of a user's client that the adapter calls."""

    def __init__(self):
        no_rows = [[{"database": pd.DataFrame()}] for _ in SILOS]
        self.mock = MockAlgorithmClient(no_rows, "fedbnsl.tasks.platforms.vantage6")
        self.node = self.task = self.result = self

    def list(self, *, collaboration, is_online, per_page):
        return {"data": [{"organization": one} for one in self.mock.organization.list()]}

    def create(self, *, collaboration, image, organizations, **task):
        (organization,) = organizations
        os.environ[VARIABLE] = str(STUDY / f"{SILOS[organization]}.sock")  # the node's configuration
        return self.mock.task.create(organizations=organizations, **task)

    def get(self, task):
        return {"status": self.mock.task.get(task - 1)["status"]}

    def from_task(self, task):
        return {"data": [{"result": one} for one in self.mock.result.from_task(task)]}


if __name__ == "__main__":
    cross(Vantage6Platform(UserMock(), 1, "registry.example.org/fedbnsl"), sys.argv[1])
