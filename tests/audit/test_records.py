"""What a coordinator cannot do to the records of a silo, and cannot learn from the secrets behind them."""

import json
import sqlite3
from dataclasses import replace
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import Sparse
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.resampling.bootstrap import Bootstrap
from fedbnsl.algorithms.score.arcs import Arcs, dag_of
from fedbnsl.algorithms.secure.masks import Refused
from fedbnsl.algorithms.statistics.rows import Query
from fedbnsl.data.folder.about import declarations
from fedbnsl.tasks.silo.messages import MethodCall, RowsChanged, answer, unpack_answer
from fedbnsl.tasks.silo.policy import NotAllowed
from fedbnsl.tasks.silo.publications import FewRowsChanged, forget_publications
from fedbnsl.tasks.silo.runs import MAX_NAME_LENGTH
from fedbnsl.tasks.silo.seals import Purpose, sealed
from fedbnsl.tasks.silo.secure_sums import SecureSumRequest
from fedbnsl.tasks.silo.service import SiloService

from . import coordinator
from .coordinator import ABOUT, ROWS, SCHEMA, SILOS, opened, sum_of, terms, write_federation, write_rows

LABELS = dict.fromkeys("uvw", ("no", "yes"))
LABELLED = Schema(("u", "v", "w"), dict.fromkeys(SILOS, ROWS), "discrete", LABELS)
ABOUT_LABELS = {"kind": "discrete", "levels": {name: [*levels] for name, levels in LABELS.items()}}
PAIRS = np.array([[0, 1]], np.int16)
UNCENTRED = {"center": False}


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def numbers(rng):
    return {silo: np.round(rng.normal(size=(ROWS, 3)), 4) for silo in SILOS}


@pytest.fixture
def words(rng):
    return {silo: np.array(["no", "yes"])[rng.integers(0, 2, (ROWS, 3))] for silo in SILOS}


def ask(service, method, *arguments):
    """Ask as another party does: bytes in, bytes out."""
    return unpack_answer(method, answer(service, MethodCall(method, arguments).pack()))


class TestSeals:
    """A coordinator chooses the context of a seal; no seal that it gets is one that a silo keeps for itself."""

    @given(st.text(max_size=20), st.binary(min_size=32, max_size=32))
    def test_each_purpose_has_its_own_seals(self, context, digest):
        seals = [sealed(bytes(32), context, purpose, digest) for purpose in get_args(Purpose)]
        assert len(set(seals)) == len(seals)
        for purpose in get_args(Purpose):
            for other in get_args(Purpose):
                assert sealed(bytes(32), f"{purpose}{context}", "coordinator", digest) != sealed(
                    bytes(32), context, other, digest
                )

    @pytest.mark.parametrize("context", [*get_args(Purpose), "resamples\0", "run x", "pin x"])
    def test_no_seal_is_the_seed_of_resamples(self, tmp_path, words, context):
        folder = write_federation(tmp_path, words, ABOUT_LABELS, LABELLED.variables)
        asked = terms("r", registry.specify("fed-pc").wrapped("bootstrap", Bootstrap(3)), "", LABELLED, ABOUT_LABELS)
        with opened(folder, ["a"]) as services:
            seed = services["a"]._secret_seed(asked)
            assert seed is not None
            if "\0" not in context:
                assert int(ask(services["a"], "seal", context), 16) != seed


def test_resamples_of_a_series_have_one_scheme(tmp_path, rng):
    """With other lags, the halves are others, and enough of them can be solved for the rows."""
    schema = Schema(("x", "y"), dict.fromkeys(SILOS, ROWS), "time-series", stretches=dict.fromkeys(SILOS, (ROWS,)))
    about = {"kind": "time-series", "stretches": {silo: [ROWS] for silo in SILOS}}
    folder = write_federation(tmp_path, {silo: rng.normal(size=(ROWS, 2)) for silo in SILOS}, about, ("x", "y"))
    with opened(folder, SILOS) as services:
        for lags in (1, 2):
            spec = registry.specify("secure-sum", {"lags": lags}).wrapped("bootstrap", Bootstrap(2, lags=lags))
            asked = terms(f"r{lags}", spec, "", schema, about)
            if lags == 1:
                sum_of(services, asked)
            else:
                with pytest.raises(NotAllowed, match="resampled the same rows with other lags"):
                    sum_of(services, asked)


