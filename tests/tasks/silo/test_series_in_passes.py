"""Silos whose series are read in passes: what a lying coordinator is told, and what it is charged for."""

import re
import stat
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.adjustment import Adjustment
from fedbnsl.algorithms.core.schema import ImputationModel, Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import Budget, Overspent
from fedbnsl.algorithms.secure import masked_round
from fedbnsl.algorithms.secure.masks import Refused
from fedbnsl.data.folder import batches, private_table
from fedbnsl.data.folder import table as silo_table
from fedbnsl.data.folder.about import NO_DECLARATION, Declared, Reading, declarations
from fedbnsl.tasks.silo.guard import Guard
from fedbnsl.tasks.silo.journal import Journal
from fedbnsl.tasks.silo.messages import SiloFailed
from fedbnsl.tasks.silo.policy import NotAllowed, Policy
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.secure_sums import SecureSumRequest
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.federation import Patience, Roster, SecureTransport
from fedbnsl.tasks.transport.in_process import InProcessTransport

SILOS, ROWS, SECRET = ("a", "b", "c", "d"), 300, "word77"
STRETCHES = dict.fromkeys(SILOS, (200, 100))
SCHEMA = Schema(("x", "y"), dict.fromkeys(SILOS, ROWS), "time-series", stretches=STRETCHES, streamed=SILOS)
ABOUT = {"kind": "time-series", "stretches": {silo: list(lengths) for silo, lengths in STRETCHES.items()}}


@pytest.fixture(autouse=True)
def in_passes(monkeypatch):
    """Nothing fits into memory, and chunks have a few rows."""
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(silo_table, "CHUNK_CELLS", 2 * 7)
    monkeypatch.setattr(silo_table, "MIN_CHUNK_ROWS", 7)
    monkeypatch.setattr(private_table, "LINES", 7)


def written(path, **cells):
    """Two series with a gap; some cells, by column, of the last row are others."""
    rng = np.random.default_rng(sum(map(ord, path.stem)))
    table = rng.normal(size=(ROWS, 2))
    table[1:, 1] += 0.6 * table[:-1, 0]
    times = np.arange(ROWS) + 5 * (np.arange(ROWS) >= 200)
    lines = [[str(time), *(f"{cell:.4f}" for cell in row)] for time, row in zip(times, table, strict=True)]
    for name, cell in cells.items():
        lines[-1][["time", "x", "y"].index(name)] = cell
    path.write_text("time,x,y\n" + "".join(",".join(line) + "\n" for line in lines))
    return path


class Owners:
    """The owners of three silos on machines of their own: each has one service at a time."""

    def __init__(self, folder):
        self.folder, self.said = folder, []
        self.services = {silo: self.service(written(folder / f"{silo}.csv")) for silo in SILOS}

    def service(self, path, **guard):
        return SiloService(path.stem, path, guard=Guard(remote=True, log=self.said.append, **guard))

    def restart(self, **guard):
        for silo, service in self.services.items():
            service.close()
            self.services[silo] = self.service(self.folder / f"{silo}.csv", **guard)


@pytest.fixture
def owners(tmp_path):
    found = Owners(tmp_path)
    yield found
    for service in found.services.values():
        service.close()


def terms(algorithm, params=None, run="run", schema=SCHEMA, declared=None):
    declared = Declared(kind="time-series") if declared is None else declared
    return RunTerms(run, registry.pack(registry.specify(algorithm, params)), schema, 0, declared=declared)


def private(**changed):
    return terms("dp-covariance", {"epsilon": 30.0, "lags": 1}, declared=declarations(ABOUT), **changed)


def broadcast_of(asked, **changes):
    algorithm = asked.algorithm()
    server = replace(algorithm.open_server(SCHEMA), **changes)
    return wire.encode(algorithm.broadcast(server))


def told(error):
    """What a coordinator is sent, which has neither path, nor cell, nor number of rows."""
    text = str(error.value)
    assert not re.search(rf"{SECRET}|\.csv|column|row \d|\b30[01]\b|\b299\b", text), text
    assert "\n" not in text
    return text


