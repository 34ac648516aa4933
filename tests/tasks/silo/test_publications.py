"""Two publications without an ε differ in no row or in many rows: attacks between them on a silo's service."""

import json
import math
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.resampling.bootstrap import Bootstrap, SamplingScheme, resample
from fedbnsl.data.folder.about import READ_ALL, Reading, declarations
from fedbnsl.data.folder.folder import read_folder, silo_files
from fedbnsl.flows.cli.main import main
from fedbnsl.tasks.silo import publications
from fedbnsl.tasks.silo.gate import WHOLE, Gate
from fedbnsl.tasks.silo.guard import LOCAL, Guard
from fedbnsl.tasks.silo.journal import Journal, journal_path
from fedbnsl.tasks.silo.policy import NotAllowed, Policy, policy_of
from fedbnsl.tasks.silo.private_folder import BadRecord
from fedbnsl.tasks.silo.publications import FewRowsChanged, changed_rows, discloses_rows, published_path, row_version
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.silo.source import FileSource

LOGS = []
REMOTE = Guard(remote=True, log=LOGS.append)
FEW = "silo clinic: fewer than 10 rows changed since an earlier publication"


@pytest.fixture
def frame():
    """A table of 60 rows: two numbers, and a column that is text."""
    rng = np.random.default_rng(3)
    return pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60), "c": rng.normal(size=60)})


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "study"
    made.mkdir()
    return made


class Owner:
    """One silo on its files: `publish` writes the rows as they are now and answers round 1 of a new run."""

    def __init__(self, folder, guard=REMOTE):
        self.folder, self.guard, self.runs = folder, guard, 0

    def publish(self, frame, reading=READ_ALL, about=None, write=True, **terms):
        """The reply; raises the silo's error at the admission and, if that is ignored, at the solve."""
        if write:
            self.write(frame)
        asked = self.terms(reading, about, **terms)
        (path,) = silo_files(self.folder).values()
        guard = replace(self.guard, declared=declarations(about)) if about else self.guard
        with closing(SiloService("clinic", path, guard=guard)) as service:
            service.describe(asked.declared)
            try:
                service.admit(asked, False)
            except NotAllowed as refusal:
                with pytest.raises(type(refusal)):
                    self.first_reply(service, asked)
                raise
            reply = self.first_reply(service, asked)
            service.finish(asked.run_id)
            return reply

    @staticmethod
    def first_reply(service, asked):
        broadcast = asked.algorithm().broadcast(asked.algorithm().open_server(asked.schema))
        return service.solve(asked, 1, wire.encode(broadcast))

    def write(self, frame):
        frame.to_csv(self.folder / "clinic.csv", index=False)

    def terms(self, reading=READ_ALL, about=None, spec=None, seed=0, changed_rows=0):
        data, self.runs = read_folder(self.folder, reading), self.runs + 1
        packed = registry.pack(spec or registry.specify("fed-sparse"))
        declared = declarations(about or {}, reading)
        return RunTerms(f"run {self.runs}", packed, data.schema, seed, declared=declared, changed_rows=changed_rows)


@pytest.fixture
def owner(folder):
    return Owner(folder)


def added(frame, count, seed=9):
    """`frame` with `count` additional rows."""
    more = pd.DataFrame(np.random.default_rng(seed).normal(size=(count, frame.shape[1])), columns=frame.columns)
    return pd.concat([frame, more], ignore_index=True)


def replaced(frame, count):
    """`frame` with `count` rows replaced by others."""
    return added(frame[count:], count)


FEW_CHANGES = {
    "one row added": lambda frame: added(frame, 1),
    "one row removed": lambda frame: frame[:-1],
    "one row replaced": lambda frame: replaced(frame, 1),
    "one cell": lambda frame: frame.assign(a=[frame.a[0] + 1, *frame.a[1:]]),
    "nine rows added": lambda frame: added(frame, 9),
    "nine rows replaced, so 18 in the difference": lambda frame: replaced(frame, 9),
    "a row twice": lambda frame: pd.concat([frame, frame[:1]]),
    "one row added, and all others shuffled": lambda frame: added(frame, 1).sample(frac=1.0, random_state=1),
    "a column and one row added": lambda frame: added(frame, 1).assign(d=np.arange(61) + 0.5),
    "rows numbered anew, one removed": lambda frame: frame[1:].assign(z=np.arange(59) + 0.25),
}
NO_OR_MANY = {
    "no change": lambda frame: frame,
    "the order of the rows": lambda frame: frame.sample(frac=1.0, random_state=1),
    "the order of the columns": lambda frame: frame[["c", "a", "b"]],
    "ten rows added": lambda frame: added(frame, 10),
    "ten rows removed": lambda frame: frame[10:],
    "ten rows replaced": lambda frame: replaced(frame, 10),
    "a column and ten rows added": lambda frame: added(frame, 10).assign(d=np.arange(70) + 0.5),
    "other columns altogether": lambda frame: added(frame, 1).rename(columns=str.upper),
}


