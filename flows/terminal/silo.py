"""`fedbnsl silo start` and `fedbnsl silo check`: a silo on its owner's machine."""

import socket
import ssl
from dataclasses import fields
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tasks.silo.rows import Described, describe_rows
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.configuration import SiloFile, read_silo_file
from fedbnsl.tasks.transport.identity import COORDINATOR, Identity

from .attending import say, until_told


def start(path: Path, name: str | None, data: Path | None) -> None:
    """Join the federation as the file at `path` says, and answer until told to end.

    Raises `BadInput` for a file or rows that cannot be used, before anybody is told of them.
    """
    from fedbnsl.tasks.transport.silo_worker import attend

    file = read_silo_file(path, name, data)
    service = SiloService(file.name, file.data, policy=file.policy)
    try:
        service.describe()
        listen = (file.listen.host, file.listen.port)
        until_told(lambda: attend(file.coordinator.tls, service, file.identity, listen, say))
    finally:
        service.close()


def check(path: Path, name: str | None, data: Path | None) -> None:
    """Say what this silo would tell a coordinator before round 1, what its owner allows, and who answers.

    Raises `BadInput` if a part of it does not work.
    """
    file = read_silo_file(path, name, data)
    print(f"silo {file.name}: certificate, key and trusted certificates fit")
    for line in (*told(file), *allowed(file)):
        print(line)
    print(answers(file))


def told(file: SiloFile) -> list[str]:
    """Return, in lines, all that a coordinator learns before round 1."""
    described = describe_rows(file.name, file.data)
    lines = [f"a coordinator learns before round 1: {described.rows} rows, columns {', '.join(described.variables)}"]
    if isinstance(described, Described):
        labels = {name: column.labels for name, column in described.profile.columns.items() if column.labels}
        lines += [f"  labels of {name}: {', '.join(those)}" for name, those in labels.items()]
    return lines


def allowed(file: SiloFile) -> list[str]:
    """Return what the owner's policy says, in lines."""
    policy = file.policy
    set_to = [(field.name, getattr(policy, field.name)) for field in fields(policy)]
    said = [f"{name} = {value}" for name, value in set_to if value != getattr(type(policy)(), name)]
    return [f"policy: {', '.join(said) or 'everything is allowed'}"]


def answers(file: SiloFile) -> str:
    """Return who answers at the coordinator's address; raises `BadInput` if nobody does, or somebody else."""
    where = file.coordinator
    try:
        holder = _holder_at(file.identity, where.host, where.port)
    except ssl.SSLError as error:
        raise BadInput(f"{where}: the other side has no certificate that this silo trusts ({error.reason})") from None
    except OSError as error:
        raise BadInput(f"{where}: no coordinator answers ({error})") from None
    if holder != COORDINATOR:
        raise BadInput(f"{where}: answers with the certificate of '{holder}', not of a coordinator")
    return f"the coordinator answers at {where}"


def _holder_at(identity: Identity, host: str, port: int) -> str:
    context = ssl.create_default_context(cafile=str(identity.trusted))
    context.check_hostname = False  # the authority signs for coordinators only, wherever they are
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.load_cert_chain(identity.certificate, identity.key)
    with socket.create_connection((host, port), timeout=10) as plain, context.wrap_socket(plain) as wrapped:
        subject = (wrapped.getpeercert() or {}).get("subject", ())
        return dict(pair for entry in subject for pair in entry).get("commonName", "nobody")  # type: ignore[misc]