class TestFaultsOfRows:
    """Rows that are read in passes are read during a round, after their description."""

    LIES: ClassVar = {
        "a word": ({"y": SECRET}, SCHEMA, f"a.csv: line 301, column 'y': '{SECRET}' is not a number"),
        "fewer rows": (
            {},
            replace(SCHEMA, rows=dict.fromkeys(SILOS, 301), stretches=dict.fromkeys(SILOS, (200, 101))),
            "300 rows",
        ),
        "other columns": ({}, replace(SCHEMA, variables=("x", "z")), "z"),
    }

    @pytest.mark.parametrize("lie", LIES)
    def test_stay_with_the_owner(self, owners, lie):
        """The coordinator asks for no description: its schema is invented."""
        cells, schema, reason = self.LIES[lie]
        written(owners.folder / "a.csv", **cells)
        asked = terms("fdbnl", schema=schema)
        with pytest.raises(BadInput) as error:
            owners.services["a"].solve(asked, 1, broadcast_of(terms("fdbnl")))
        assert told(error) == "silo a: its rows cannot be used; its owner sees why in the log"
        (line,) = owners.said
        assert re.search(reason, line)

    def test_of_tables_in_passes_stay_with_the_owner_too(self, owners):
        """With levels of its own choice, a coordinator could have the first label named that is none of them."""
        path = owners.folder / "a.csv"
        path.write_text("u,v\n" + f"p,q\n{SECRET},q\n" * 150)
        schema = Schema(
            ("u", "v"),
            dict.fromkeys(SILOS, ROWS),
            "discrete",
            levels={"u": ("p", "o"), "v": ("q", "o")},
            streamed=SILOS,
        )
        asked = terms("fed-pc", schema=schema, declared=NO_DECLARATION)
        algorithm = asked.algorithm()
        with pytest.raises(BadInput) as error:
            owners.services["a"].solve(asked, 1, wire.encode(algorithm.broadcast(algorithm.open_server(schema))))
        assert told(error) == "silo a: its rows cannot be used; its owner sees why in the log"
        (line,) = owners.said
        assert SECRET in line

    def test_of_a_masked_summand_stay_with_the_owner(self, owners):
        asked = terms("secure-linear", {"lags": 1})
        written(owners.folder / "b.csv", y=SECRET)
        with pytest.raises((BadInput, SiloFailed)) as error:
            exchange(owners, asked)
        assert "its owner sees why in the log" in told(error)
        (line,) = owners.said
        assert SECRET in line
        assert not list(owners.folder.rglob("*.ledger"))

    def test_rows_that_change_between_rounds_end_the_run(self, owners):
        asked = terms("fdbnl")
        service = owners.services["a"]
        service.solve(asked, 1, broadcast_of(asked))
        written(owners.folder / "a.csv", y="7.5")
        with pytest.raises(BadInput, match="its rows have changed since the run began") as error:
            service.solve(asked, 2, broadcast_of(asked))
        told(error)

    @pytest.mark.parametrize("asked", [terms("fdbnl"), private()], ids=["plain", "private"])
    def test_a_file_that_is_gone_between_rounds_is_not_named(self, owners, asked):
        service = owners.services["a"]
        service.solve(asked, 1, broadcast_of(asked))
        charged = service.charges(None)
        (owners.folder / "a.csv").unlink()
        with pytest.raises(BadInput) as error:
            service.solve(asked, 2, broadcast_of(asked))
        assert told(error) == "silo a: its rows cannot be used; its owner sees why in the log"
        assert service.charges(None) == charged