class TestRows:
    @pytest.mark.parametrize("change", FEW_CHANGES.values(), ids=FEW_CHANGES)
    def test_few_changes_are_refused(self, owner, frame, change):
        owner.publish(frame)
        with pytest.raises(FewRowsChanged, match=FEW) as refusal:
            owner.publish(change(frame))
        assert "wait until 10 rows have changed, or use --epsilon" in str(refusal.value)
        assert "\n" not in str(refusal.value)
        owner.publish(frame)

    @pytest.mark.parametrize("change", NO_OR_MANY.values(), ids=NO_OR_MANY)
    def test_no_change_and_enough_are_published(self, owner, frame, change):
        owner.publish(frame)
        owner.publish(change(frame))

    def test_the_refusal_does_not_depend_on_how_many_rows_changed(self, owner, frame):
        owner.publish(frame)
        said = set()
        for count in (1, 4, 9):
            with pytest.raises(FewRowsChanged) as refusal:
                owner.publish(added(frame, count))
            said.add(str(refusal.value))
        assert len(said) == 1

    def test_every_earlier_publication_counts(self, owner, frame):
        """A, then A and 20 rows, then A and one row: the last differs in 19 from the second, in one from the first."""
        owner.publish(frame)
        owner.publish(added(frame, 20))
        with pytest.raises(FewRowsChanged):
            owner.publish(added(frame, 1))
        with pytest.raises(FewRowsChanged):
            owner.publish(added(frame, 21))
        owner.publish(added(frame, 10))

    def test_a_refused_run_is_no_publication(self, owner, frame):
        owner.publish(frame)
        with pytest.raises(FewRowsChanged):
            owner.publish(added(frame, 5))
        owner.publish(added(frame, 14))

    def test_an_admission_alone_is_no_publication(self, owner, frame):
        """Another silo may refuse the run, and then nothing is published."""
        owner.publish(frame)
        owner.write(added(frame, 15))
        with closing(SiloService("clinic", owner.folder / "clinic.csv", guard=REMOTE)) as service:
            service.admit(owner.terms(), False)
        owner.publish(added(frame, 10))

    def test_a_service_that_stays_up_notices_changes(self, owner, frame):
        owner.write(frame)
        with closing(SiloService("clinic", owner.folder / "clinic.csv", guard=REMOTE)) as service:
            for count, allowed in ((0, True), (1, False), (10, True), (12, False), (0, True)):
                owner.write(added(frame, count))
                asked = owner.terms()
                service.describe(asked.declared)
                if allowed:
                    owner.first_reply(service, asked)
                else:
                    with pytest.raises(FewRowsChanged):
                        owner.first_reply(service, asked)

    def test_no_number_of_other_requests_makes_it_forget(self, owner, frame):
        """Runs over all sets of columns, and on many nights, come in between."""
        owner.publish(frame)
        for size in (1, 2):
            for columns in combinations("abc", size):
                owner.publish(frame, Reading(only=columns))
        for night in range(1, 25):
            owner.publish(added(frame, 20 * night))
        owner.publish(frame)
        for few in (1, 9, 41):
            with pytest.raises(FewRowsChanged):
                owner.publish(added(frame, few))

    @pytest.mark.parametrize(("limit", "most"), [("MAX_VERSIONS", 2), ("MAX_RECORD_BYTES", 60_000)])
    def test_a_full_record_is_no_permission(self, owner, frame, monkeypatch, limit, most):
        monkeypatch.setattr(publications, limit, most)
        owner.publish(frame)
        owner.publish(added(frame, 20))
        with pytest.raises(FewRowsChanged, match="its record of publications is full"):
            owner.publish(added(frame, 60))
        owner.publish(frame)

    @pytest.mark.parametrize("limit", [60.0, math.inf])
    def test_an_epsilon_is_exempt_if_the_owner_limits_it(self, folder, frame, limit):
        """Without a limit, a coordinator could ask for as good as no noise."""
        about = {"kind": "continuous"}
        (folder / "about.json").write_text('{"kind": "continuous"}')
        owner = Owner(folder, Guard(Policy(epsilon=limit), declarations(about), remote=True))
        spec, private = registry.specify("dp-covariance", epsilon=50.0), Reading(private=True)
        owner.publish(frame, private, about, spec=spec)
        if math.isinf(limit):
            with pytest.raises(FewRowsChanged):
                owner.publish(added(frame, 1), private, about, spec=spec)
        else:
            owner.publish(added(frame, 1), private, about, spec=spec)
            assert not published_path(owner.folder / "clinic.csv", "clinic").exists()

    def test_a_step_of_the_run_and_a_repeated_request_are_no_publications(self, owner, frame):
        owner.publish(frame)
        before = published_path(owner.folder / "clinic.csv", "clinic").read_bytes()
        owner.publish(frame)
        assert published_path(owner.folder / "clinic.csv", "clinic").read_bytes() == before


