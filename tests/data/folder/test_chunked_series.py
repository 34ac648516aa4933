"""Series read in passes are split as series in memory, for any batch boundaries, and errors are one line."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches, text
from fedbnsl.data.folder import table as silo_table
from fedbnsl.data.folder.about import Declared, Reading
from fedbnsl.data.folder.chunked_series import SeriesPasses, described_series, open_series, passes_notes, series_source
from fedbnsl.data.folder.series import SeriesTable, read_series, series_schema

NOTHING = Declared()


@pytest.fixture
def small(monkeypatch):
    """Everything is read in passes, a few rows at a time."""
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 0)
    for module, name in ((batches, "MAX_BATCH_ROWS"), (batches, "MIN_BATCH_ROWS"), (silo_table, "MIN_CHUNK_ROWS")):
        monkeypatch.setattr(module, name, 3)
    for module, name in ((batches, "BATCH_CELLS"), (silo_table, "CHUNK_CELLS")):
        monkeypatch.setattr(module, name, 1)
    monkeypatch.setattr(text, "BLOCK_BYTES", 400)


def frame(seed: int, times: str = "numbers", series: int = 3) -> pd.DataFrame:
    """Series of different lengths, with gaps in time and empty cells."""
    rng, parts = np.random.default_rng(seed), []
    for number in range(series):
        n = int(rng.integers(15, 40))
        steps = np.cumsum(rng.choice([1, 1, 1, 1, 2, 5], size=n))
        part = pd.DataFrame({"series": f"s{number}", "time": steps * 0.1, "a": rng.normal(size=n), "b": rng.random(n)})
        if times == "dates":
            part["time"] = pd.Timestamp("2020-01-30") + pd.to_timedelta(6 * steps, unit="h")
        if times == "months":
            part["time"] = [f"{2000 + step // 12}-{step % 12 + 1:02d}" for step in steps]
        parts.append(part)
    made = pd.concat(parts, ignore_index=True)
    made["a"] = made["a"].mask(rng.random(len(made)) < 0.05)
    if times == "none":
        made = made.drop(columns="time")
    return made.drop(columns="series") if series == 1 else made


def written(folder, made: pd.DataFrame, kind: str):
    if kind == "csv":
        made.to_csv(folder / "x.csv", index=False)
        return folder / "x.csv"
    if kind == "query":
        url = f"sqlite:///{folder / 'owner.db'}"
        made.to_sql("rows", create_engine(url), index=False, if_exists="replace")
        (folder / "x.sql").write_text(f"-- {url}\nSELECT * FROM rows\n")
        return folder / "x.sql"
    made.to_parquet(folder / "x.parquet", index=False)
    return folder / "x.parquet"


@given(st.integers(0, 999), st.sampled_from(["numbers", "dates", "months", "none"]), st.integers(1, 4))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("kind", ["csv", "parquet", "query"])
def test_stretches_and_rows_are_those_in_memory(small, tmp_path, kind, seed, times, series):
    path = written(tmp_path, frame(seed, times, series), kind)
    declared = replace(NOTHING, kind="time-series")
    whole = read_series(path, declared)
    read = open_series(path, declared)
    assert isinstance(read, SeriesPasses)
    assert (read.variables, read.stretches, read.left_out) == (whole.variables, whole.stretches, whole.left_out)
    assert read.step == pytest.approx(whole.step, rel=1e-9)
    schema = series_schema([described_series("x", read)], declared)
    assert schema.streamed == ("x",)
    assert passes_notes(schema)[0].startswith("x: it reads its series in passes")
    assert np.array_equal(np.concatenate(list(read.rows(schema))), whole.values)


def test_small_queries_and_parts_are_read_into_memory(tmp_path, monkeypatch):
    made = frame(1)
    for kind in ("query", "parquet"):
        assert isinstance(open_series(written(tmp_path, made, kind), NOTHING), SeriesTable)
    for limit, streamed in ((8 * made.size, False), (8 * made.size - 8, True)):
        monkeypatch.setattr(batches, "IN_MEMORY_BYTES", limit)
        for kind in ("query", "parquet"):
            assert (series_source(written(tmp_path, made, kind), NOTHING) is not None) == streamed


def changed(**cells) -> pd.DataFrame:
    """Two series of which some cells, by column and row, are others."""
    made = pd.DataFrame(
        {"series": list("aaaabbbb"), "time": [0.0, 1, 2, 3, 0, 1, 2, 3], "x": range(8), "y": range(8, 0, -1)}
    )
    made = made.astype({"series": object, "time": object, "x": object, "y": float})
    for name, (row, cell) in cells.items():
        made.loc[row, name] = cell
    return made


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        ({"series": (6, "a")}, "line 8, column 'series': 'a' goes on after another series: rows .* sorted"),
        ({"series": (6, "")}, "line 8, column 'series': the cell is empty"),
        ({"time": (2, 1.0)}, "line 4, series 'a', column 'time': '1' is a duplicate in its series"),
        (
            {"time": (2, 0.5)},
            "line 4, series 'a', column 'time': '0.5' is before the time of the row above: rows .* sorted",
        ),
        (
            {"time": (3, 3.4)},
            "line 5, series 'a', column 'time': '3.4' is 1.4 after the previous time, not a whole number of steps of 1",
        ),
        ({"time": (3, "")}, "line 5, column 'time': the cell is empty"),
        ({"x": (5, "inf")}, "line 7, column 'x': .*inf.* not finite"),
    ],
)
def test_bad_rows_are_named(small, tmp_path, cells, line):
    path = written(tmp_path, changed(**cells), "csv")
    with pytest.raises(BadInput, match=line) as refused:
        open_series(path, NOTHING)
    assert "\n" not in str(refused.value)


def test_what_needs_memory_is_refused(small, tmp_path):
    path = written(tmp_path, changed(x=(2, None)), "csv")
    for reading, line in (
        (Reading(missing="refuse"), "line 4, column 'x': the cell is empty, and --missing refuse allows"),
        (Reading(series_gaps=True), "line 4, column 'x': the cell is empty.*--missing complete-rows"),
        (Reading(time=("time", "x")), "--time: series that exceed the memory limit need one column of times"),
    ):
        with pytest.raises(BadInput, match=line):
            open_series(path, Declared(reading=reading))
    assert open_series(path, NOTHING).left_out == 1
    with pytest.raises(BadInput, match="column 'x' has labels, and its series exceed the memory limit"):
        open_series(path, Declared(levels={"x": ("0", "1")}))


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        (
            {"x": [1.0, np.nan, 2.0]},
            "no two consecutive rows are complete: 1 of 3 have an empty cell, the first in row 2, column 'x'",
        ),
        ({"time": [0.0, 2.0, 1.0], "series": ["a", "b", "c"]}, "no two consecutive rows in any series"),
        ({"x": [4.0, 4.0, 4.0]}, "column 'x': constant, every row is 4.0"),
        ({"x": [0.0, 1e80, 2.0]}, "column 'x': its numbers exceed 1e"),
    ],
)
def test_series_that_teach_nothing_are_refused(small, tmp_path, cells, line):
    made = pd.DataFrame({"time": [0.0, 1.0, 2.0], "x": [1.0, 2.0, 0.0], "y": [3.0, 1.0, 2.0]} | cells)
    with pytest.raises(BadInput, match=line):
        open_series(written(tmp_path, made, "parquet"), Declared(reading=Reading(learned_from=True)))


def test_a_limit_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv(batches.LIMIT_VARIABLE, "1G")
    with pytest.raises(BadInput, match="FEDBNSL_IN_MEMORY_BYTES is '1G': it must be a number of bytes"):
        batches.memory_limit()
