"""What a worker reads of its own file: the schema's columns in their order, for all file formats."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches
from fedbnsl.data.folder.about import declarations
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.tasks.silo.rows import describe_rows, read_rows

NAMES = ("x", "y", "z")


def frames(rows=60):
    """Frames of silos with 40, 50 and 60 rows, different orders of columns and different means."""
    rng = np.random.default_rng(3)
    made = {}
    for k, (silo, order) in enumerate((("a", "xyz"), ("b", "zxy"), ("c", "yzx"))):
        x = rng.normal(size=rows - 10 * k) + k
        y = 2 * x + rng.normal(size=len(x))
        z = y - x + rng.normal(size=len(x))
        made[silo] = pd.DataFrame({"x": x, "y": y, "z": z})[list(order)]
    return made


def folder_of(path, forms):
    """Write a file a silo, in these forms."""
    path.mkdir()
    for silo, frame in frames().items():
        if forms[silo] == "csv":
            frame.to_csv(path / f"{silo}.csv", index=False)
        else:
            frame.to_parquet(path / f"{silo}.parquet", index=False)
    return path


FORMS = {
    "csv": dict.fromkeys("abc", "csv"),
    "parquet": dict.fromkeys("abc", "parquet"),
    "both": {"a": "csv", "b": "parquet", "c": "csv"},
}


@pytest.mark.parametrize("passes", [False, True], ids=["in memory", "in passes"])
@pytest.mark.parametrize("name", FORMS)
def test_a_worker_has_the_columns_in_the_order_of_the_schema(name, passes, tmp_path, monkeypatch):
    if passes:
        monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 100)
    folder = folder_of(tmp_path / "set", FORMS[name])
    schema = read_folder(folder).schema
    assert schema.variables == NAMES
    assert bool(schema.streamed) == passes
    for silo, frame in frames().items():
        source = folder / f"{silo}.{FORMS[name][silo]}"
        assert sorted(describe_rows(silo, source).variables) == list(NAMES)
        rows = read_rows(silo, source, schema)
        table = np.vstack(list(rows)) if passes else rows
        np.testing.assert_array_equal(table, frame[list(NAMES)].to_numpy())


def test_the_form_of_the_files_changes_nothing_that_is_learned(tmp_path):
    found = {name: learn(folder_of(tmp_path / name, forms), "secure-sum") for name, forms in FORMS.items()}
    frame = learn(frames(), "secure-sum")
    assert frame.result.structure.adjacency.any()
    for one in found.values():
        assert one.weights.equals(frame.weights)
        assert one.result.schema.rows == {"a": 60, "b": 50, "c": 40}
        assert one.model == frame.model


def test_conditions_that_a_coordinator_invents_or_that_changed_are_refused(tmp_path):
    frame = frames()["a"].assign(drug=["ly", "pma", "pma"] * 20)
    (tmp_path / "folder").mkdir()
    frame.to_csv(tmp_path / "folder" / "a.csv", index=False)
    declared = declarations({"condition": "drug", "targets": {"ly": ["x"]}})
    described = describe_rows("a", tmp_path / "folder" / "a.csv", declared)
    assert described.profile.conditions == (("ly", 20), ("pma", 40))
    schema = Schema(NAMES, {"a": 60}, stretches={"a": (20, 40)}, condition_names={"a": ("ly", "pma")})
    assert len(read_rows("a", tmp_path / "folder" / "a.csv", schema, declared)) == 60
    for lie in ({"stretches": {"a": (1, 59)}}, {"condition_names": {"a": ("pma", "ly")}}, {"stretches": {}}):
        with pytest.raises(BadInput, match="its conditions or their numbers of rows have changed"):
            read_rows("a", tmp_path / "folder" / "a.csv", replace(schema, **lie), declared)
    with pytest.raises(BadInput, match="has no column of conditions, but the run has conditions of its rows"):
        read_rows("a", tmp_path / "folder" / "a.csv", replace(schema, stretches={"a": (1, 59)}))


@pytest.mark.parametrize("now", [39, 41])
def test_events_that_were_added_or_removed_since_the_run_began_are_refused(now, tmp_path):
    path, declared = tmp_path / "a.csv", declarations({"kind": "events", "window": [0, 100]})
    events = pd.DataFrame({"device": 1, "time": np.arange(1, 50), "event": ["up", "down", "lost"] * 16 + ["up"]})
    events[:40].to_csv(path, index=False)
    described = describe_rows("a", path, declared)
    schema = Schema(described.types, {"a": described.rows}, kind="events")
    assert read_rows("a", path, schema, declared).shape[0] == 40
    events[:now].to_csv(path, index=False)
    with pytest.raises(BadInput, match=f"it has {now} events, but had 40 when the run began"):
        read_rows("a", path, schema, declared)
