"""`fedbnsl federation`: certificates and configuration files for owners and coordinator, and a demo on one machine."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbnsl.algorithms.errors import BadInput

if TYPE_CHECKING:
    from fedbnsl.tasks.transport.certificates import Authority

AUTHORITIES = "authorities"
"""the folder of the signing keys, with which any silo or coordinator of the federation can be certified"""

FEDERATION = """\
# Configuration of the coordinator. Paths are relative to this file.
address = "{address}"      # the address at which silos and runs reach the coordinator
listen = "{listen}"        # the address that the coordinator binds to
silos = [{silos}]      # the members; all others are rejected

[tls]
certificate = "coordinator.pem"
key = "coordinator.key"
trusted = "trusted.pem"
"""

SILO = """\
# Configuration of silo {name}, set by its owner. Paths are relative to this file.
name = "{name}"
data = "rows.csv"      # its rows: a table (.csv, .parquet, .xlsx, .sav ...), a folder of Parquet parts, or a .sql query
coordinator = "{address}"
# workers = 8      # processes that read Parquet rows larger than memory; the number does not change the results
# cluster = "tls://scheduler.example:8786"      # instead of processes: your own Dask cluster, if it can read the file
# memory_gigabytes = 16      # maximum memory of the process that answers; default: that of the machine
# call_seconds = 3600      # maximum duration of a call

[tls]
certificate = "{name}.pem"
key = "{name}.key"
trusted = "trusted.pem"

# What this owner allows; this silo refuses everything else. The levels:
#   sums      only masked sums of moments and counts over the members below; about.json must declare kinds and levels
#   epsilon   only replies with noise, each charged to the ledger (epsilon and total_epsilon below)
#   trusted   every exchange: the coordinator is trusted to follow the protocol
# Each further line is a limit at any level; without its line, a limit does not apply.
[policy]
level = "sums"
# algorithms = ["secure-sum", "fed-pc"]      # allowed algorithms
# steps = ["regressions", "diagnosis"]      # allowed exchanges after the rounds: parameters, diagnoses, resamples
# epsilon = 1.0      # maximum ε of a run; runs without an ε are then refused
# total_epsilon = 3.0      # maximum ε of all runs together
# delta = 1e-8      # the δ of these maxima; default: 1/n² with n rows in this silo
# masked = true      # send only masked replies; level sums implies it
silos = 3      # minimum number of silos in a secure sum
rows = 50      # minimum number of rows of this silo in a run
changed_rows = 10      # without an ε: minimum number of changed rows between two publications, if any row changes
# cells = 5      # smaller counts of this silo become 0 before they enter a sum; not for mixed data
# variables = 4      # maximum number of variables of a count table
# parameters = 0.33      # maximum number of parameters of a table or regression, as a share of this silo's rows