class TestWhatEnters:
    def test_columns_that_are_left_out_do_not_change_the_rows(self, owner, frame):
        owner.publish(frame)
        owner.publish(frame, Reading(ignore=("c",)))
        owner.publish(frame, Reading(only=("b", "c")))

    def test_a_row_cannot_be_removed_behind_other_columns(self, owner, frame):
        owner.publish(frame)
        with pytest.raises(FewRowsChanged):
            owner.publish(frame[:-1], Reading(ignore=("c",)))
        with pytest.raises(FewRowsChanged):
            owner.publish(added(frame, 1), Reading(ignore=("c",)))

    def test_a_third_publication_may_not_connect_two_others(self, owner, frame):
        """Publications over a and over b may have different rows, until one publication has both columns."""
        owner.publish(frame, Reading(only=("a",)))
        owner.publish(added(frame, 1), Reading(only=("b",)))
        with pytest.raises(FewRowsChanged):
            owner.publish(frame, Reading(only=("a", "b")))

    def test_complete_rows_are_other_rows_than_all(self, owner, frame):
        """With all columns, the row with a gap is dropped; without the gap's column, it is included."""
        frame.loc[17, "c"] = np.nan
        complete = Reading(missing="complete-rows")
        owner.publish(frame, complete)
        owner.publish(frame, replace(complete, ignore=("b",)))
        with pytest.raises(FewRowsChanged):
            owner.publish(frame, replace(complete, ignore=("c",)))
        frame.loc[20:40, "c"] = np.nan
        owner.publish(frame, complete)

    def test_as_many_complete_rows_of_other_columns_are_other_rows(self):
        """One row has a gap in b, another in c: over a and b and over a and c, two different rows are dropped."""
        numbers = np.arange(40.0).reshape(20, 2)
        versions = [
            row_version(np.delete(numbers, row, axis=0), Schema(names, {"s": 19}), b"key", "seal", "reading", names)
            for row, names in ((3, ("a", "b")), (5, ("a", "c")))
        ]
        assert discloses_rows(*versions, 10)
        assert not discloses_rows(*versions, 1)

    def test_a_mark_of_missing_values_cannot_drop_a_row(self, owner, frame):
        frame["a"] = np.arange(60) + 0.5
        complete = Reading(missing="complete-rows")
        owner.publish(frame, complete)
        (owner.folder / "about.json").write_text('{"missing": {"a": ["17.5"]}}')
        with pytest.raises(FewRowsChanged):
            owner.publish(frame, complete, {"missing": {"a": ["17.5"]}})

    def test_a_mark_may_not_change_with_the_columns(self, owner, frame):
        """In the second run, the cell 17.5 of the same file counts as empty; even with --ignore, the table differs."""
        frame["a"] = np.arange(60) + 0.5
        spec, about = registry.specify("fed-pc"), {"missing": {"a": ["17.5"]}}
        owner.publish(frame, spec=spec)
        (owner.folder / "about.json").write_text(json.dumps(about))
        asked = owner.terms(Reading(ignore=("c",)), about, spec=spec)
        guard = replace(REMOTE, declared=declarations(about))
        service = SiloService("clinic", owner.folder / "clinic.csv", guard=guard)
        with closing(service), pytest.raises(FewRowsChanged):
            service.admit(asked, False)

    def test_files_in_parts_are_the_same_rows(self, owner, frame):
        owner.write(frame)
        path = owner.folder / "clinic"
        path.mkdir()
        frame.to_parquet(path / "p.parquet")
        (owner.folder / "clinic.csv").unlink()
        owner.publish(frame, write=False, spec=registry.specify("fed-pc"))
        (path / "p.parquet").unlink()
        frame[:25].to_parquet(path / "p1.parquet")
        frame[25:].to_parquet(path / "p2.parquet")
        owner.publish(frame, write=False, spec=registry.specify("fed-pc"))
        frame[25:59].to_parquet(path / "p2.parquet")
        with pytest.raises(FewRowsChanged):
            owner.publish(frame, write=False, spec=registry.specify("fed-pc"))

    def test_labels_do_not_depend_on_the_other_labels(self):
        """A new label shifts the codes of all others, and a word among numbers turns them to labels."""
        first = Schema(("x", "y"), {"s": 4}, "discrete", {"x": ("b", "c"), "y": ("1", "2")})
        later = replace(first, levels={"x": ("a", "b", "c"), "y": ("1", "2", "n/a")})
        codes = np.array([[0, 0], [1, 1], [-1, 0], [1, -1]])
        moved = codes + [1, 0] * (codes >= 0)
        assert changed_rows(row_version(codes, first, b"key").rows, row_version(moved, later, b"key").rows) == 0
        numbers = np.array([[1.0, 0.0], [2.0, -0.0], [np.nan, 0.0]])
        of_numbers = row_version(numbers, Schema(("y", "z"), {"s": 3}), b"key")
        mixed = Schema(("y", "z"), {"s": 3}, "mixed", {"y": ("1", "2.0", "n/a")})
        as_labels = row_version(np.array([[0, 0.0], [1, 0.0], [np.nan, 0.0]]), mixed, b"key")
        assert changed_rows(of_numbers.rows, as_labels.rows) == 0

    def test_rows_read_in_passes_have_the_same_digests(self, frame):
        table, schema = frame.to_numpy(), Schema(("a", "b", "c"), {"s": 60})

        class Chunked:
            shape = table.shape

            def __iter__(self):
                return iter((table[:7], table[7:]))

        whole, passes = row_version(table, schema, b"key"), row_version(Chunked(), schema, b"key")
        np.testing.assert_array_equal(whole.rows, passes.rows)
        np.testing.assert_array_equal(whole.cells, passes.cells)
        assert not set(whole.rows) & set(row_version(table, schema, b"another").rows)

    @pytest.mark.parametrize("seed", range(5))
    def test_cells_never_count_more_changes_than_there_are(self, seed):
        rng = np.random.default_rng(seed)
        schema = Schema(("a", "b"), {"s": 50})
        table = rng.integers(5, size=(50, 2)).astype(float)
        for count in (1, 3, 12):
            other = table.copy()
            other[:count] = rng.integers(5, size=(count, 2))
            one, two = (row_version(rows, schema, b"key") for rows in (table, other))
            two = replace(two, columns=("a", "x"), seal="another")
            exact = changed_rows(np.sort(table[:, 0].astype(np.uint64)), np.sort(other[:, 0].astype(np.uint64)))
            assert discloses_rows(one, two, exact + 1)
            assert not discloses_rows(one, two, exact)


