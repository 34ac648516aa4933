"""The pages of docs/privacy/: the tables of releases are those of the code, and of all that silos of real runs send."""

import ast
import importlib.util
import json
import re
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.secure.masks import Phase
from fedbnsl.algorithms.secure.messages import KEYS_BYTES, Revealed
from fedbnsl.algorithms.secure.secret_sharing import SHARE_BYTES
from fedbnsl.algorithms.statistics.count_tables import offsets
from fedbnsl.algorithms.statistics.rows import Query
from fedbnsl.data.folder.folder import silo_files
from fedbnsl.data.folder.profile import ColumnProfile, Profile
from fedbnsl.flows.engines import dask
from fedbnsl.flows.job.run import run
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tasks.silo.messages import METHODS
from fedbnsl.tasks.silo.policy import Policy
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.in_process import InProcessTransport

ROOT = Path(__file__).parents[1]


def script():
    """The script that writes the table."""
    found = importlib.util.spec_from_file_location("composition", ROOT / "benchmarks/composition.py")
    module = importlib.util.module_from_spec(found)
    sys.modules["composition"] = module
    found.loader.exec_module(module)
    return module


composition = script()


def folder_of(case, path):
    """A prepared folder whose public schema is that of `case`."""
    path.mkdir()
    schema = case.schema
    for number, (silo, rows) in enumerate(schema.rows.items()):
        random = np.random.default_rng(number)
        columns = [
            random.choice(schema.levels[name], rows) if name in schema.levels else random.normal(size=rows).round(4)
            for name in schema.variables
        ]
        lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
        (path / f"{silo}.csv").write_text("\n".join([",".join(schema.variables), *lines]) + "\n")
    kinds = {name: "continuous" for name in schema.variables if name not in schema.levels}
    about = {"kind": schema.kind, "levels": {name: [*levels] for name, levels in schema.levels.items()}}
    about |= {"columns": kinds} if schema.kind == "mixed" else {}
    (path / "about.json").write_text(json.dumps(about))
    return path


@dataclass
class Sent:
    """One answer of a silo: the call, the phase of a secure sum, the broadcast, and the answer or the error."""

    silo: str
    call: str
    broadcast: bytes
    answer: object


@contextmanager
def tapped(monkeypatch, services):
    """Connect the engine of workers to `services` in this process; yields everything that they send."""
    sent = []

    class Tap(InProcessTransport):
        def submit(self, silo, call):
            pending = super().submit(silo, call)
            phase = call.arguments[2].phase if call.method == "secure_answer" else ""
            broadcast = call.arguments[2].broadcast if phase else call.arguments[2] if call.method == "solve" else b""
            sent.append(Sent(silo, phase or call.method, broadcast, pending.result(60)))
            return pending

    monkeypatch.setattr(dask, "embedded_cluster", lambda files: nullcontext(None))
    monkeypatch.setattr(dask, "DaskTransport", lambda client: Tap(services))
    yield sent
    for service in services.values():
        service.close()


def whole_run(case, folder, monkeypatch):
    """Everything that the silos of a run send, and the algorithm."""
    services = {silo: SiloService(silo, path) for silo, path in silo_files(folder).items()}
    settings = LearnSettings(data=str(folder), algorithm=case.name, epsilon=composition.EPSILON, params=case.params)
    with tapped(monkeypatch, services) as sent, dask.connect_silos(settings, Orchestration()) as silos:
        job = dask.job_of(settings, "the run", silos)
        silos.begin(job)
        run(job, silos.session)
        silos.finish()
    return sent, registry.build(job.spec)


def describes_names_and_rows(answer, case):
    names = answer.profile.columns
    plain = Profile.of_names(list(names), answer.rows, ())
    return set(names) == set(case.schema.variables) and answer.rows == 400 and answer.profile == plain


def is_shares_and_an_escrow(sizes):
    """Check for one sealed pair of shares per other silo, one escrow of as many keys, and nothing else."""
    others = len(sizes) - 1
    return sorted(sizes) == sorted([2 * SHARE_BYTES + 16] * others + [32 * others + 16])


UNCHARGED = {
    "describe": describes_names_and_rows,
    "admit": lambda answer, case: answer is None,
    "seal": lambda answer, case: len(bytes.fromhex(answer)) == 32,
    "advertise": lambda answer, case: len(answer) == KEYS_BYTES,
    "share": lambda answer, case: is_shares_and_an_escrow([*map(len, wire.decode(dict, answer).values())]),
    "unmask": lambda answer, case: (
        {len(share) for one in vars(wire.decode(Revealed, answer)).values() for share in one.values()} == {SHARE_BYTES}
    ),
    "charges": lambda answer, case: all(not one.key and not one.binding for one in answer),
    "releases": lambda answer, case: all(one.smallest == 0 and one.private == bool(one.rho) for one in answer),
    "sign": lambda answer, case: len(bytes.fromhex(answer.policy + answer.statement)) == 64,
    "finish": lambda answer, case: answer is None,
}


