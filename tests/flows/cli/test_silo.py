"""`fedbnsl silo start`: the settings of the owner's file are those of the worker that serves."""

import re
import shlex
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyarrow.csv import write_csv

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.profile import ColumnProfile, Profile
from fedbnsl.data.folder.tally import dependence
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.cli.silo import FACTS, check_silo, column_facts, disclosure_lines, serve_silo
from fedbnsl.tasks.silo import source
from fedbnsl.tasks.silo.messages import MethodCall, unpack_answer
from fedbnsl.tasks.transport import channel
from fedbnsl.tasks.transport.configuration import Endpoint, read_silo_file


@pytest.mark.parametrize("workers", [1, 3])
def test_a_silo_serves_by_the_settings_of_its_file(workers, tmp_path, monkeypatch):
    """Its name, rows, readers, addresses and certificate."""
    folder, served, readers, limited = tmp_path / "study", [], [], []
    init_federation(folder, ["a", "b"], "127.0.0.1:8786")
    place = folder / "a"
    (place / "rows.csv").write_text("x,y\n" + "".join(f"{k % 7 + 0.5},{k * k % 11}\n" for k in range(60)))
    config = place / "silo.toml"
    said = config.read_text().splitlines()
    config.write_text("\n".join([f"workers = {workers}", "memory_gigabytes = 3", *said]))
    (place / "about.json").write_text('{"kind": "continuous"}')

    async def run(name, where, identity, answers, log, heartbeat):
        described = unpack_answer("describe", answers(MethodCall("describe").pack()))
        served.append((where, name, described.silo, described.rows, identity.holder()))
        assert heartbeat.count() > 0

    def described(silo, path, declared, mapper, whole=source.describe_rows):
        readers.append((getattr(mapper, "__self__", None), path))
        return whole(silo, path, declared, mapper)

    monkeypatch.setattr(channel, "serve_silo", run)
    monkeypatch.setattr("fedbnsl.flows.servers.supervisor.supervise", lambda most, log: limited.append(most))
    monkeypatch.setattr(source, "describe_rows", described)
    monkeypatch.setattr("fedbnsl.flows.terminal.daemon.run_until_signal", lambda serving: serving().send(None))
    with pytest.raises(StopIteration):
        serve_silo(config, None, None)
    assert served == [(Endpoint("127.0.0.1", 8786), "a", "a", 60, "a")]
    assert limited == [3_000_000_000]
    (own, path), *_ = readers
    assert (own.count, path) == (workers, place / "rows.csv")


def test_every_fact_about_a_column_that_is_sent_is_printed():
    """A new field of the description must have words, or a reason why it has none."""
    assert {field.name for field in fields(ColumnProfile)} == {*FACTS, "labels", "odd"}


def test_every_other_field_of_a_description_is_known_here():
    """`disclosure_lines` prints all of them but `notes`, which may name a cell, and which the lines do not repeat."""
    known = {"rows", "columns", "notes", "left_out", "derived", "conditions", "dependence"}
    assert {field.name for field in fields(Profile)} == known