class TestKinds:
    def test_time_series(self, owner, frame):
        frame = frame.assign(time=np.arange(60))
        spec = registry.specify("fdbnl")
        owner.publish(frame[:50], spec=spec)
        with pytest.raises(FewRowsChanged):
            owner.publish(frame[:51], spec=spec)
        with pytest.raises(FewRowsChanged):
            owner.publish(frame[1:50], spec=spec)
        owner.publish(frame, spec=spec)

    def test_labels_of_which_one_row_has_a_new_one(self, owner):
        rng = np.random.default_rng(1)
        frame = pd.DataFrame({name: rng.choice(["low", "mid", "top"], 60) for name in "abc"})
        spec = registry.specify("fed-pc")
        owner.publish(frame, spec=spec)
        one = pd.DataFrame({"a": ["all new"], "b": ["low"], "c": ["mid"]})
        with pytest.raises(FewRowsChanged):
            owner.publish(pd.concat([frame, one]), spec=spec)
        owner.publish(pd.concat([frame, *[one] * 10]), spec=spec)

    def test_a_folder_of_silos_that_are_pooled(self, owner, frame):
        frame.to_csv(owner.folder / "lab.csv", index=False)
        owner.write(frame)
        asked = replace(owner.terms(), schema=Schema(("a", "b", "c"), {"pooled": 120}))
        with closing(SiloService("pooled", owner.folder, guard=REMOTE)) as service:
            owner.first_reply(service, asked)
            owner.write(added(frame, 1))
            more = replace(asked, run_id="next", schema=Schema(("a", "b", "c"), {"pooled": 121}))
            service.describe()
            with pytest.raises(FewRowsChanged):
                owner.first_reply(service, more)