def released_numbers(sent, algorithm):
    """The numbers of one charged answer."""
    if sent.call == "mask":
        return len(wire.decode(np.ndarray, sent.answer))
    reply = wire.decode(algorithm.reply_type, sent.answer)
    if not hasattr(reply, "gap"):
        return len(reply.values)
    assert {one.name for one in fields(reply)} == {"sizes", "B", "spread", "gap", "weight"}
    assert reply.weight == 1.0
    return len(reply.sizes) + len(reply.spread) + len(reply.B.values)


@pytest.mark.parametrize("case", composition.CASES, ids=lambda case: case.label.replace("`", ""))
def test_the_silos_of_a_run_send_what_is_in_the_tables_and_nothing_else(case, tmp_path, monkeypatch):
    sent, algorithm = whole_run(case, folder_of(case, tmp_path / "data"), monkeypatch)
    charged = "mask" if algorithm.needs_secure_sum else "solve"
    assert {one.call for one in sent} <= {*UNCHARGED, charged}
    for one in sent:
        assert one.call == charged or UNCHARGED[one.call](one.answer, case), one
    planned = composition.lines(case)
    once, each = [one for one in planned if one.rounds == 1], [one for one in planned if one.rounds > 1]
    for silo in case.schema.silos:
        charges = [one.answer for one in sent if one.silo == silo and one.call == "charges"][-1]
        answers = [one for one in sent if one.silo == silo and one.call == charged]
        numbers = [released_numbers(one, algorithm) for one in answers]
        assert len(answers) == len(charges)
        if case.schema.kind == "discrete":
            (line,) = planned
            queries = [wire.decode(Query, one.broadcast) for one in answers]
            assert [charge.what for charge in charges] == [f"{len(query.sets)} count tables" for query in queries]
            assert numbers == [int(offsets(query.sets, np.array([2, 2, 2]))[-1]) for query in queries]
            assert (charges[0].what, charges[0].rho, numbers[0]) == (line.what, line.rho, line.numbers)
            assert len(charges) <= line.rounds
            promise = case.algorithm.private.promise(case.schema)
            assert all(charge.rho <= promise.cost.rho / line.rounds for charge in charges)
            continue
        rounds = [(line.what, line.rho) for line in once]
        repeated = "; ".join(line.what for line in each)
        rounds += [(repeated, sum(line.rho for line in each))] * (each[0].rounds if each else 0)
        assert [charge.what for charge in charges] == [what for what, _ in rounds]
        assert [charge.rho for charge in charges] == pytest.approx([rho for _, rho in rounds], rel=1e-12)
        assert numbers[: len(once)] == [line.numbers for line in once]
        assert all(number <= sum(line.numbers for line in each) for number in numbers[len(once) :])


def test_the_table_of_what_is_charged_nothing_has_every_call_and_phase():
    calls = {*METHODS, *get_args(Phase)} - {"solve", "secure_answer", "mask"}
    listed = {one.call for one in composition.UNCHARGED}
    assert listed == calls | {"solve: weight", "solve: gap"}
    assert set(UNCHARGED) == calls


def test_the_page_has_the_table_of_the_code():
    page = composition.PAGE.read_text("utf-8")
    assert composition.with_table(page) == page


def test_every_private_learner_is_in_the_table():
    assert {case.name for case in composition.CASES} == set(composition.private_learners())


@pytest.mark.parametrize("case", composition.CASES, ids=lambda case: case.label.replace("`", ""))
def test_all_rounds_of_the_table_are_within_the_promise(case):
    promised = case.algorithm.private.promise(case.schema).cost.rho
    assert 0.6 * promised < sum(line.rho * line.rounds for line in composition.lines(case)) <= promised * (1 + 1e-9)


PAGES = sorted((ROOT / "docs/privacy").glob("*.md"))
PROOFS = [page for page in PAGES if "\n## Statement\n" in page.read_text("utf-8")]
ADDRESS = re.compile(r"`((?:\w+/)+\w+\.py::[\w:]+)`")