class TestNames:
    @pytest.mark.parametrize("name", ["", "x" * (MAX_NAME_LENGTH + 1), "a\nb", "a\0b", "\x1b[31m"])
    @pytest.mark.parametrize("method", ["seal", "charges", "releases", "finish"])
    def test_a_run_has_a_short_printable_name(self, tmp_path, numbers, method, name):
        with opened(write_federation(tmp_path, numbers), ["a"]) as services, pytest.raises(NotAllowed) as refusal:
            ask(services["a"], method, name)
        assert "1 to 200 printable characters" in str(refusal.value)
        assert not (tmp_path / "a" / ".fedbnsl").exists()

    @pytest.mark.parametrize("name", ["", "x" * (MAX_NAME_LENGTH + 1), "a\nb"])
    def test_also_in_the_terms(self, tmp_path, numbers, name):
        sent = wire.encode(terms("run")).replace(wire.encode("run"), wire.encode(name))
        assert sent != wire.encode(terms("run"))
        with opened(write_federation(tmp_path, numbers), ["a"]) as services:
            call = wire.encode(("admit", (sent, wire.encode(True))))
            with pytest.raises(NotAllowed, match="not a call of this version"):
                unpack_answer("admit", answer(services["a"], call))


class TestUnmasking:
    """Only a sum that was masked last is unmasked, and it is recorded when it is."""

    @pytest.mark.parametrize("names", [("a", "zz"), ("a", "b", "c", "a"), ("a",), ()])
    def test_no_request_records_a_sum_that_never_was(self, tmp_path, numbers, names):
        folder = write_federation(tmp_path, numbers)
        with opened(folder, SILOS) as services, pytest.raises((Refused, NotAllowed)):
            ask(services["a"], "secure_answer", terms("r"), 1, SecureSumRequest("unmask", wire.encode(names)))
        with opened(folder, SILOS) as services:
            assert len(sum_of(services, terms("honest")).total)

    def test_a_silo_named_twice_counts_once(self, tmp_path, words, monkeypatch):
        """At level epsilon, an owner's minimum of four silos is not reached by three."""
        folder = write_federation(tmp_path, words, ABOUT_LABELS, LABELLED.variables)
        asked = terms("r", registry.specify("fed-pc", {}, 2.0), "", LABELLED, ABOUT_LABELS)

        class Twice(coordinator.Line):
            def ask(self, phase, messages):
                if phase == "unmask":
                    messages = dict.fromkeys(messages, wire.encode(("a", "b", "c", "a")))
                return super().ask(phase, messages)

        monkeypatch.setattr(coordinator, "Line", Twice)
        with opened(folder, SILOS, level="epsilon", epsilon=5.0, silos=4) as services:
            with pytest.raises((Refused, NotAllowed)):
                sum_of(services, asked, broadcast=Query("tables", np.array([[0, 1]], np.int16)), silent="d")
            assert not any(line.statistic == "counts" for line in services["a"].releases("r"))

    def test_a_sum_is_unmasked_before_the_next_is_masked(self, tmp_path, numbers, monkeypatch):
        """Otherwise the statement would list the first sum as keys and shares."""
        asked, later = terms("r", registry.specify("fed-pc")), Query("moments", exchange=1)

        class Interleaved(coordinator.Line):
            def ask(self, phase, messages):
                if phase == "unmask" and self.transport.number == 1:
                    sum_of(services, asked, 2, later)
                return super().ask(phase, messages)

        monkeypatch.setattr(coordinator, "Line", Interleaved)
        with opened(write_federation(tmp_path, numbers), SILOS) as services:
            with pytest.raises(Refused, match="has not just masked a summand of round 1"):
                sum_of(services, asked)
            moments = [line for line in services["a"].releases("r") if line.statistic == "moments"]
            assert [line.times for line in moments] == [1]

    def test_the_end_of_one_run_leaves_the_summands_of_others(self, tmp_path, numbers, monkeypatch):
        """Also if the name of one begins with that of the other; its own summand goes."""

        class Meanwhile(coordinator.Line):
            def ask(self, phase, messages):
                if phase == "unmask":
                    for silo in SILOS:
                        ask(services[silo], "finish", "a")
                return super().ask(phase, messages)

        monkeypatch.setattr(coordinator, "Line", Meanwhile)
        with opened(write_federation(tmp_path, numbers), SILOS) as services:
            assert len(sum_of(services, terms("ab")).total)
            with pytest.raises(Refused, match="has advertised no keys"):
                sum_of(services, terms("a"))
            assert services["a"]._summands == {}


