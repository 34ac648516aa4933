"""A coordinator that may lie, and the silos of a federation that it asks.

`write_federation` gives each silo the files of `fedbnsl federation init`, and `opened` hosts its service on them.
`terms` and `sum_of` are what a coordinator sends; every part of both can be a lie.
"""

import json
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.secure import masked_round
from fedbnsl.data.folder.about import declarations
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.configuration import read_silo_file
from fedbnsl.tasks.transport.federation import Patience, Roster, SecureTransport
from fedbnsl.tasks.transport.in_process import InProcessTransport

SILOS, ROWS = ("a", "b", "c", "d"), 120
ABOUT = {"kind": "continuous"}
SCHEMA = Schema(("x", "y", "z"), dict.fromkeys(SILOS, ROWS))


def write_federation(folder, tables, about=ABOUT, columns=SCHEMA.variables):
    """The files of a federation whose silos have these `tables`, arrays of numbers or of words."""
    init_federation(folder, [*tables], "127.0.0.1:8811")
    for silo, table in tables.items():
        write_rows(folder, silo, table, columns)
        (folder / silo / "about.json").write_text(json.dumps(about))
    return folder


def write_rows(folder, silo, table, columns=SCHEMA.variables):
    fmt = "%s" if table.dtype.kind in "UO" else "%.6f"
    np.savetxt(folder / silo / "rows.csv", table, delimiter=",", header=",".join(columns), comments="", fmt=fmt)


@contextmanager
def opened(folder, silos, /, **policy):
    """The services of `silos`, whose owners have the files in `folder` and this `policy` in addition."""
    with ExitStack() as stack:
        found = {}
        for silo in silos:
            file = read_silo_file(folder / silo / "silo.toml")
            file = replace(file, policy=replace(file.policy, **policy))
            found[silo] = SiloService(silo, file.data, guard=file.guard(lambda line: None))
            stack.callback(found[silo].close)
        yield found


def terms(run, spec=None, step_of="", schema=SCHEMA, about=ABOUT, seed=0):
    """The terms that a coordinator sends; by default those of an honest run over four silos."""
    packed = registry.pack(spec or registry.specify("secure-sum"))
    return RunTerms(run, packed, schema, seed, declared=declarations(about), step_of=step_of)


class Line:
    """The coordinator's line to the silos, on which it does not hear one of them."""

    def __init__(self, transport, silent):
        self.transport, self.silent = transport, silent

    def ask(self, phase, messages):
        heard = {k: one for k, one in messages.items() if not (phase in ("mask", "unmask") and k == self.silent)}
        return self.transport.ask(phase, heard)


def sum_of(services, asked, number=1, broadcast=None, silent=None, sparse=None):
    """The sum of round `number`, as a coordinator computes it that pretends not to hear a silo."""
    algorithm = asked.algorithm()
    message = algorithm.broadcast(algorithm.open_server(asked.schema)) if broadcast is None else broadcast
    packed = wire.encode(message)
    roster = Roster(InProcessTransport(services), asked.schema.silos, Patience(absent=60.0))
    line = Line(SecureTransport(roster, asked, number, packed, sparse, tolerates_dropout=True), silent)
    session = masked_round.session_of(
        asked.run_id, number, masked_round.new_attempt(), asked.schema, asked.exchange_digest(packed, sparse)
    )
    encoding = masked_round.encoding_of(algorithm, asked.schema, message, sparse)
    return masked_round.masked_round(algorithm, session, line, message, 0, encoding)[0]