def rows_of_promises(text):
    """The rows, as lists of cells, of every table whose last column names tests."""
    found, within = [], False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            within = False
        elif cells[-1].strip(" |") == "test":
            within = True
        elif within and not set(line) <= set("|- "):
            found.append(cells)
    return found


def is_defined(address):
    """Whether the file of an address defines its function, maybe as a method."""
    path, *names = address.split("::")
    nodes = ast.walk(ast.parse((ROOT / path).read_text("utf-8"))) if (ROOT / path).is_file() else ()
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return bool(defined) and set(names) <= defined


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_promise_has_a_test_and_every_test_and_function_exists(page):
    text = page.read_text("utf-8")
    promises = rows_of_promises(text)
    assert promises
    assert [cells[0] for cells in promises if not ADDRESS.findall(cells[-1])] == []
    assert [one for cells in promises for one in ADDRESS.findall(cells[-1]) if not one.startswith("tests/")] == []
    assert [address for address in ADDRESS.findall(text) if not is_defined(address)] == []
    assert text.count("::") == "".join(ADDRESS.findall(text)).count("::")


def test_a_promise_without_a_test_and_a_test_that_is_gone_are_found():
    table = "| promise | test |\n| --- | --- |\n| one | `tests/test_rooms.py::test_gone` |\n| two |  |\n"
    promises = rows_of_promises(table)
    assert [cells[0] for cells in promises] == ["one", "two"]
    assert [bool(ADDRESS.findall(cells[-1])) for cells in promises] == [True, False]
    assert not is_defined("tests/test_rooms.py::test_gone")
    assert is_defined("tests/test_planted.py::test_each_is_something_else")


def test_the_modules_that_an_owner_must_read_have_the_lines_of_the_page():
    """Each number within a tenth, and the sum exactly."""
    text = (ROOT / "docs/privacy/what-an-owner-must-read.md").read_text("utf-8")
    listed = {path: int(lines) for path, lines in re.findall(r"^\| `(\S+\.py)` \| (\d+) \|", text, re.MULTILINE)}
    lines = {path: len((ROOT / path).read_text("utf-8").splitlines()) for path in listed}
    assert {path for path in listed if abs(listed[path] - lines[path]) > max(5, lines[path] / 10)} == set()
    *_, total = (int(one.replace(",", "")) for one in re.findall(r"([\d,]+) lines", text))
    assert total == sum(listed.values())
    assert {"tasks/silo/gate.py", "tasks/silo/messages.py", "algorithms/core/wire.py"} <= set(listed)


@pytest.mark.parametrize("page", PROOFS, ids=lambda page: page.stem)
def test_a_proof_has_its_sections(page):
    sections = re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE)
    if page.stem != "secure-sums":
        assert sections == ["Statement", "Adjacency", "Sensitivity", "Proof", "Functions", "Tests"]
    assert {"Statement", "Functions", "Tests"} <= set(sections)


def test_every_mechanism_has_a_proof():
    assert {page.stem for page in PROOFS} == {
        "bucket-counts", "count-tables", "gram-matrix", "lagged-windows", "mixed-pairs", "noise-shares",
        "secure-sums", "selection", "tight-accounting",
    }  # fmt: skip


def test_every_adversary_has_what_it_sees_and_does_and_what_is_not_promised():
    adversaries = re.split(r"^## ", (ROOT / "docs/privacy/threat-model.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    assert [one.splitlines()[0] for one in adversaries] == [
        "Curious coordinator", "Malicious coordinator", "One silo", "k colluding silos", "Reader of results",
        "Other account on the machine", "Network",
    ]  # fmt: skip
    for one in adversaries:
        assert [part for part in ("**Sees:**", "**Can do:**", "**Not promised:**") if part not in one] == []
        assert rows_of_promises(one)


def test_every_key_of_a_policy_is_among_the_checks():
    cells = [row[1] for row in rows_of_promises((ROOT / "docs/privacy/checks.md").read_text("utf-8"))]
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert {one.name for one in fields(Policy)} <= named


def test_the_entry_links_every_page():
    text = (ROOT / "docs/privacy.md").read_text("utf-8")
    assert [page.name for page in PAGES if f"(privacy/{page.name}" not in text] == []


def test_the_page_has_every_field_that_a_silo_describes():
    """A new field in a description is sent to the coordinator, so the owners' page must list it."""
    section = (ROOT / "docs/privacy.md").read_text("utf-8").partition("## Description before a run")[2]
    rows = re.findall(r"^\| (`.*?) \|", section.partition("\n## ")[0], re.MULTILINE)
    described = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(described) == sorted(one.name for kind in (Profile, ColumnProfile) for one in fields(kind))