class TestLevels:
    """At level sums a silo answers only about the levels that its owner has declared."""

    @pytest.mark.parametrize("about", [{"kind": "discrete"}, {"columns": {"u": "discrete", "v": "discrete"}}])
    def test_levels_are_the_owners(self, tmp_path, words, about):
        folder = write_federation(tmp_path, words, about, LABELLED.variables)
        two = Schema(("u", "v"), dict.fromkeys(SILOS, ROWS), "discrete", {"u": ("*", "yes"), "v": ("no", "yes")})
        with opened(folder, SILOS) as services:
            asked = terms("r", registry.specify("fed-pc"), "", two, about)
            with pytest.raises(NotAllowed, match="the levels of 'u' are not declared"):
                ask(services["a"], "admit", asked, True)


@pytest.mark.parametrize("what", ["tables", "corners", "configurations"])
@pytest.mark.parametrize("shape", [(0, 0), (1, 0), (7, 0), (3,)])
def test_a_table_over_no_variable_is_refused(tmp_path, words, what, shape):
    """Compiled code would count outside its arrays."""
    folder = write_federation(tmp_path, words, ABOUT_LABELS, LABELLED.variables)
    asked = terms("r", registry.specify("fed-pc"), "", LABELLED, ABOUT_LABELS)
    with opened(folder, SILOS) as services, pytest.raises(BadInput):
        sum_of(services, asked, broadcast=Query(what, np.zeros(shape, np.int16), np.zeros(3)))


def change_of_one_row(services, asked, first, change):
    """The sum `asked` again, after `first` and a `change` of one row; None if a silo refuses it."""
    sum_of(services, asked(first))
    change()
    for silo in SILOS:
        ask(services[silo], "describe", declarations(ABOUT))
    try:
        return sum_of(services, asked("later"))
    except (FewRowsChanged, RowsChanged):
        return None