def test_the_dependence_of_integers_is_printed(tmp_path):
    folder = tmp_path / "study"
    init_federation(folder, ["a", "b"], "127.0.0.1:8786")
    codes = np.random.default_rng(1).integers(0, 3, (60, 2))
    (folder / "a" / "rows.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in codes))
    allow_descriptions(folder / "a" / "silo.toml")
    (line,) = (
        line
        for line in disclosure_lines(read_silo_file(folder / "a" / "silo.toml", None, None))
        if line.startswith("  dependence")
    )
    gains = dependence(codes.astype(float))
    assert line.endswith("as labels {}, as numbers {}, as labels by chance {}".format(*gains))


def test_facts_about_a_column_are_printed_as_an_owner_reads_them():
    """A median of 1 has the magnitude 10^0, which is a fact; a count of 0 is none."""
    column = ColumnProfile(0, 9, 0, whole=False, size=0.0, marks=(("NA", 3), ("-9", 2)), first_dates=(("ymd", ""),))
    facts = column_facts(column)
    assert "median magnitude 10^0.0" in facts
    assert "marks of missing values: NA (3), -9 (2)" in facts
    assert "orders of day, month and year, and first date if requested: ymd" in facts
    assert not [fact for fact in facts if fact.startswith(("empty", "words", "zeros"))]


def allow_descriptions(config):
    """Set a level at which the silo describes its cells."""
    config.write_text(config.read_text().replace('level = "sums"', 'level = "trusted"'))


def test_at_level_sums_an_owner_sees_that_names_leave_only(tmp_path):
    folder = tmp_path / "study"
    init_federation(folder, ["a", "b"], "127.0.0.1:8786")
    (folder / "a" / "rows.csv").write_text("x,y\n" + "".join(f"{k % 7 + 0.5},{k}\n" for k in range(60)))
    with pytest.raises(BadInput, match=r"level 'sums' sends no fact about cells, so about\.json must declare"):
        check_silo(folder / "a" / "silo.toml", None, None)
    (folder / "a" / "about.json").write_text('{"kind": "continuous"}')
    lines = disclosure_lines(read_silo_file(folder / "a" / "silo.toml", None, None))
    assert lines == ["before round 1 the coordinator learns: 60 rows, columns x, y", "  x: ", "  y: "]


@pytest.mark.parametrize("data", ["my rows.csv", "parts"])
def test_the_advised_command_drafts_the_declaration_that_level_sums_needs(tmp_path, data):
    init_federation(tmp_path / "study", ["a", "b", "c"], "127.0.0.1:1")
    config, rows = tmp_path / "study" / "a" / "silo.toml", tmp_path / "study" / "a" / data
    table = pa.table({"x": np.random.default_rng(1).normal(size=90), "y": ["no", "yes", "yes"] * 30})
    if data == "parts":
        rows.mkdir()
        parquet.write_table(table, rows / "one.parquet")
    else:
        write_csv(table, rows)
    config.write_text(re.sub(r'^data = ".*?"', f'data = "{data}"', config.read_text(), flags=re.MULTILINE))
    with pytest.raises(BadInput, match="level 'sums' sends no fact about cells") as refused:
        read_silo_file(config).require_declared()
    program, *words = shlex.split(re.findall(r"`(.*)`", str(refused.value))[0])
    with pytest.raises(SystemExit) as left:
        main(words)
    assert (program, left.value.code) == ("fedbnsl", 0)
    file = read_silo_file(config)
    file.require_declared()
    assert file.declared.kind_of("y") == "discrete"
    assert file.declared.levels["y"] == ("no", "yes")


def test_an_owner_of_series_sees_their_lengths(tmp_path):
    folder = tmp_path / "study"
    init_federation(folder, ["a", "b"], "127.0.0.1:8786")
    allow_descriptions(folder / "a" / "silo.toml")
    times = [k for k in range(40) if k != 15]
    (folder / "a" / "rows.csv").write_text("time,x,y\n" + "".join(f"{k},{k % 7 + 0.5},{k % 5}\n" for k in times))
    (folder / "a" / "about.json").write_text('{"kind": "time-series"}')
    lines = disclosure_lines(read_silo_file(folder / "a" / "silo.toml", None, None))
    assert lines[0].startswith("before round 1 the coordinator learns: 39 rows")
    assert "  time step 1, unbroken stretches of so many rows: 15, 24" in lines


def test_an_owner_sees_what_the_coordinator_learns_of_each_column(tmp_path):
    folder = tmp_path / "study"
    init_federation(folder, ["a", "b"], "127.0.0.1:8786")
    allow_descriptions(folder / "a" / "silo.toml")
    rows = "".join(
        f"{'' if k < 7 else 100 + k},{'yes' if k % 3 else 'no'},{k % 9 + 1},{(k % 9 + 1) ** 2}\n" for k in range(60)
    )
    (folder / "a" / "rows.csv").write_text(f"dose,ill,g,t\n{rows}")
    first, *others = disclosure_lines(read_silo_file(folder / "a" / "silo.toml", None, None))
    assert first == "before round 1 the coordinator learns: 60 rows, columns dose, ill, g, t"
    (dose,) = [line for line in others if line.startswith("  dose: ")]
    assert dose.startswith("  dose: empty cells: 7; numbers: 53; all numbers are integers; distinct values: ")
    assert "median magnitude 10^2.1" in dose
    assert "  labels of ill: no, yes" in others
    assert "  t follows from g" in others
    (ill,) = [line for line in others if line.startswith("  ill: ")]
    assert "words: 60" in ill
    assert "numbers" not in ill


def test_check_refuses_a_key_that_others_can_read_as_start_does(tmp_path):
    folder = tmp_path / "study" / "a"
    init_federation(tmp_path / "study", ["a", "b"], "127.0.0.1:1")
    (folder / "rows.csv").write_text("x,y\n" + "".join(f"{k % 7 + 0.5},{k}\n" for k in range(60)))
    (folder / "about.json").write_text('{"kind": "continuous"}')
    with pytest.raises(BadInput, match="no coordinator answers"):
        check_silo(folder / "silo.toml", None, None)
    (key,) = folder.glob("*.key")
    key.chmod(0o644)
    with pytest.raises(BadInput, match="this key is readable by other users"):
        check_silo(folder / "silo.toml", None, None)