class TestWhereItHolds:
    def test_an_owner_of_all_rows_learns_as_often_as_he_likes(self, folder, frame):
        owner = Owner(folder, LOCAL)
        for count in (0, 1, 2):
            owner.publish(added(frame, count))
        assert not published_path(folder / "clinic.csv", "clinic").exists()

    def test_under_a_policy_it_holds(self, folder, frame):
        owner = Owner(folder, Guard(Policy(rows=5), declared=declarations({})))
        owner.publish(frame)
        with pytest.raises(FewRowsChanged):
            owner.publish(added(frame, 1))

    def test_a_scheduled_run_asks_for_it(self, folder, frame):
        owner = Owner(folder, LOCAL)
        owner.publish(frame, changed_rows=7)
        with pytest.raises(FewRowsChanged, match="fewer than 7 rows"):
            owner.publish(added(frame, 6), changed_rows=7)
        owner.publish(added(frame, 7), changed_rows=7)

    def test_the_owner_sets_the_number(self, folder, frame):
        owner = Owner(folder, Guard(policy_of({"changed_rows": 3}), remote=True))
        owner.publish(frame)
        with pytest.raises(FewRowsChanged, match="fewer than 3 rows"):
            owner.publish(added(frame, 2), changed_rows=1)
        owner.publish(added(frame, 3))
        Owner(folder, Guard(policy_of({"changed_rows": 0}), remote=True)).publish(added(frame, 4))

    @pytest.mark.parametrize(("owners", "asked"), [(10, 50), (50, 10), (0, 50)])
    def test_the_greater_number_of_the_owner_and_of_a_scheduled_run_holds(self, owners, asked):
        guard = Guard(policy_of({"changed_rows": owners}), remote=True)
        terms = RunTerms("run", b"", Schema(("x",), {"a": 100}), 0, changed_rows=asked)
        assert guard.changed_rows(terms) == 50

    @pytest.mark.parametrize("value", [-1, 1.5, "10", True])
    def test_another_number_is_refused(self, value):
        with pytest.raises(Exception, match="policy: changed_rows is "):
            policy_of({"changed_rows": value})


class TestRecord:
    def test_it_is_the_owners_alone(self, owner, frame):
        owner.publish(frame)
        path = published_path(owner.folder / "clinic.csv", "clinic")
        assert path.stat().st_mode & 0o077 == 0
        content = path.read_bytes()
        for number in frame.to_numpy().ravel():
            assert np.float64(number).tobytes() not in content

    def test_a_lost_record_is_refused_unless_the_journal_has_none(self, owner, frame):
        owner.publish(frame)
        path = published_path(owner.folder / "clinic.csv", "clinic")
        kept = path.read_bytes()
        path.unlink()
        LOGS.clear()
        with pytest.raises(BadRecord, match="its records cannot be used"):
            owner.publish(added(frame, 1))
        assert "restore the file, or have the owner delete the record with `fedbnsl silo forget`" in LOGS[0]
        path.write_bytes(kept)
        with pytest.raises(FewRowsChanged):
            owner.publish(added(frame, 1))
        path.unlink()
        journal_path(owner.folder / "clinic.csv", "clinic").unlink()
        owner.publish(added(frame, 1))

    def test_the_owner_can_start_afresh(self, owner, frame, capsys):
        owner.publish(frame)
        with pytest.raises(SystemExit) as left:
            main(["silo", "forget", str(owner.folder / "clinic.csv")])
        assert left.value.code == 0
        assert "clinic.published: forgotten" in capsys.readouterr().out
        owner.publish(added(frame, 1))
        with pytest.raises(FewRowsChanged):
            owner.publish(frame)

    def test_without_the_journal_the_record_still_counts(self, owner, frame):
        owner.publish(frame)
        journal_path(owner.folder / "clinic.csv", "clinic").unlink()
        with pytest.raises(FewRowsChanged):
            Owner(owner.folder).publish(added(frame, 1))

    @pytest.mark.parametrize("damage", ["cut", "forged", "no database"])
    def test_a_damaged_record_is_refused(self, owner, frame, damage):
        owner.publish(frame)
        path = published_path(owner.folder / "clinic.csv", "clinic")
        if damage == "no database":
            path.write_bytes(b"nothing")
        else:
            with closing(sqlite3.connect(path)) as db:
                ((content,),) = db.execute("SELECT content FROM versions").fetchall()
                content = content[:-9] if damage == "cut" else content[:-9] + b"\1" * 9
                db.execute("UPDATE versions SET content = ?", (content,))
                db.commit()
        with pytest.raises(BadInput):
            owner.publish(added(frame, 1))
        with pytest.raises(BadRecord):
            owner.publish(added(frame, 30))


