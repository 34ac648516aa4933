"""Uncharged output of a silo in a private run is equal, byte for byte, for neighbouring tables.

Two tables are neighbours if they differ in one row. Everything that a service returns or raises is recorded. Only the
replies of charged rounds and the seals of the rows, which are keyed with a secret of each silo, may differ.
"""

import json
import secrets
from dataclasses import dataclass
from random import Random
from threading import get_ident

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Reading, declarations, read_about
from fedbnsl.tasks.silo.messages import METHODS
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.described_schema import schema_from_descriptions
from fedbnsl.tasks.transport.in_process import InProcessTransport, in_process_roster

ROW = 7
"""the row that differs"""
ROWS, SILOS = 400, ("a", "b", "c")
ABOUT = {
    "numbers": {"kind": "continuous"},
    "labels": {"kind": "discrete", "levels": {name: ["no", "yes", "rare"] for name in "xyz"}},
    "mixed": {
        "kind": "mixed",
        "levels": {"x": ["no", "yes", "rare"]},
        "columns": {"y": "continuous", "z": "continuous"},
    },
    "series": {"kind": "time-series", "stretches": {silo: [ROWS] for silo in SILOS}},
}


def lines(kind, seed):
    """The lines of a table, header first."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(ROWS, 3)).round(3)
    labels = random.choice(["no", "yes"], size=(ROWS, 3))
    if kind == "mixed":
        body = [f"{label},{y},{z}" for label, (y, z) in zip(labels[:, 0], numbers[:, 1:], strict=True)]
    elif kind == "labels":
        body = [",".join(row) for row in labels]
    elif kind == "series":
        body = [f"{t},{x},{y},{z}" for t, (x, y, z) in enumerate(numbers)]
    else:
        body = [f"{x},{y},{z}" for x, y, z in numbers]
    return ["time,x,y,z" if kind == "series" else "x,y,z", *body]


HOSTILE = {
    "numbers": [
        "word,1.5,2.5", ",1.5,2.5", "1e300,1e300,1e300", "1e999,0,-1e999", "1,2,3", "nan,inf,-inf", "0,0,0",
        "1e-300,0,0",
        '"unclosed,1,2', "1,2,3,4,5", "1", "", "NA,?,null", "1.5;2.5;3.5", "0x10,1_000,1,5", "\x00,\x01,\x02",
    ],
    "labels": ["rare,rare,rare", "unknown,no,no", ",,", "1,2,3", "NO,Yes,nO", '"no,yes', "no", "\x07,no,no"],
    "mixed": ["rare,1.5,2.5", "1.5,no,yes", ",,", "unknown,1e300,word", "yes,1e999,"],
    "series": ["word,1,2,3", "0,1,2,3", "1000,1,2,3", "7,word,,1e300", ",,,", "7.5,0,0,0"],
}  # fmt: skip
PAIRS = [(kind, line) for kind, hostile in HOSTILE.items() for line in hostile]


def write(folder, kind, line):
    folder.mkdir()
    for number, silo in enumerate(SILOS):
        table = lines(kind, number)
        if silo == "a" and line is not None:
            table[ROW] = line
        (folder / f"{silo}.csv").write_text("\n".join(table) + "\n")
    (folder / "about.json").write_text(json.dumps(ABOUT[kind]))
    return folder


@dataclass
class Wire:
    """All that services return or raise, in order."""

    sent: list

    def note(self, silo, method, arguments, answer):
        phase = getattr(arguments[2], "phase", "") if len(arguments) > 2 else ""
        if isinstance(answer, Exception):
            answer = repr(answer)
        elif method == "seal":
            assert len(bytes.fromhex(answer)) == 32
            answer = "a seal"
        elif method == "solve" or phase == "mask":
            answer = "a charged reply"
        self.sent.append((silo, method, phase, wire.encode(answer)))


@pytest.fixture
def recorded(monkeypatch):
    """Record the calls of services in this process, whose randomness is the same for both tables of a pair."""
    charged = {}

    def solve(self, terms, number, broadcast, *, behind_masks):
        own = SOLVE(self, terms, number, broadcast, behind_masks=behind_masks)
        return charged.setdefault((self.name, terms.step_of, number), own)

    def begin():
        found, random = Wire([]), Random(1)
        monkeypatch.setattr("fedbnsl.flows.api.learning.uuid4", lambda: "the run")
        monkeypatch.setattr("fedbnsl.flows.start.uuid4", lambda: "the run")
        monkeypatch.setattr(SiloService, "_solve", solve)
        monkeypatch.setattr(secrets, "token_bytes", in_this_thread(random.randbytes, secrets.token_bytes))
        monkeypatch.setattr(secrets, "randbits", in_this_thread(random.getrandbits, secrets.randbits))
        for method in METHODS:
            monkeypatch.setattr(SiloService, method, listened(ORIGINAL[method], method, found))
        return found

    return begin


def in_this_thread(seeded, own):
    """`seeded` in this thread, and `own` elsewhere: Prefect's threads draw the masks of their web socket's frames."""
    this = get_ident()

    def drawn(size):
        return seeded(size) if get_ident() == this else own(size)

    return drawn


SOLVE = SiloService._solve
ORIGINAL = {method: getattr(SiloService, method) for method in METHODS}


def listened(original, method, found):
    def call(self, *arguments, **options):
        try:
            answer = original(self, *arguments, **options)
        except Exception as error:
            found.note(self.name, method, arguments, error)
            raise
        found.note(self.name, method, arguments, answer)
        return answer

    return call


def described(folder):
    """The silos' descriptions for a coordinator that promises an ε."""
    services = {silo: SiloService(silo, folder / f"{silo}.csv") for silo in SILOS}
    said = declarations(read_about(folder), Reading(private=True, learned_from=True))
    schema_from_descriptions(in_process_roster(InProcessTransport(services), SILOS), said)


def outcome(folder, found):
    """Run, and return all that was sent, and the error if there was one."""
    found = found()
    described(folder)
    try:
        learn(folder, epsilon=8.0, engine="inline")
    except BadInput as error:
        return found.sent, str(error).replace(str(folder), "")
    return found.sent, ""


@pytest.mark.parametrize("kind", ABOUT)
def test_a_run_on_an_ordinary_table_succeeds(kind, tmp_path, recorded):
    sent, error = outcome(write(tmp_path / "data", kind, None), recorded)
    assert not error
    assert {method for _, method, _, _ in sent} >= {"describe", "secure_answer", "charges"}


@pytest.mark.parametrize(("kind", "line"), PAIRS)
def test_neighbours_are_told_apart_by_charged_replies_only(kind, line, tmp_path, recorded):
    ordinary = outcome(write(tmp_path / "one", kind, None), recorded)
    hostile = outcome(write(tmp_path / "two", kind, line), recorded)
    assert ordinary == hostile


def test_there_are_enough_pairs():
    assert len(PAIRS) >= 30