class TestPrivateRuns:
    def test_a_round_is_charged_once_and_repeats_its_noise(self, owners):
        asked = private()
        first = owners.services["a"].solve(asked, 1, broadcast_of(asked))
        owners.restart()
        assert owners.services["a"].solve(asked, 1, broadcast_of(asked)) == first
        assert len(owners.services["a"].charges("run")) == 1

    def test_a_crash_after_the_charge_repeats_the_noise(self, owners, monkeypatch):
        asked, service = private(), owners.services["a"]
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "commit", lambda *given, **more: 1 / 0)
            with pytest.raises(SiloFailed):
                service.solve(asked, 1, broadcast_of(asked))
        (charge,) = owners.services["a"].charges("run")
        owners.restart()
        first = owners.services["a"].solve(asked, 1, broadcast_of(asked))
        owners.restart()
        assert owners.services["a"].solve(asked, 1, broadcast_of(asked)) == first
        assert owners.services["a"].charges("run") == (charge,)

    OTHER: ClassVar = {
        "in memory": {"streamed": ()},
        "other stretches": {"stretches": dict.fromkeys(SILOS, (100, 200))},
        "other silos": {"rows": {"a": ROWS}, "stretches": {"a": (200, 100)}, "streamed": ("a",)},
        "another broadcast": {},
    }

    @pytest.mark.parametrize("other", OTHER)
    def test_a_charged_round_answers_no_other_question(self, owners, other):
        asked, service = private(), owners.services["a"]
        service.solve(asked, 1, broadcast_of(asked))
        changed = replace(SCHEMA, **self.OTHER[other])
        message = broadcast_of(asked, scales=np.ones(4)) if other == "another broadcast" else broadcast_of(asked)
        for _ in range(2):
            with pytest.raises(BadInput) as error:
                owners.services["a"].solve(private(schema=changed), 1, message)
            assert re.search("another broadcast|under other terms|its rows cannot be used; its owner sees", told(error))
            assert len(owners.services["a"].charges(None)) == 1
            owners.restart()

    def test_the_owners_budget_holds_over_runs(self, owners):
        owners.restart(policy=Policy(epsilon=31.0, total_epsilon=35.0), declared=declarations(ABOUT))
        service = owners.services["a"]
        for number in (1, 2):
            asked = private()
            service.solve(asked, number, broadcast_of(asked, **({"scales": np.ones(4)} if number == 2 else {})))
        again = replace(private(run="again"), budget=Budget(100.0))
        with pytest.raises(Overspent, match="above the budget of 35") as error:
            service.solve(again, 1, broadcast_of(again))
        told(error)
        assert not service.charges("again")

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"adjustment": Adjustment(detrend=True)}, "adjusts series"),
            ({"adjustment": Adjustment(difference=True)}, "adjusts series"),
            ({"empty": {"a": (1, 0)}}, "models empty cells"),
            ({"imputation_model": ImputationModel(screens=(np.eye(2),))}, "models empty cells"),
        ],
    )
    @pytest.mark.parametrize("streamed", [SILOS, ()])
    def test_what_epsilon_does_not_account_for_is_refused(self, owners, changed, said, streamed):
        """Only the coordinator's own check stood against it: a trend that is subtracted depends on every row."""
        asked = private(schema=replace(SCHEMA, streamed=streamed, **changed))
        for guarded in (Guard(remote=True, log=owners.said.append), Guard()):
            service = SiloService("a", owners.folder / "a.csv", guard=guarded)
            with pytest.raises(NotAllowed, match=said) as error:
                service.solve(asked, 1, broadcast_of(private()))
            told(error)
            assert not service.charges(None)
            service.close()

    @pytest.mark.parametrize("cell", ["x", "y", "time"])
    def test_no_cell_decides_whether_a_round_succeeds(self, owners, cell):
        """A cell of the last chunk that is no number counts as 0, in descriptions and replies."""
        asked = terms("dp-covariance", {"epsilon": 30.0, "lags": 1, "insecure_seed": 1}, declared=declarations(ABOUT))
        found = []
        for run, content in enumerate(("0", SECRET)):
            service = owners.service(written(owners.folder / "a.csv", **{cell: content}))
            described = repr(service.describe(replace(asked.declared, reading=Reading(private=True))))
            now = replace(asked, run_id=f"run {run}")
            rounds = [{}, {"scales": np.ones(4)}]
            replies = [service.solve(now, k, broadcast_of(now, **changes)) for k, changes in enumerate(rounds, 1)]
            found.append((described, replies))
            service.close()
        assert found[0] == found[1]
        assert not owners.said

    def test_another_number_of_rows_is_not_told(self, owners):
        asked = private(schema=replace(SCHEMA, rows=SCHEMA.rows | {"a": 301}, stretches=STRETCHES | {"a": (200, 101)}))
        with pytest.raises(BadInput) as error:
            owners.services["a"].solve(asked, 1, broadcast_of(private()))
        assert told(error).endswith("its rows cannot be used; its owner sees why in the log")

    def test_no_other_account_can_read_what_is_kept(self, owners):
        asked = private()
        owners.services["a"].solve(asked, 1, broadcast_of(asked))
        folder = owners.folder / ".fedbnsl"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        kept = list(folder.iterdir())
        assert kept
        assert {stat.S_IMODE(one.stat().st_mode) for one in kept} == {0o600}
        assert {one.name for one in owners.folder.iterdir()} == {".fedbnsl", *(f"{silo}.csv" for silo in SILOS)}