class TestResamples:
    SPEC = AlgorithmSpec("notears-admm", registry.specify("notears-admm").settings).wrapped("bootstrap", Bootstrap(2))

    def test_nobody_else_knows_the_rows_of_a_resample(self, folder, frame):
        """With public seeds a coordinator would know the rows of every sum, and could solve for each."""
        local, remote = Owner(folder, LOCAL), Owner(folder)
        known = local.publish(frame, spec=self.SPEC, seed=4)
        assert local.publish(frame, spec=self.SPEC, seed=4) == known
        secret = remote.publish(frame, spec=self.SPEC, seed=4)
        assert secret != known
        assert remote.publish(frame, spec=self.SPEC, seed=4) == secret
        assert remote.publish(frame, spec=self.SPEC, seed=5) == secret  # nor are there more sums than resamples

    def test_other_rows_have_other_resamples(self, folder, frame):
        """Otherwise sums over the same places differ in a single row, where one of the replaced rows is drawn."""
        owner, seeds = Owner(folder), []
        for version in (frame, added(frame, 12)):
            owner.write(version)
            asked = owner.terms(spec=self.SPEC)
            with closing(SiloService("clinic", folder / "clinic.csv", guard=owner.guard)) as service:
                owner.first_reply(service, asked)
                seeds.append(service._secret_seed(asked))
                assert service._secret_seed(replace(asked, seed=7)) == seeds[-1]
        assert len({*seeds, None}) == 3

    def test_there_are_no_more_resamples_than_rows(self, folder, frame):
        owner = Owner(folder, Guard(Policy(rows=5), declared=declarations({})))
        with pytest.raises(NotAllowed, match="as many resamples as this silo has rows, not 121"):
            owner.publish(frame, spec=registry.specify("fed-pc").wrapped("bootstrap", Bootstrap(121)))

    def test_resamples_of_other_rows_are_publications(self, owner, frame):
        owner.publish(frame, spec=self.SPEC)
        with pytest.raises(FewRowsChanged):
            owner.publish(added(frame, 1))
        with pytest.raises(FewRowsChanged):
            owner.publish(added(frame, 2), spec=self.SPEC)

    def test_sums_over_known_resamples_give_away_rows(self, frame):
        """Without the secret, as many sums as rows with known members could be solved for every row."""
        table, schema = frame.to_numpy()[:12], Schema(("a", "b", "c"), {"s": 12})
        members, sums = [], []
        for seed in range(40):
            rows = resample(np.arange(12)[:, None], schema, "s", SamplingScheme(), np.random.default_rng(seed)).ravel()
            members.append(np.bincount(rows, minlength=12))
            sums.append(table[rows].sum(axis=0))
        found = np.linalg.lstsq(np.array(members, float), np.array(sums), rcond=None)[0]
        np.testing.assert_allclose(found, table, atol=1e-9)


OTHER_SILOS = {
    "one left": "abcde",
    "one joined": "abcdefg",
    "one for another": "abcdex",
    "three left": "abc",
    "three joined": "abcdefxyz",
}


