import os
import signal
import subprocess
import sys
import time

import pytest

from fedbnsl.algorithms.core.release import Disclosed
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tasks.silo.journal import Journal, RunState, journal_path
from fedbnsl.tasks.silo.private_folder import BadRecord, RecordUnavailable


def test_a_reply_and_the_state_after_it_are_kept_together(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        assert journal.run_state("run") == RunState()
        assert journal.reply("run", 1, "b") is None
        journal.commit("run", 1, b"reply 1", b"state 1", "b")
        journal.commit("run", 2, b"reply 2", b"state 2", "b")
        assert journal.reply("run", 1, "b") == b"reply 1"
        assert journal.run_state("run") == RunState(2, b"state 2")


LONG = "x" * 100_000
WRITES = {
    "reply": lambda journal: journal.commit("run", 1, LONG.encode(), b"state", "b"),
    "pin": lambda journal: journal.pin(LONG, "rows"),
    "terms": lambda journal: journal.first_terms(LONG, "digest"),
    "version": lambda journal: journal.name_version(LONG),
    "choice": lambda journal: journal.first_choice(LONG, "unit", "1"),
    "sum": lambda journal: journal.record_sum(LONG, 1, ("a", "b")),
    "units of a sum": lambda journal: journal.record_sum_over(frozenset({(LONG, 1)})),
    "disclosure": lambda journal: journal.record_disclosed(LONG, 1, DISCLOSED),
}
DISCLOSED = Disclosed("round", "fed-pc", "counts", True, False, 9, 9, 1, 9, ("a", "b"))


@pytest.mark.parametrize("write", WRITES)
def test_a_journal_on_a_full_disk_is_named_in_one_line_and_stays_sound(tmp_path, write):
    """SQLite refuses to let the file grow, as on a full disk; when there is room again, the same record is written."""
    with Journal(tmp_path / "a.sqlite") as journal:
        (pages,) = journal._db.execute("PRAGMA page_count").fetchone()
        journal._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(
            RecordUnavailable, match=r"a\.sqlite: the journal cannot be read or written \(.*is full\): make"
        ):
            WRITES[write](journal)
        journal._db.execute("PRAGMA max_page_count = 1000000")
        WRITES[write](journal)
    with Journal(tmp_path / "a.sqlite") as journal:
        assert journal._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_an_error_after_which_sqlite_has_rolled_back_is_the_one_that_is_told(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        journal._db.execute(
            "CREATE TEMP TRIGGER full BEFORE INSERT ON answers BEGIN SELECT RAISE(ROLLBACK, 'the first error'); END"
        )
        with pytest.raises(BadRecord, match="the first error"):
            journal.commit("run", 1, b"reply", b"state", "b")
        journal._db.execute("DROP TRIGGER full")
        journal.commit("run", 1, b"reply", b"state", "b")


def test_a_journal_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "a.sqlite").mkdir()
    with pytest.raises(RecordUnavailable, match=r"a\.sqlite: the silo's journal cannot be read or written \(Is a dir"):
        Journal(tmp_path / "a.sqlite")


@pytest.mark.parametrize(
    "record",
    [
        lambda journal: journal.pin("run", "rows"),
        lambda journal: journal.record_sum("run", 1, ("a", "b")),
        lambda journal: journal.record_sum_over(frozenset({("a", -1), ("b", -1)})),
        lambda journal: journal.charged(),
    ],
    ids=["pin", "sum", "sum of a run", "charges"],
)
def test_a_damaged_journal_is_named_in_one_line_whatever_is_recorded(tmp_path, record):
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        for table in ("pins", "sums", "summed_units", "charged"):
            journal._db.execute(f"DROP TABLE {table}")
        with pytest.raises(BadRecord, match=r"a\.sqlite: the journal is damaged .*: start a new run"):
            record(journal)


def test_runs_are_apart_and_a_finished_one_is_forgotten(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        journal.commit("one", 1, b"r1", b"s1", "b")
        journal.commit("other", 1, b"r2", b"s2", "b")
        journal.forget("one")
        assert journal.run_state("one") == RunState()
        assert journal.reply("one", 1, "b") is None
        assert journal.reply("other", 1, "b") == b"r2"


def test_a_forgotten_run_leaves_its_sums_but_no_seal_of_its_rows(tmp_path):
    """Another process of the silo may still have masked a summand of the run."""
    with Journal(tmp_path / "a.sqlite") as journal:
        assert journal.pin("run", "rows as they were")
        assert journal.record_sum("run", 1, ("a", "b", "c"))
        assert not journal.pin("run", "other rows")
        journal.forget("run")
        assert journal.pin("run", "other rows")
        assert not journal.record_sum("run", 1, ("a", "b"))


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_round_that_does_not_follow_is_refused_and_changes_nothing(tmp_path, number):
    with Journal(tmp_path / "a.sqlite") as journal:
        journal.commit("run", 1, b"reply 1", b"state 1", "b")
        with pytest.raises(ValueError, match="cannot follow round 1"):
            journal.commit("run", number, b"other", b"other", "b")
        assert journal.run_state("run") == RunState(1, b"state 1")
        assert journal.reply("run", 1, "b") == b"reply 1"


def test_it_survives_a_killed_process_with_whole_rounds_only(tmp_path):
    path = tmp_path / "a.sqlite"
    writer = (
        "import sys; from pathlib import Path; from fedbnsl.tasks.silo.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "for number in range(1, 10**9): journal.commit('run', number, b'%d' % number * 9999, b'%d' % number, 'b')"
    )
    child = subprocess.Popen([sys.executable, "-c", writer, str(path)])
    deadline, number = time.monotonic() + 60, 0
    try:
        while number < 5:
            assert time.monotonic() < deadline, f"the writer came to round {number} of 5 within a minute"
            time.sleep(0.05)
            if path.exists() and path.stat().st_size > 0:
                with Journal(path) as journal:
                    number = journal.run_state("run").number
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    with Journal(path) as journal:
        run_state = journal.run_state("run")
        assert run_state.number >= 5
        assert run_state.state == b"%d" % run_state.number
        assert journal.reply("run", run_state.number, "b") == b"%d" % run_state.number * 9999
        assert journal.reply("run", run_state.number + 1, "b") is None
        journal.commit("run", run_state.number + 1, b"", b"", "b")


def test_a_round_costs_little_cpu(tmp_path):
    state = bytes(6400)
    with Journal(tmp_path / "a.sqlite") as journal:
        journal.commit("run", 1, state, state, "b")
        start = time.process_time()
        for number in range(2, 102):
            journal.commit("run", number, state, state, "b")
        assert (time.process_time() - start) / 100 < 0.002


def test_a_folder_that_cannot_be_written_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot read or write the silo's secret"):
        Journal(tmp_path / "file" / "a.sqlite")


def test_it_lies_beside_the_rows(tmp_path):
    assert journal_path(tmp_path / "a.csv", "a") == tmp_path / ".fedbnsl" / "a.sqlite"
    assert journal_path(tmp_path, "pooled") == tmp_path / ".fedbnsl" / "pooled.sqlite"