class Line:
    """A secure transport; `silent` says which silo does not get the question of a phase."""

    def __init__(self, transport, silent):
        self.transport, self.silent = transport, silent

    def ask(self, phase, messages):
        return self.transport.ask(phase, {silo: one for silo, one in messages.items() if (phase, silo) != self.silent})


def exchange(owners, asked, silent=None):
    """The replies of round 1 behind masks."""
    algorithm = asked.algorithm()
    broadcast = algorithm.broadcast(algorithm.open_server(asked.schema))
    roster = Roster(InProcessTransport(owners.services), asked.schema.silos, Patience(absent=60.0))
    transport = SecureTransport(roster, asked, 1, wire.encode(broadcast), None, tolerates_dropout=False)
    digest = asked.exchange_digest(wire.encode(broadcast), None)
    session = masked_round.session_of(asked.run_id, 1, masked_round.new_attempt(), asked.schema, digest)
    encoding = masked_round.encoding_of(algorithm, asked.schema, broadcast)
    return masked_round.masked_round(algorithm, session, Line(transport, silent), broadcast, 0, encoding)[0]


class TestMaskedRuns:
    def test_no_single_reply_is_to_be_had(self, owners):
        for asked in (terms("secure-linear", {"lags": 1}), terms("secure-sum", {"epsilon": 3.0, "lags": 1})):
            with pytest.raises(NotAllowed, match="needs a secure sum") as error:
                owners.services["a"].solve(asked, 1, b"")
            told(error)
        assert not owners.services["a"].charges(None)

    def test_the_sum_is_that_of_all_windows(self, owners):
        asked = terms("secure-linear", {"lags": 1})
        assert exchange(owners, asked).silos == SILOS

    def test_another_sum_of_the_round_is_refused(self, owners):
        asked = terms("secure-linear", {"lags": 1})
        assert exchange(owners, asked, ("mask", "d")).silos == ("a", "b", "c")
        owners.restart()
        with pytest.raises(Refused, match="has helped to unmask another sum of round 1") as error:
            exchange(owners, asked)
        told(error)

    def test_a_silo_adds_to_the_sum_of_no_other_exchange(self, owners):
        """One silo is sent the series in differences: the coordinator would have a sum of two models."""
        asked = terms("secure-linear", {"lags": 1})
        digest = asked.exchange_digest(broadcast_of(asked), None)
        session = masked_round.session_of("run", 1, masked_round.new_attempt(), SCHEMA, digest)
        other = replace(asked, schema=replace(SCHEMA, adjustment=Adjustment(detrend=True)))
        request = SecureSumRequest("advertise", wire.encode(session))
        keys = {
            silo: owners.services[silo].secure_answer(other if silo == "b" else asked, 1, request) for silo in SILOS
        }
        shares = {
            silo: owners.services[silo].secure_answer(
                other if silo == "b" else asked, 1, SecureSumRequest("share", wire.encode(keys))
            )
            for silo in SILOS
        }
        sent = {silo: wire.decode(dict[str, bytes], shares[silo])["b"] for silo in SILOS if silo != "b"}
        request = SecureSumRequest("mask", wire.encode(sent), broadcast_of(asked))
        with pytest.raises(Refused) as error:
            owners.services["b"].secure_answer(other, 1, request)
        assert told(error).endswith("its settings, schema or broadcast are not those of this secure sum")