class TestChangedRows:
    """A change of one row is seen, wherever the rows are and whatever the coordinator calls its runs."""

    def in_database(self, folder, table):
        database = folder / "a" / "rows.db"
        with sqlite3.connect(database) as connection:
            connection.execute("create table p(id integer primary key, x real, y real, z real)")
            connection.executemany("insert into p(x, y, z) values (?, ?, ?)", table.tolist())
        (folder / "a" / "rows.csv").unlink()
        (folder / "a" / "rows.sql").write_text(f"-- sqlite:///{database}\nSELECT x, y, z FROM p ORDER BY id\n")
        self.point(folder, "rows.sql")
        return database

    def point(self, folder, name):
        file = folder / "a" / "silo.toml"
        file.write_text(file.read_text().replace("rows.csv", name))

    @pytest.mark.parametrize("pinned", [("p", "p"), ("p", "q"), ("", "")])
    def test_of_a_query(self, tmp_path, numbers, pinned):
        folder = write_federation(tmp_path, numbers)
        database = self.in_database(folder, numbers["a"])
        schema, spec = replace(SCHEMA, streamed=("a",)), registry.specify("secure-sum", UNCENTRED)
        runs = dict(zip(("first", "later"), pinned, strict=True))

        def change():
            with sqlite3.connect(database) as connection:
                connection.execute("update p set x = x + 5 where id = 18")

        with opened(folder, SILOS) as services:
            asked = {run: terms(run, spec, step_of, schema) for run, step_of in runs.items()}
            for silo in SILOS:
                ask(services[silo], "admit", asked["later"], True)  # the coordinator pins the rows before they change
            assert change_of_one_row(services, asked.__getitem__, "first", change) is None

    def test_of_a_hidden_part(self, tmp_path, numbers):
        """A file that is no part for the fingerprint is no part for the reader."""
        folder = write_federation(tmp_path, numbers)
        parts = folder / "a" / "rows"
        parts.mkdir()
        (folder / "a" / "rows.csv").unlink()
        self.point(folder, "rows")
        for name in ("p1.parquet", "_p2.parquet", ".p3.parquet"):
            parquet.write_table(pa.table(dict(zip("xyz", numbers["a"].T, strict=True))), parts / name)
        with opened(folder, ["a"]) as services:
            assert ask(services["a"], "describe", declarations(ABOUT)).rows == ROWS

    def test_while_they_are_read(self, tmp_path, numbers, monkeypatch):
        """Rows in passes are read after they were compared with earlier versions."""
        folder = write_federation(tmp_path, numbers)
        monkeypatch.setattr("fedbnsl.data.folder.batches.IN_MEMORY_BYTES", 1)
        schema, spec = replace(SCHEMA, streamed=SILOS), registry.specify("secure-sum", UNCENTRED)
        with opened(folder, SILOS) as services:
            sum_of(services, terms("first", spec, "", schema))
            later = numbers["a"].copy()
            later[17, 0] += 5
            compare = SiloService._check_changes

            def compare_and_change(service, *given, **options):
                compare(service, *given, **options)
                if service.name == "a":
                    write_rows(folder, "a", later)

            monkeypatch.setattr(SiloService, "_check_changes", compare_and_change)
            with pytest.raises(RowsChanged):
                sum_of(services, terms("later", spec, "", schema))

    @pytest.mark.parametrize("change", ["order", "stretches"])
    def test_of_the_arrangement_of_a_series(self, tmp_path, rng, change):
        tables = {silo: np.round(rng.normal(size=(ROWS, 2)), 3) for silo in SILOS}
        stretches = dict.fromkeys(SILOS, (ROWS,))
        about = {"kind": "time-series", "stretches": {silo: [ROWS] for silo in SILOS}}
        schema = Schema(("x", "y"), dict.fromkeys(SILOS, ROWS), "time-series", stretches=stretches)
        folder = write_federation(tmp_path, tables, about, ("x", "y"))
        spec = registry.specify("secure-sum", {"lags": 1, "center": False, "center_series": False})
        with opened(folder, SILOS) as services:
            sum_of(services, terms("first", spec, "", schema, about))
        if change == "order":
            swapped = tables["a"].copy()
            swapped[[60, 61]] = swapped[[61, 60]]
            write_rows(folder, "a", swapped, ("x", "y"))
        else:
            about["stretches"]["a"] = [60, 60]
            schema = replace(schema, stretches=stretches | {"a": (60, 60)})
            for silo in SILOS:
                (folder / silo / "about.json").write_text(json.dumps(about))
        with opened(folder, SILOS) as services, pytest.raises(FewRowsChanged):
            sum_of(services, terms("later", spec, "", schema, about))

    def test_after_the_owner_has_deleted_the_record(self, tmp_path, numbers):
        """What is published after that is recorded again, though the silo runs on."""
        folder = write_federation(tmp_path, numbers)
        spec, changed = registry.specify("secure-sum", UNCENTRED), numbers["a"].copy()
        changed[17, 0] += 5
        with opened(folder, SILOS) as services:
            sum_of(services, terms("first", spec))
            for silo in SILOS:
                forget_publications(folder / silo / "rows.csv")
            sum_of(services, terms("second", spec))
            write_rows(folder, "a", changed)
            ask(services["a"], "describe", declarations(ABOUT))
            with pytest.raises(FewRowsChanged):
                sum_of(services, terms("third", spec))


