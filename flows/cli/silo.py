"""`fedbnsl silo start`, `check`, `reseal`, `forget` and `sent`: a silo on its owner's machine.

The rows of the silo never leave this machine.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbnsl.algorithms.errors import BadInput, foreign_text

if TYPE_CHECKING:
    from fedbnsl.data.folder.profile import ColumnProfile
    from fedbnsl.data.folder.table import Mapper
    from fedbnsl.tasks.silo.rows import AnyDescribed
    from fedbnsl.tasks.transport.configuration import SiloFile


def serve_silo(path: Path, name: str | None, data: Path | None, door: str | None = None) -> None:
    """Join the federation that the file at `path` describes, and answer requests until a signal ends the process.

    With a `door`, the silo answers a platform's node at this socket, and does not connect to the coordinator.

    Raises `BadInput`, before it connects to the coordinator, if the file or the rows cannot be used.
    """
    from fedbnsl.algorithms import registry
    from fedbnsl.data.folder.formats import has_query
    from fedbnsl.tasks.platforms.silo import serve_at
    from fedbnsl.tasks.silo.heartbeat import Heartbeat
    from fedbnsl.tasks.transport import channel
    from fedbnsl.tasks.transport.configuration import read_silo_file
    from fedbnsl.tasks.transport.hosted_silo import HostedSilo

    from ..servers.supervisor import supervise, within_seconds
    from ..terminal.daemon import log_line, run_until_signal

    file = read_silo_file(path, name, data)
    file.require_declared()
    for line in file.warnings:
        log_line(f"warning: {line}")
    for line in reader_lines(file):
        log_line(line)
    supervise(file.memory_bytes, log_line)
    readers = file.readers(log_line)
    silo = HostedSilo(file, readers, log_line, name, data)
    answers = within_seconds(silo.answer, file.call_seconds, log_line)
    remote = file.cluster is not None or has_query(file.data)
    heartbeat = Heartbeat(remote_rows=remote, reader_seconds=readers.cpu_seconds)
    try:
        described_rows(file, readers.map)
        registry.prepare_messages()
        run_until_signal(
            lambda: (
                channel.serve_silo(file.name, file.coordinator, file.identity, answers, log_line, heartbeat=heartbeat)
                if door is None
                else serve_at(door, file.name, file.identity, answers, heartbeat, log_line)
            )
        )
    finally:
        silo.close()
        readers.close()


def check_silo(path: Path, name: str | None, data: Path | None) -> None:
    """Print what this silo would send before round 1, its policy, and that the coordinator answers.

    Raises `BadInput` if certificates or rows cannot be used, or if the coordinator does not answer.
    """
    from fedbnsl.tasks.transport.configuration import read_silo_file

    file = read_silo_file(path, name, data)
    file.require_declared()
    print(f"silo {file.name}: certificate and key match, and both are usable")
    for validity in file.identity.validities():
        print(validity)
    readers = file.readers(print)
    try:
        lines = disclosure_lines(file, readers.map)
    finally:
        readers.close()
    for line in (*lines, *reader_lines(file), *policy_lines(file)):
        print(line)
    print(coordinator_line(file))


FACTS = {
    "empty": "empty cells: {}",
    "numbers": "numbers: {}",
    "words": "words: {}",
    "whole": "all numbers are integers",
    "distinct": "distinct values: {}",
    "number_like": "words that look like numbers: {}",
    "kinds_of_words": "distinct words: {}",
    "size": "median magnitude 10^{}",
    "beyond": "numbers beyond the range of computations",
    "zeros": "zeros: {}",
    "apart": "nonzero values are positive and far from 0",
    "unique": "no value occurs twice",
    "consecutive": "values are consecutive integers",
    "spaced": "labels with different spaces around them",
    "outliers": "outliers set aside: {}",
    "marks": "marks of missing values: {}",
    "dates": "dates",
    "first_dates": "orders of day, month and year, and first date if requested: {}",
    "periods": "quarters or months",
    "negative": "negative numbers",
    "shape": "suggested transform: {}",
    "far": "a number is far from all others",
    "counted": "suggested coding of counts: {}",
    "labelled": "its type in the file is that of labels",
    "unit": "numbers with a unit or other marks: '{}'",
    "limits": "limits of numbers: {}",
    "recurrence": "rows of each value, as it is named like an identifier: {}",
    "padded": "whole numbers with leading zeros",
}
"""by field of `ColumnProfile`, how `silo check` prints it; labels have a line of their own, and `odd` is not sent"""


DEPENDENCE = (
    "  dependence of its integers with few values, in nats: as labels {}, as numbers {}, as labels by chance {}"
)


def disclosure_lines(file: SiloFile, mapper: Mapper = map) -> list[str]:
    """Lines on what a coordinator receives before round 1: rows, columns with all facts, labels, lengths of series.

    For a run with an ε it receives only the number of rows and the names of the columns.
    """
    from fedbnsl.data.folder.series import DescribedSeries
    from fedbnsl.tasks.silo.rows import Described

    described = described_rows(file, mapper)
    lines = [f"before round 1 the coordinator learns: {described.rows} rows, columns {', '.join(described.variables)}"]
    if isinstance(described, Described):
        profile = described.profile
        lines += [f"  {name}: {'; '.join(column_facts(column))}" for name, column in profile.columns.items()]
        labels = {name: column.labels for name, column in profile.columns.items() if column.labels}
        lines += [f"  labels of {name}: {', '.join(those)}" for name, those in labels.items()]
        lines += [f"  {name} follows from {', '.join(sources)}" for name, _, *sources in profile.derived]
        lines += [f"  rows in condition {name}: {rows}" for name, rows in profile.conditions]
        lines += [DEPENDENCE.format(*profile.dependence)] * any(profile.dependence)
    if isinstance(described, DescribedSeries):
        lengths = ", ".join(map(str, described.stretches))
        lines.append(f"  time step {described.step:g}, unbroken stretches of so many rows: {lengths}")
        lines += [f"  rows left out: {described.left_out}"] * (described.left_out > 0)
        empty = zip(described.variables, described.empty, strict=False)
        lines += [f"  {name}: empty cells: {count}" for name, count in empty if count]
    return lines


def column_facts(column: ColumnProfile) -> list[str]:
    """The description of a column, except its labels; facts that do not hold, and numbers of 0 cells, are left out."""
    values = {name: getattr(column, name) for name in FACTS if column.numbers or name != "whole"}
    holding = {name: value for name, value in values.items() if value or (name == "size" and value is not None)}
    return [FACTS[name].format(_listed(value)) for name, value in holding.items()]


def _listed(value: object) -> object:
    """Pairs as text, such as the marks of missing values with their counts; any other value unchanged."""
    return (
        ", ".join(f"{what} ({more})" if more else what for what, more in value) if isinstance(value, tuple) else value
    )


def described_rows(file: SiloFile, mapper: Mapper = map) -> AnyDescribed:
    """The description of the rows for a coordinator with the same declarations as the owner.

    Raises `BadInput` for unreadable rows. The message has file, line and value, because only the owner sees it.
    """
    from fedbnsl.data.folder.about import NO_DECLARATION
    from fedbnsl.tasks.silo.rows import describe_rows

    declared = file.guard(print).declaration(file.name, file.declared or NO_DECLARATION)
    return describe_rows(file.name, file.data, declared, mapper)


def reader_lines(file: SiloFile) -> list[str]:
    """A line on the processes that read the rows; no line if only this process reads them."""
    from fedbnsl.data.folder.about import NO_DECLARATION
    from fedbnsl.data.folder.table import part_count

    if file.workers == 1 and file.cluster is None:
        return []
    what = f"cluster: the workers at {file.cluster}" if file.cluster else f"workers: {file.workers} processes"
    parts = part_count(file.data, (file.declared or NO_DECLARATION).at_silo(file.name))
    if parts > 1:
        return [f"{what} read the {parts} parts of the rows"]
    setting = f"cluster is {file.cluster}" if file.cluster else f"workers is {file.workers}"
    return [
        f"warning: {setting}, but one process reads the rows: several processes can only read Parquet files that "
        "exceed the memory limit and have several row groups"
    ]


def policy_lines(file: SiloFile) -> list[str]:
    """Lines on the owner's policy."""
    from fedbnsl.tasks.silo.signed_records import policy_hash

    policy = file.policy
    set_to = [(field.name, getattr(policy, field.name)) for field in fields(policy)]
    said = [f"{name} = {value}" for name, value in set_to if value != getattr(type(policy)(), name)]
    lines = [f"policy: {', '.join(said) or 'everything is allowed'}"]
    if policy.changed_rows:
        lines.append(f"runs without an ε: on unchanged rows, or after at least {policy.changed_rows} rows have changed")
    if file.members is not None:
        lines.append(f"members: {', '.join(sorted(file.members.fingerprints))}")
    lines += [f"warning: {warning}" for warning in file.warnings]
    lines.append(f"hash of this policy, for `fedbnsl audit`: {policy_hash(policy)}")
    return [*lines, f"fingerprint of this silo's key, for the other owners: {file.identity.fingerprint()}"]


