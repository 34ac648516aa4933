"""A demonstration of a federation on one machine: a coordinator and three silos, each in a separate process.

The rows of the silos are drawn from a linear model. Certificates, configuration files, policies and connections are the
same as in a federation over several machines; only the addresses are local.
"""

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import ABOUT
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.linear import homogeneous

from .processes import CHILD, process

KIND = '{"kind": "continuous"}\n'
"""the declaration of the rows, the same for all owners and the coordinator"""
SILOS = ("clinic", "lab", "ward")
VARIABLES, ROWS, SEED = 8, 500, 1
LOG = "log.txt"
"""the file with the output of a process, in the folder of the coordinator or of the silo"""
PATIENCE = 60.0
"""maximum number of seconds until the coordinator listens"""


def write_demo_rows(folder: Path) -> None:
    """Draw the rows of the silos; write them to the owners' folders, and the true graph to the coordinator's folder.

    `folder` has the federation, with a folder for each owner of `SILOS` and one for the coordinator.
    """
    drawn = homogeneous(VARIABLES, len(SILOS), ROWS, SEED)
    names = dict(zip(drawn.schema.silos, SILOS, strict=True))
    schema = replace(drawn.schema, rows={names[silo]: rows for silo, rows in drawn.schema.rows.items()})
    data = replace(drawn, schema=schema, tables={names[silo]: table for silo, table in drawn.tables.items()})
    whole = folder / "whole"
    write_folder(whole, data)
    for silo in SILOS:
        (whole / f"{silo}.csv").rename(folder / silo / "rows.csv")
        (folder / silo / ABOUT).write_text(KIND, encoding="utf-8")
    (folder / "coordinator" / ABOUT).write_text(KIND, encoding="utf-8")
    (whole / "truth.csv").rename(folder / "coordinator" / "truth.csv")
    shutil.rmtree(whole)


@contextmanager
def running_federation(folder: Path) -> Iterator[Path]:
    """Run the coordinator and the silos in `folder` within the block; yields the coordinator's configuration file.

    Raises `BadInput` with the last line of the coordinator's log if the coordinator does not listen.
    """
    from fedbnsl.tasks.transport.configuration import read_federation_file

    file = folder / "coordinator" / "federation.toml"
    where = read_federation_file(file).listen
    command = (*CHILD, "fedbnsl.flows.cli.main")
    with ExitStack() as processes:
        words = [*command, "coordinator", "start", "--federation", str(file)]
        child = processes.enter_context(process(words, {}, folder / "coordinator" / LOG))
        for silo in SILOS:
            words = [*command, "silo", "start", "--config", str(folder / silo / "silo.toml")]
            processes.enter_context(process(words, {}, folder / silo / LOG))
        deadline = time.monotonic() + PATIENCE
        while not _listens(where.host, where.port):
            if child.poll() is not None or time.monotonic() > deadline:
                log = (folder / "coordinator" / LOG).read_text("utf-8").splitlines()
                raise BadInput(f"the coordinator does not listen at {where}: {log[-1] if log else 'no reason given'}")
            time.sleep(0.05)
        yield file


def _listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0