class TestSilos:
    def silo(self, folder, frame, **policy):
        frame.to_csv(folder / "clinic.csv", index=False)
        return SiloService("a", folder / "clinic.csv", Policy(masked=True, silos=3, **policy))

    def unmask(self, service, run, announced, survivors=None, step_of="", targets=None):
        """What the silo checks before it unmasks a sum, and records after that."""
        schema = Schema(("a", "b", "c"), dict.fromkeys(announced, 60), targets=targets or {})
        asked = RunTerms(run, registry.pack(registry.specify("secure-sum")), schema, 0, step_of=step_of)
        service.admit(asked, True)
        assert service._journal  # which the first masked summand opens
        service._gate.check_sums(asked, tuple(survivors or announced), record=True)

    @pytest.mark.parametrize("silos", OTHER_SILOS.values(), ids=OTHER_SILOS)
    def test_sums_over_other_silos_are_refused(self, folder, frame, silos):
        with closing(self.silo(folder, frame)) as service:
            self.unmask(service, "first", "abcdef")
            with pytest.raises(NotAllowed, match=r"other silos than before, which were a, b, c, d, e, f; "):
                self.unmask(service, "second", silos)
            self.unmask(service, "third", "abcdef")

    def test_a_silo_that_drops_out_leaves_a_sum_over_the_others_before_the_first_sum_only(self, folder, frame):
        """Otherwise a coordinator could pretend that a silo dropped out; the difference would be that silo's part."""
        with closing(self.silo(folder, frame)) as service:
            self.unmask(service, "first", "abcdef", survivors="abcde")
            self.unmask(service, "second", "abcde")
            for run, step_of in (("first", ""), ("first-units", "first"), ("third", "")):
                with pytest.raises(NotAllowed):
                    self.unmask(service, run, "abcdef", step_of=step_of)
            service.finish("first")
            with pytest.raises(NotAllowed):
                self.unmask(service, "first", "abcdef")
        with closing(self.silo(folder, frame)) as service, pytest.raises(NotAllowed):
            self.unmask(service, "fourth", "abcdexyz", survivors="abcdexy")

    def test_a_step_with_other_silos_is_another_run(self, folder, frame):
        with closing(self.silo(folder, frame)) as service:
            self.unmask(service, "first", "abcdef")
            with pytest.raises(NotAllowed):
                self.unmask(service, "first-again", "abcde", step_of="first")

    @pytest.mark.parametrize("step_of", ["", "first"])
    def test_sums_for_targets_are_compared_with_those_of_other_targets(self, folder, frame, step_of):
        """Each sum is over enough silos, but their difference is over two; this also counts across steps of one run."""
        first = dict.fromkeys("bcd", (("a",),))
        with closing(self.silo(folder, frame)) as service:
            self.unmask(service, "first", "abcdefgh", targets=first)
            self.unmask(service, "again", "abcdefgh", targets=first, step_of=step_of)
            with pytest.raises(NotAllowed, match=r"both would be over .* alone"):
                self.unmask(service, "second", "abcdefgh", targets=dict.fromkeys("bce", (("b",),)), step_of=step_of)

    def test_targets_of_one_silo_are_refused_before_anything_is_summed(self, folder, frame):
        with closing(self.silo(folder, frame)) as service:
            for targets in ({"b": (("a",),)}, dict.fromkeys("bcdefgh", (("a", "b", "c"),))):
                with pytest.raises(NotAllowed, match="the targets of experiments require sums of which"):
                    self.unmask(service, "first", "abcdefgh", targets=targets)
            with pytest.raises(NotAllowed, match="refuses the targets a: the owner's"):
                self.unmask(service, "first", "abcdefgh", targets=dict.fromkeys("abc", (("a",),)))

    def test_a_minimum_of_one_silo_still_means_two(self, folder, frame):
        frame.to_csv(folder / "clinic.csv", index=False)
        with closing(SiloService("a", folder / "clinic.csv", Policy(masked=True))) as service:
            with pytest.raises(NotAllowed, match="over a alone, and the minimum is 2 silos"):
                self.unmask(service, "run 0", "a")
            self.unmask(service, "run 1", "ab")

    @given(st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=1, max_size=5))
    def test_no_combination_of_sums_is_over_few_silos(self, sums):
        """Whatever sums the gate lets pass, a combination that depends on a silo depends on two silos at least."""
        with Journal(None) as journal:
            gate = Gate("a", Policy(masked=True), guarded=True, journal=lambda: journal)
            for number, silos in enumerate(sums):
                schema = Schema(("x", "y"), dict.fromkeys(sorted(silos), 100))
                with suppress(NotAllowed):
                    terms = RunTerms(str(number), registry.pack(registry.specify("secure-sum")), schema, 0)
                    gate.check_sums(terms, schema.silos, record=True)
            passed = journal.sums_over()
        matrix = np.array([[(silo, WHOLE) in one for silo in "abcdef"] for one in passed], float).reshape(-1, 6)
        for silo in range(6):
            others = np.delete(matrix, silo, axis=1)
            alone = np.linalg.matrix_rank(matrix) > np.linalg.matrix_rank(others) if matrix.size else False
            assert not alone

    def test_without_masks_every_reply_is_seen_anyway(self, folder, frame):
        frame.to_csv(folder / "clinic.csv", index=False)
        with closing(SiloService("a", folder / "clinic.csv", Policy(rows=5))) as service:
            for run, silos in enumerate(combinations("abcdef", 5)):
                if "a" in silos:
                    self.unmask(service, str(run), silos)