def coordinator_line(file: SiloFile) -> str:
    """A line that says that the coordinator responds at its address and accepts this silo.

    Raises `SilosUnavailable` if nobody responds, and `BadInput` with the reason if either side refuses the other.
    """
    import asyncio

    from fedbnsl.algorithms.errors import SilosUnavailable
    from fedbnsl.tasks.transport import channel
    from fedbnsl.tasks.transport.tls import PeerRefusedError

    async def visit() -> None:
        connection, _ = await channel.connect(file.coordinator, file.identity, "check")
        connection.close()

    try:
        asyncio.run(visit())
    except PeerRefusedError as error:
        raise BadInput(f"{file.coordinator}: {foreign_text(str(error))}") from None
    except (OSError, ValueError) as error:
        reason = foreign_text(str(error)) or type(error).__name__
        raise SilosUnavailable(f"{file.coordinator}: no coordinator answers ({reason})") from None
    return f"the coordinator responds at {file.coordinator}, and accepts this silo"


app = typer.Typer(help="Join a federation; the rows stay on this machine.", no_args_is_help=True, add_completion=False)

Config = Annotated[
    Path, typer.Option(metavar="FILE", help="The owner's configuration file, written by `fedbnsl federation init`.")
]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="Name of the silo; overrides the configuration file.")]
Data = Annotated[Path | None, typer.Option(metavar="PATH", help="Rows of the silo; overrides the configuration file.")]