# The keys of all silos, by SHA-256 fingerprint: compare the fingerprints with their owners. A renewal keeps the key.
# The silo refuses a secure sum with any other silo, because a coordinator could have invented that silo.
[members]
{members}
"""


def init_federation(folder: Path, silos: Iterable[str], address: str) -> None:
    """Make a federation in `folder`, or add `silos` to an existing federation, and print the files for each owner.

    Raises `BadInput` without `silos`, for a name or an address that cannot be used, for a silo that already has a
    folder, and if `folder` has other files but no federation.
    """
    from fedbnsl.data.folder.check import check_silo_name
    from fedbnsl.tasks.transport.certificates import COORDINATOR, load_or_create_authority
    from fedbnsl.tasks.transport.configuration import endpoint

    names, where = sorted(set(silos)), endpoint(address, "--address")
    for name in names:
        check_silo_name("--silos", name)
        if name in (COORDINATOR, AUTHORITIES):
            raise BadInput(f"--silos: no silo may be called '{name}'")
        if (folder / name).exists():
            raise BadInput(f"{folder / name}: already exists; remove this folder to issue a new certificate")
    new = not (folder / COORDINATOR).exists()
    if folder.exists() and new and any(folder.iterdir()):
        raise BadInput(f"{folder}: already exists and is no federation; give a new or an empty folder")
    if not names:
        raise BadInput("--silos: name the silos, with commas between them")
    (folder / AUTHORITIES).mkdir(parents=True, exist_ok=True, mode=0o700)
    of_coordinators, of_silos = (
        load_or_create_authority(folder / AUTHORITIES, kind) for kind in ("coordinators", "silos")
    )
    if new:
        _coordinator(folder / COORDINATOR, of_coordinators, of_silos, names, str(where))
    for name in names:
        _issue_silo(folder / name, name, of_silos, of_coordinators)
    members = _members(folder)
    for name in names:
        text = SILO.format(name=name, address=where, members="\n".join(members))
        (folder / name / "silo.toml").write_text(text, encoding="utf-8")
    _print_recipients(folder, names, members, new)


def _coordinator(folder: Path, own: Authority, of_silos: Authority, names: list[str], address: str) -> None:
    from fedbnsl.tasks.transport.certificates import COORDINATOR, issue, write_trusted

    folder.mkdir(mode=0o700)
    issue(own, COORDINATOR, folder, COORDINATOR)
    write_trusted(folder / "trusted.pem", of_silos, own)
    silos = ", ".join(f'"{name}"' for name in names)
    text = FEDERATION.format(address=address, listen=address, silos=silos)
    (folder / "federation.toml").write_text(text, encoding="utf-8")


def _members(folder: Path) -> list[str]:
    """The lines of `[members]`: the name and the fingerprint of every silo of the federation in `folder`."""
    from fedbnsl.tasks.transport.certificates import COORDINATOR, key_fingerprint

    there = _certificates_of(folder)
    return [f'"{name}" = "{key_fingerprint(file)}"' for name, file in there.items() if name != COORDINATOR]


def _certificates_of(folder: Path) -> dict[str, Path]:
    """The certificate of each member of the federation in `folder`, by name; raises `BadInput` for another folder."""
    if not (folder / AUTHORITIES).is_dir():
        raise BadInput(f"{folder}: has no folder {AUTHORITIES}; give the folder of `fedbnsl federation init`")
    files = {path.name: path / f"{path.name}.pem" for path in sorted(folder.iterdir())}
    return {name: file for name, file in files.items() if file.exists()}


def _issue_silo(folder: Path, name: str, own: Authority, of_coordinators: Authority) -> None:
    from fedbnsl.tasks.transport.certificates import issue, write_trusted

    folder.mkdir(mode=0o700)
    issue(own, name, folder, name)
    # A silo trusts only coordinators: it rejects certificates of other silos.
    write_trusted(folder / "trusted.pem", of_coordinators)


def renew_certificates(folder: Path, members: Iterable[str]) -> None:
    """Renew the certificates of `members` in the federation in `folder`, of all without `members`; print the files.

    A member is a silo, or "coordinator". An authority whose certificate would expire before the renewed ones is renewed
    first. Keys stay as they are, so no other member is affected. Raises `BadInput` for a folder without the authorities
    of a federation, an unknown member, and an unusable file.
    """
    from fedbnsl.tasks.transport.certificates import COORDINATOR, read_authority, renew, validity_of_file, write_trusted

    files = _certificates_of(folder)
    chosen = sorted(set(members)) or list(files)
    for name in chosen:
        if name not in files:
            raise BadInput(f"--members: {folder} has no certificate of '{name}'; available: {', '.join(files)}")
    kinds = ("coordinators", "silos")
    known = [read_authority(folder / AUTHORITIES, kind) for kind in kinds]
    of_coordinators, of_silos = (
        _renewed_if_old(one, folder / AUTHORITIES / f"{kind}.pem") for one, kind in zip(known, kinds, strict=True)
    )
    for name in chosen:
        renew(of_coordinators if name == COORDINATOR else of_silos, files[name])
        recipient = "the coordinator" if name == COORDINATOR else f"the owner of {name}"
        print(f"{files[name]}: for {recipient}; {validity_of_file(files[name])}")
    for name, file in files.items() if [of_coordinators, of_silos] != known else ():
        trusted = file.with_name("trusted.pem")
        write_trusted(trusted, *((of_silos,) if name == COORDINATOR else ()), of_coordinators)
        print(f"{trusted}: for the recipient of {file.name}")
    print(
        "these files are not secret; each recipient replaces the file of the same name; a silo uses it after its next "
        "start or reconnection, a coordinator from the next connection on"
    )


def _renewed_if_old(authority: Authority, file: Path) -> Authority:
    """The `authority` of `file`, renewed there if its certificate would expire before one that it issues now."""
    from fedbnsl.tasks.transport.certificates import outlives_certificates, pem, renewed_authority, replace_file

    if outlives_certificates(authority):
        return authority
    renewed = renewed_authority(authority)
    replace_file(file, pem(renewed.certificate))
    print(f"{file}: renewed, with the same key; keep it offline")
    return renewed


def _print_recipients(folder: Path, names: list[str], members: list[str], new: bool) -> None:
    from fedbnsl.tasks.transport.certificates import COORDINATOR

    print(
        f"{folder / AUTHORITIES}: keys that sign certificates; keep them offline, away from the coordinator's machine"
    )
    if new:
        print(f"{folder / COORDINATOR}: for the coordinator: fedbnsl coordinator start --federation federation.toml")
    else:
        print(f"{folder / COORDINATOR / 'federation.toml'}: add the new names to its list of silos")
        print("for the [members] of every silo.toml of the federation:")
        for line in members:
            print(f"  {line}")
    for name in names:
        print(
            f"{folder / name}: for the owner of {name}, over a channel you trust: fedbnsl silo start --config silo.toml"
        )


app = typer.Typer(help="Set up a federation across machines.", no_args_is_help=True, add_completion=False)


@app.callback()
def federation() -> None:
    """Set up a federation across machines."""


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A new folder, or the folder of a federation to add silos to.")],
    silos: Annotated[str, typer.Option(metavar="NAMES", help="Names of the silos, separated by commas.")],
    address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address at which silos and runs reach the coordinator.")
    ] = "127.0.0.1:8786",
) -> None:
    """Create certificates and configuration files: a folder for the coordinator and one for each silo's owner.

    Example: fedbnsl federation init study --silos clinic,lab,ward --address coordinator.example.org:8786
    """
    init_federation(folder, [name.strip() for name in silos.split(",") if name.strip()], address)


@app.command()
def renew(
    folder: Annotated[Path, typer.Argument(help="The folder of the federation, with its authorities.")],
    members: Annotated[
        str, typer.Option(metavar="NAMES", help="Silos, or coordinator, separated by commas; default: all.")
    ] = "",
) -> None:
    """Renew certificates before they expire, without stopping any member.

    Example: fedbnsl federation renew study --members clinic,coordinator
    """
    renew_certificates(folder, [name.strip() for name in members.split(",") if name.strip()])


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="A new folder for the federation, or that of an earlier demo.")] = Path(
        "federation-demo"
    ),
    once: Annotated[bool, typer.Option("--once", help="End after one run, instead of serving until Ctrl-C.")] = False,
) -> None:
    """Try a federation of three silos on this machine: start all its processes, and learn from the silos once.

    Example: fedbnsl federation demo
    """
    run_demo(folder, once=once)


def run_demo(folder: Path, *, once: bool) -> None:
    """Make a federation of three silos in `folder` unless there is one, start its processes, and learn from the silos.

    Raises `BadInput` as `init_federation` and `learn` do.
    """
    from ..options.learn import LearnOptions
    from ..servers.federation_demo import LOG, SILOS, running_federation, write_demo_rows
    from ..servers.processes import HOST, free_port
    from .learn import run_learn

    if not (folder / "coordinator").exists():
        init_federation(folder, SILOS, f"{HOST}:{free_port(0)}")
        write_demo_rows(folder)
    with running_federation(folder) as file:
        print(f"a coordinator and the silos {', '.join(SILOS)} run on this machine; their logs: {folder}/*/{LOG}")
        again = f"fedbnsl learn --federation {file} --secure"
        print(again, flush=True)
        run_learn(LearnOptions(federation=str(file), secure=True), None, None, engine="prefect")
        if not once:
            print(f"Ctrl-C stops the federation; until then, in another terminal: {again}", flush=True)
            threading.Event().wait()