def test_a_source_in_memory_keeps_nothing(folder, frame):
    owner = Owner(folder)
    owner.write(frame)
    asked = owner.terms()
    source = FileSource("clinic", folder / "clinic.csv", durable=False)
    with closing(SiloService("clinic", source, guard=REMOTE)) as service:
        owner.first_reply(service, asked)
    assert not (folder / ".fedbnsl").exists()


class TestEvents:
    """An event is its time and type; numbers of devices, windows and links cannot hide how few have changed."""

    @pytest.fixture
    def events(self, folder):
        (folder / "about.json").write_text('{"kind": "events"}')
        rng = np.random.default_rng(2)
        device = np.repeat(["b", "c", "d"], 20)
        links = np.repeat(["c", "b;d", "c"], 20)
        kinds = np.array(["up", "down"])[rng.integers(0, 2, 60)]
        return pd.DataFrame({"time": rng.uniform(0, 90, 60), "event": kinds, "device": device, "neighbours": links})

    def publish(self, owner, events, hops=1):
        return owner.publish(events, about={"kind": "events"}, spec=registry.specify("fed-hawkes", {"hops": hops}))

    @pytest.mark.parametrize(
        "change",
        [
            lambda one: pd.concat([one, one[:1].assign(time=50.5, device="a")]),  # all devices have other numbers
            lambda one: pd.concat([one, one[:1].assign(time=200.0)]),  # its device has another window
            lambda one: pd.concat([one, one[:1].assign(event="broken")]),  # all types have other numbers
            lambda one: one.assign(neighbours=one.neighbours.mask(one.device == "d", "b")),
            lambda one: one.assign(device=one.device.mask(one.index == 7, "c")),
            lambda one: one[1:],
        ],
        ids=["a device that comes first", "the window", "a type that comes first", "links", "a device", "removed"],
    )
    def test_a_change_of_few_events_of_a_device_or_of_links_is_refused(self, owner, events, change):
        self.publish(owner, events)
        with pytest.raises(FewRowsChanged, match=FEW):
            self.publish(owner, change(events))

    @pytest.mark.parametrize("hops", [0, 1])
    @pytest.mark.parametrize(
        "change",
        [
            lambda one: one.assign(neighbours=one.neighbours.mask(one.device == "d", "b")),
            lambda one: one.assign(neighbours=one.neighbours.mask(one.device != "e", "")),
            lambda one: one.assign(device=one.device.mask(one.index < 10, "d")),  # whose link is that of b
        ],
        ids=["one link", "all links", "devices"],
    )
    def test_a_change_of_devices_or_links_alone_is_refused_also_without_hops(self, owner, events, change, hops):
        """A run without links discloses nothing, but the next run on the same rows might use them."""
        self.publish(owner, events, hops)
        with pytest.raises(FewRowsChanged, match=FEW):
            self.publish(owner, change(events), hops)

    def test_an_event_more_is_one_change_and_its_device_renumbers_none(self, folder, owner, events):
        """Nine events of a device that comes first are nine changes, and ten are answered."""

        def version(frame):
            owner.write(frame)
            data = read_folder(folder, READ_ALL)
            return row_version(data.tables["clinic"], data.schema, b"key")

        more = pd.DataFrame({"time": np.arange(10) + 50.5, "event": "up", "device": "a", "neighbours": "b"})
        before = version(events)
        for count in (1, 9):
            assert changed_rows(before.rows, version(pd.concat([events, more[:count]])).rows) == count
        self.publish(owner, events)
        self.publish(owner, pd.concat([events, more]))

    def test_no_change_or_many_are_answered(self, owner, events):
        self.publish(owner, events)
        self.publish(owner, events.sample(frac=1.0, random_state=1))
        shifted = events.assign(time=events.time + 0.5 * (events.index < 10))
        self.publish(owner, shifted)


def test_one_column_that_changed_enough_suffices_with_other_columns():
    table = np.random.default_rng(0).normal(size=(60, 3))
    changed = table[:, :2].copy()
    changed[:20, 0] += 1
    before = row_version(table, Schema(("a", "b", "c"), {"s": 60}), b"k" * 32, "one")
    assert not discloses_rows(before, row_version(changed, Schema(("a", "b"), {"s": 60}), b"k" * 32, "two"), 10)
    assert discloses_rows(before, row_version(changed, Schema(("a", "b"), {"s": 60}), b"k" * 32, "two"), 21)