class TestOneBitEach:
    """No cell of a silo decides whether it masks: a coordinator could ask for one bit of it in each run."""

    def test_which_entries_are_sent(self, tmp_path, words):
        """The silo leaves out entries that are not 0 without a word."""
        folder = write_federation(tmp_path, words, ABOUT_LABELS, LABELLED.variables)
        asked, query = terms("r", registry.specify("fed-pc"), "", LABELLED, ABOUT_LABELS), Query("tables", PAIRS)
        with opened(folder, SILOS) as services:
            whole = sum_of(services, terms("whole", registry.specify("fed-pc"), "", LABELLED, ABOUT_LABELS), 1, query)
            part = sum_of(services, asked, 1, query, sparse=Sparse(np.array([1, 3]), 4))
            np.testing.assert_array_equal(part.total, np.where([0, 1, 0, 1], whole.total, 0))

    @pytest.mark.parametrize("rows", [0, -ROWS, -1])
    def test_how_many_rows_others_have(self, tmp_path, words, rows):
        folder = write_federation(tmp_path, words, ABOUT_LABELS, LABELLED.variables)
        lie = replace(LABELLED, rows=LABELLED.rows | {"d": rows})
        with opened(folder, SILOS) as services, pytest.raises(NotAllowed, match="names a silo without rows"):
            ask(services["a"], "admit", terms("r", registry.specify("fed-pc"), "", lie, ABOUT_LABELS), True)

    @pytest.mark.parametrize("units", [(1.0, 2.0), (1.0, 1.0, 1.0, 4.0)])
    def test_units_without_a_column(self, tmp_path, numbers, units):
        folder = write_federation(tmp_path, numbers)
        lie = replace(SCHEMA, units=units)
        with opened(folder, SILOS) as services, pytest.raises(NotAllowed, match="one for each column"):
            ask(services["a"], "admit", terms("r", None, "", lie), True)

    @pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan"), float("inf")])
    def test_how_many_rows_count(self, tmp_path, numbers, share):
        """A share of rows that count as independent scales all sums: it is between 0 and 1."""
        folder, lie = write_federation(tmp_path, numbers), replace(SCHEMA, independent_share=share)
        with opened(folder, SILOS) as services, pytest.raises(NotAllowed, match="share of independent rows is not"):
            ask(services["a"], "admit", terms("r", None, "", lie), True)


def test_two_processes_of_a_silo_unmask_one_sum(tmp_path, numbers, monkeypatch):
    """Both have checked before either has recorded: what was recorded counts."""
    folder = write_federation(tmp_path, numbers)
    with opened(folder, SILOS) as first, opened(folder, SILOS) as second:

        class Meanwhile(coordinator.Line):
            def ask(self, phase, messages):
                if phase == "unmask" and self.silent is None:
                    monkeypatch.undo()
                    sum_of(second, terms("other"), silent="d")
                return super().ask(phase, messages)

        monkeypatch.setattr(coordinator, "Line", Meanwhile)
        with pytest.raises(NotAllowed, match="other silos than before"):
            sum_of(first, terms("r"))


@pytest.mark.parametrize("arcs", [[[0, 0]], [[0, 1], [1, 0]], [[0, 1], [1, 2], [2, 0]], [[0, 3]], [[0]], [0, 1]])
def test_a_message_of_arcs_is_a_dag(arcs):
    with pytest.raises(BadInput, match="arcs"):
        dag_of(Arcs(np.array(arcs, np.uint16)), 3)
