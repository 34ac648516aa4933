"""A federation of three owners, and what a run over it must give: what the engine inline gives from all rows."""

import csv
import json
import shutil
import subprocess
import sys

from fedbnsl.data.folder.about import ABOUT
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.flows.servers.federation_demo import SILOS, running_federation, write_demo_rows
from fedbnsl.flows.servers.processes import free_port

BRIEF = ("--no-diagnose", "--no-parameters", "--bootstrap", "0", "--quiet")
"""few exchanges, because a platform may take seconds for each"""
OF_OWNERS = ("findings", "diagnoses")
"""metrics that state what owners at level sums do not allow, which an inline run does not ask"""


def write_study(folder):
    """Write the folders of the owners and the coordinator, and a folder `all` with all rows; returns `folder`."""
    init_federation(folder, SILOS, "127.0.0.1:1")
    write_demo_rows(folder)
    (folder / "all").mkdir()
    for silo in SILOS:
        shutil.copy(folder / silo / "rows.csv", folder / "all" / f"{silo}.csv")
    for name in (ABOUT, "truth.csv"):
        shutil.copy(folder / "coordinator" / name, folder / "all" / name)
    return folder


def federation(folder):
    return folder / "coordinator" / "federation.toml"


def set_policy(folder, *lines):
    """Give all owners a policy of these `lines`."""
    for silo in SILOS:
        file = folder / silo / "silo.toml"
        before, _, after = file.read_text().partition("[policy]\n")
        members = after[after.index("[members]") :]
        file.write_text("\n".join([f"{before}[policy]", *lines, "", members]))


def over(folder, platform, target=None):
    """The words of a run over `platform`, whose `target` in federation.toml is this."""
    file = federation(folder)
    before, _, _ = file.read_text().partition("[platforms]")
    file.write_text(before if target is None else f'{before}[platforms]\n{platform} = "{target}"\n')
    return ("--federation", file, "--platform", platform)


def edges(folder):
    """The edges and weights of a result, as they are written."""
    return (folder / "structure.csv").read_bytes()


def metrics(folder):
    """The metrics of a result, without those of the transport: time, and bytes that pass between machines."""
    found = json.loads((folder / "metrics.json").read_text())
    return {name: value for name, value in found.items() if "bytes" not in name and name not in ("seconds", *OF_OWNERS)}


def rounds(folder):
    """The measures of the rounds, without times and bytes."""
    with (folder / "rounds.csv").open() as file:
        return [
            {name: value for name, value in row.items() if "bytes" not in name and name != "seconds"}
            for row in csv.DictReader(file)
        ]


def statement(folder, *, of_network=True):
    """The lines of the disclosure statement by silo; without `of_network`, only those that an inline run has, too.

    The signatures of mask keys vary in their length, so the size of these messages is left out.
    """
    silos = json.loads((folder / "disclosure.json").read_text())["silos"]
    if of_network:
        size = {"masked messages": {"bytes": 0}}
        return {silo: [line | size.get(line["statistic"], {}) for line in lines] for silo, lines in silos.items()}
    extra = ("description", "records", "masked messages")
    return {silo: [line for line in lines if line["statistic"] not in extra] for silo, lines in silos.items()}


def learn(environment, *words):
    """Exit code and stderr of `fedbnsl learn` in a process of its own."""
    command = [sys.executable, "-m", "fedbnsl.flows.cli.main", "learn", *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


MASKED = ("-a", "secure-linear", "--secure", "--seed", "3", *BRIEF)
"""the run that every platform repeats: masked sums of three silos whose owners are at level sums"""


def write_reference(folder, environment):
    """Write the results of `MASKED` inline and over the relay to the folders `alone` and `relay` in `folder`."""
    study = write_study(folder / "study")
    assert learn(environment, study / "all", "--engine", "inline", *MASKED, "--out", folder / "alone")[0] == 0
    where = f"127.0.0.1:{free_port(0)}"
    for file in study.glob("*/*.toml"):
        file.write_text(file.read_text().replace("127.0.0.1:1", where))
    with running_federation(study) as file:
        code, err = learn(environment, "--federation", file, *MASKED, "--out", folder / "relay")
        assert code == 0, err


def assert_as_reference(found, reference):
    """The result of `MASKED` in the folder `found` is that of the engine inline, and of the relay, in `reference`."""
    for other in (reference / "alone", reference / "relay"):
        assert edges(found) == edges(other)
        assert metrics(found) == metrics(other)
        assert rounds(found) == rounds(other)
    assert statement(found, of_network=False) == statement(reference / "alone", of_network=False)
    assert statement(found) == statement(reference / "relay")