@app.command()
def start(
    config: Config = Path("silo.toml"),
    name: Name = None,
    data: Data = None,
    socket: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Answer a platform's node at this Unix socket (or HOST:PORT), in place of the coordinator.",
        ),
    ] = None,
) -> None:
    """Join the federation over mutual TLS and answer within the owner's policy, until stopped."""
    serve_silo(config, name, data, socket)


@app.command()
def check(config: Config = Path("silo.toml"), name: Name = None, data: Data = None) -> None:
    """Show what a coordinator receives before round 1, and the policy; check the connection to the coordinator."""
    check_silo(config, name, data)


@app.command()
def reseal(
    data: Annotated[Path, typer.Argument(help="Rows of the silo: the file or folder beside its .fedbnsl.")],
) -> None:
    """Seal privacy ledgers that an earlier version wrote, so that nobody else can change them unnoticed."""
    from fedbnsl.tasks.silo.ledger import LEDGER_SUFFIX
    from fedbnsl.tasks.silo.ledger import reseal as seal_ledger
    from fedbnsl.tasks.silo.private_folder import private_folder

    for path in sorted(private_folder(data).glob(f"*{LEDGER_SUFFIX}")):
        print(f"{path}: {seal_ledger(path)} charges sealed")


@app.command()
def forget(
    data: Annotated[Path, typer.Argument(help="Rows of the silo: the file or folder beside its .fedbnsl.")],
) -> None:
    """Delete the record of publications from these rows, with which the silo compares the next run without an ε."""
    from fedbnsl.tasks.silo.publications import forget_publications

    for path in forget_publications(data):
        print(f"{path}: forgotten")


@app.command()
def sent(
    data: Annotated[Path, typer.Argument(help="Rows of the silo: the file or folder beside its .fedbnsl.")],
) -> None:
    """Show what has left this silo in every run, by the record of its own gate."""
    from fedbnsl.tasks.silo.journal import Journal
    from fedbnsl.tasks.silo.private_folder import private_folder

    paths = sorted(private_folder(data).glob("*.sqlite"))
    if not paths:
        raise BadInput(f"{data}: nothing has left this silo: there is no journal beside its rows")
    for path in paths:
        with Journal(path) as journal:
            for run in journal.disclosed_runs():
                print(f"silo {path.stem}, run {foreign_text(run)}")
                for line in journal.disclosed(run):
                    print(f"  {line.in_words}")
