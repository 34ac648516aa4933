"""Processes that read the parts of a silo's rows: equal bits for any number, and no loss if one ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import cloudpickle
import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.schema import ImputationModel, Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.statistics.coding import coding_of
from fedbnsl.algorithms.statistics.corner_counts import count_corners
from fedbnsl.algorithms.statistics.count_tables import CodePasses, count
from fedbnsl.algorithms.statistics.em import pairwise_complete
from fedbnsl.algorithms.statistics.expected_moments import expected_moments
from fedbnsl.algorithms.statistics.moments import about_means, column_summaries, sum_over_chunks, thin_rows
from fedbnsl.algorithms.statistics.transforms import transformed
from fedbnsl.data.folder import batches, parquet
from fedbnsl.data.folder.about import Declared, Reading
from fedbnsl.data.folder.table import RowView, open_table, part_count
from fedbnsl.tasks.silo import readers as readers_module
from fedbnsl.tasks.silo.publications import row_version
from fedbnsl.tasks.silo.readers import ClusterReaders, ReaderLost, Readers
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.silo.source import FileSource

NOTHING, NUMBERS, LABELS = Declared(), ("x", "y", "z"), ("one", "two", "three")
EMPTY = {"a": (0, 0, 100)}
SETS = np.array([[0, 1], [0, 2], [1, 2], [0, -1]], np.int16)


@pytest.fixture(scope="module", autouse=True)
def small_parts():
    """Everything is read in passes, in parts of a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "IN_MEMORY_BYTES", 0)
        patch.setattr(parquet, "PART_CELLS", 120)
        yield


@pytest.fixture(scope="module")
def readers():
    """Readers by their number of processes."""
    made = {count: Readers("a", count) for count in (1, 2, 3)}
    yield made
    for one in made.values():
        one.close()


def test_the_processor_time_of_readers_is_known(readers):
    def spin(_):  # as a local function it is sent by value
        from time import process_time

        end = process_time() + 0.1
        while process_time() < end:
            pass

    before = readers[2].cpu_seconds()
    list(readers[2].map(spin, range(4)))
    assert readers[2].cpu_seconds() >= before + 0.3
    assert readers[1].cpu_seconds() == 0.0


@pytest.fixture(scope="module")
def trusted():
    """The certificates of an owner's cluster, which Dask's configuration names to its clients."""
    import dask
    from distributed import Security

    security = Security.temporary()
    names = {"ca-file": "tls_ca_file", "client.cert": "tls_client_cert", "client.key": "tls_client_key"}
    tls = {f"distributed.comm.tls.{key}": getattr(security, name) for key, name in names.items()}
    fields = ("ca_file", *(f"{role}_{part}" for role in ("scheduler", "worker", "client") for part in ("cert", "key")))
    with dask.config.set(tls):
        yield {f"tls_{field}": getattr(security, f"tls_{field}") for field in fields}


CLUSTER = """
import json, sys
from distributed import LocalCluster, Security

if __name__ == "__main__":
    security = Security(require_encryption=True, **json.loads(sys.stdin.readline()))
    count = int(sys.argv[1])
    options = {"threads_per_worker": 1, "processes": count > 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(count, security=security, **options) as cluster:
        print(cluster.scheduler_address, flush=True)
        for line in sys.stdin:
            cluster.scale(int(line))
"""


class OwnersCluster:
    """A cluster in processes of its own, which Dask's configuration in this one does not reach."""

    def __init__(self, workers, trusted):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", CLUSTER, str(workers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        self.tell(json.dumps(trusted))
        self.address = self.process.stdout.readline().strip()

    def tell(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


@contextmanager
def owners_cluster(workers, trusted):
    made = OwnersCluster(workers, trusted)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def cluster(trusted):
    """A cluster of two workers of the owner."""
    with owners_cluster(2, trusted) as made:
        yield made


@pytest.fixture(scope="module")
def on_cluster(cluster):
    made = ClusterReaders("a", cluster.address)
    yield made
    made.close()


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Parts of numbers, some empty, and of labels, the last part with few rows: the paths of both folders."""
    rng, paths = np.random.default_rng(2), {}
    numbers = pd.DataFrame(rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3)) + 1e3, columns=NUMBERS)
    numbers["z"] = numbers["z"].mask(rng.random(500) < 0.2)
    labels = pd.DataFrame(rng.integers(0, 3, (500, 3)), columns=LABELS)
    for name, made in {"numbers": numbers, "labels": labels}.items():
        paths[name] = tmp_path_factory.mktemp("rows") / "a"
        paths[name].mkdir()
        for number, (begin, end) in enumerate(pairwise((0, 150, 155, 310, 500))):
            made[begin:end].to_parquet(paths[name] / f"part-{number}.parquet", index=False, row_group_size=60)
    return paths


def passes(rows, kind, mapper, **changes):
    names = NUMBERS if kind == "numbers" else LABELS
    levels = {} if kind == "numbers" else dict.fromkeys(LABELS, ("0", "1", "2"))
    schema = Schema(names, {"a": 500}, "discrete" if levels else "continuous", levels, streamed=("a",), **changes)
    return open_table(rows[kind], NOTHING, mapper).view(schema, "a"), schema


def statistics_of(rows, mapper):
    """An example of each statistic that is computed in passes, by name."""
    table, schema = passes(rows, "numbers", mapper, empty=EMPTY)
    complete, _ = passes(rows, "numbers", mapper, complete_rows=True)
    complete = replace(complete, rows=int((~np.isnan(np.concatenate([*table]))).all(axis=1).sum()))
    codes, labels = passes(rows, "labels", mapper)
    coded = coding_of(labels).encode(codes)
    S = np.eye(3) + 0.5
    root = replace(schema, transforms={"x": "sqrt", "y": "normal-scores"})
    private = open_table(rows["numbers"], replace(NOTHING, reading=Reading(private=True)), mapper).rows(schema, "a")
    assert isinstance(private, RowView)
    return {
        "moments": about_means(complete),
        "moments of labels": about_means(coded),
        "private": about_means(private),
        "columns": vars(column_summaries(table)),
        "transformed": vars(column_summaries(transformed(table, root, "a"))),
        "sums": sum_over_chunks(complete, lambda chunk: np.exp(chunk / 1e3).sum(axis=0)),
        "thin": thin_rows(table, 100),
        "expected": vars(expected_moments(table, coding_of(schema), S)),
        "pairs": pairwise_complete(table, coding_of(schema)),
        "counts": count(CodePasses(codes), np.full(3, 3), SETS),
        "corners": count_corners(CodePasses(codes), np.full(3, 3), SETS, np.array([0, 2, 1], np.int16)),
        "version": vars(row_version(table, schema, b"secret")),
        "profile": repr(open_table(rows["numbers"], NOTHING, mapper).profile()),
    }


def test_results_have_the_same_bits_for_any_number_of_processes(rows, readers):
    assert part_count(rows["numbers"], NOTHING) == 8
    expected = statistics_of(rows, map)
    for count_of_processes, one in readers.items():
        assert_same_bits(statistics_of(rows, one.map), expected, count_of_processes)


def assert_same_bits(found, expected, readers):
    for name, value in expected.items():
        assert wire.encode(found[name]) == wire.encode(value), (name, readers)


@pytest.mark.slow
def test_results_have_the_same_bits_on_a_cluster(rows, on_cluster):
    assert_same_bits(statistics_of(rows, on_cluster.map), statistics_of(rows, map), "cluster")


def test_parts_have_the_rows_of_the_table(rows, readers):
    whole = pd.concat([pd.read_parquet(file) for file in sorted(rows["numbers"].iterdir())])
    complete = whole.dropna().to_numpy()
    found = statistics_of(rows, readers[2].map)
    assert np.allclose(found["moments"][0], complete.mean(axis=0), rtol=1e-12)
    centred = complete - complete.mean(axis=0)
    assert np.allclose(found["moments"][1], centred.T @ centred, rtol=1e-9)
    assert found["columns"]["cells"].tolist() == whole.count().tolist()
    labels = pd.concat([pd.read_parquet(file) for file in sorted(rows["labels"].iterdir())])
    expected = pd.crosstab(labels["one"], labels["two"]).to_numpy().ravel()
    assert found["counts"][:9].tolist() == expected.tolist()
    assert 90 <= len(found["thin"]) <= 111


def test_work_is_done_in_other_processes(rows, readers):
    table, _ = passes(rows, "numbers", readers[2].map)
    ids = set(table.map_parts(lambda part: os.getpid()))
    assert os.getpid() not in ids
    assert 1 <= len(ids) <= 2
    alone, _ = passes(rows, "numbers", readers[1].map)
    assert set(alone.map_parts(lambda part: os.getpid())) == {os.getpid()}


def refuse(part):
    raise BadInput(part)


@pytest.mark.slow
def test_the_workers_of_a_cluster_do_the_work(rows, on_cluster):
    table, _ = passes(rows, "numbers", on_cluster.map)
    ids = set(table.map_parts(lambda part: os.getpid()))
    assert os.getpid() not in ids
    assert 1 <= len(ids) <= 2
    assert list(on_cluster.map(Counter, ["aab"])) == [Counter(a=2, b=1)]
    with pytest.raises(BadInput, match="wrong"):
        list(on_cluster.map(refuse, ["wrong"]))
    (copied,) = on_cluster.map(lambda part: list(on_cluster.map(lambda one: os.getpid(), [part])), [0])
    assert len(copied) == 1  # a reader that is given readers reads alone, and opens no connection


def test_a_worker_of_any_making_multiplies_with_one_thread(monkeypatch):
    """The bits of a product depend on the number of threads."""
    limits = []
    monkeypatch.setattr(readers_module, "threadpool_limits", limits.append)
    assert cloudpickle.loads(readers_module._apply_alone(cloudpickle.dumps(str), 7)) == (True, "7")
    assert limits == [1]


@pytest.mark.parametrize("by", ["processes", pytest.param("cluster", marks=pytest.mark.slow)])
def test_the_first_fault_in_the_order_of_the_rows_is_reported(by, request, tmp_path):
    readers = request.getfixturevalue("readers")[2] if by == "processes" else request.getfixturevalue("on_cluster")
    folder = tmp_path / "b"
    folder.mkdir()
    for number, values in enumerate((["1"] * 60, ["1"] * 59 + ["bad"], ["worse"] * 60)):
        pd.DataFrame({"x": values, "y": values, "z": values}).to_parquet(folder / f"{number}.parquet")
    for mapper in (map, readers.map):
        declared = replace(NOTHING, columns=dict.fromkeys(NUMBERS, "continuous"))
        with pytest.raises(BadInput, match=r"1\.parquet: row 60, column 'x': 'bad'"):
            open_table(folder, declared, mapper).profile()


def test_a_part_with_rows_removed_during_a_run_is_refused(rows, readers):
    table, _ = passes(rows, "numbers", readers[2].map)
    with pytest.raises(BadInput, match="it has 500 rows, not 501 as when the run began"):
        about_means(replace(table, rows=501))


def kill_once(marker: Path, work, part):
    """End this process, unless one has ended before; then do the work."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return work(part)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_a_killed_process_is_one_line_and_the_next_pass_is_complete(tmp_path):
    lines = []
    readers = Readers("clinic", 2, lines.append)
    try:
        with pytest.raises(ReaderLost, match="silo clinic: a process that reads its rows has ended") as lost:
            list(readers.map(partial(kill_once, tmp_path / "killed", str), range(20)))
        assert lines == [f"error: {lost.value}"]
        assert "\n" not in lines[0]
        assert list(readers.map(partial(kill_once, tmp_path / "killed", str), range(20))) == [*map(str, range(20))]
    finally:
        readers.close()


@pytest.mark.slow
def test_a_killed_worker_of_a_cluster_costs_nothing(on_cluster, tmp_path):
    """Dask reads the part again, and begins another worker."""
    assert list(on_cluster.map(partial(kill_once, tmp_path / "killed", str), range(20))) == [*map(str, range(20))]


@pytest.mark.slow
def test_a_cluster_that_ends_is_one_line(trusted):
    lines = []
    with owners_cluster(1, trusted) as ending:
        lost = ClusterReaders("clinic", ending.address, lines.append)
        found = lost.map(lambda part: (time.sleep(0.2), part)[1], range(100))
        assert next(found) == 0
    with pytest.raises(ReaderLost, match=f"silo clinic: the cluster at {lost.address} has lost the workers") as said:
        list(found)
    assert lines == [f"error: {said.value}"]
    assert "\n" not in lines[0]


@pytest.mark.slow
def test_a_cluster_without_workers_is_not_waited_for(trusted, monkeypatch):
    monkeypatch.setattr(readers_module, "CONNECT_SECONDS", 2)
    monkeypatch.setattr(readers_module, "PATIENCE_SECONDS", 0.2)
    with owners_cluster(1, trusted) as emptied:
        left = ClusterReaders("a", emptied.address, lambda line: None)
        found = left.map(lambda part: (time.sleep(0.2), part)[1], range(100))
        assert next(found) == 0
        emptied.tell("0")
        with pytest.raises(ReaderLost, match="has lost the workers"):
            list(found)
        with pytest.raises(BadInput, match=f"silo a: the cluster at {emptied.address} has no worker"):
            list(left.map(str, [1]))


@pytest.mark.slow
def test_a_cluster_that_cannot_read_is_refused_in_one_line(cluster, monkeypatch):
    import dask

    monkeypatch.setattr(readers_module, "CONNECT_SECONDS", 1)
    address = cluster.address
    with (
        dask.config.set({"distributed.comm.tls.ca-file": None}),
        pytest.raises(BadInput, match="does not answer") as refusal,
    ):
        list(ClusterReaders("a", address).map(str, [1]))
    assert "\n" not in str(refusal.value)
    with pytest.raises(BadInput, match=r"the cluster at tcp://127\.0\.0\.1:9 does not answer"):
        list(ClusterReaders("a", "tcp://127.0.0.1:9").map(str, [1]))
    other = ClusterReaders("a", address)
    monkeypatch.setattr(readers_module, "version", lambda name: "0.0.7")
    with pytest.raises(BadInput, match=r"has fedbnsl .* and Python .*, and this silo fedbnsl 0\.0\.7 and Python"):
        list(other.map(str, [1]))


class Fragile:
    """A mapper whose processes are killed in one pass."""

    def __init__(self, readers, folder):
        self.readers, self.folder, self.kills = readers, folder, False

    def map(self, work, parts):
        if self.kills:
            self.kills = False
            work = partial(kill_once, self.folder / "killed", work)
        return self.readers.map(work, parts)


def test_a_silo_whose_reader_is_killed_answers_the_repeated_request_as_if_nothing_had_happened(rows, tmp_path):
    model = ImputationModel(covariance=np.eye(3) + 0.5, rows=500)
    schema = Schema(NUMBERS, {"a": 500}, "continuous", empty=EMPTY, streamed=("a",), imputation_model=model)
    spec = registry.specify("secure-linear", {})
    terms, algorithm = RunTerms("run", registry.pack(spec), schema, 7), registry.build(spec)
    broadcast = wire.encode(algorithm.broadcast(algorithm.open_server(schema)))
    sound = SiloService("a", FileSource("a", rows["numbers"], durable=False))
    expected = sound.solve(terms, 1, broadcast)
    readers = Readers("a", 2, lambda line: None)
    fragile = Fragile(readers, tmp_path)
    service = SiloService("a", FileSource("a", rows["numbers"], mapper=fragile.map))
    try:
        service.admit(terms, behind_masks=False)
        fragile.kills = True
        with pytest.raises(ReaderLost, match="nothing is lost"):
            service.solve(terms, 1, broadcast)
        assert service.round_of("run") is None
        assert service.solve(terms, 1, broadcast) == expected
    finally:
        service.close()
        readers.close()


SERVICE = """
import os, sys, time
from fedbnsl.tasks.silo.readers import Readers
readers = Readers("a", 2)
ids = set(readers.map(lambda part: (time.sleep(0.2), os.getpid())[1], range(8)))
print(*ids, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_readers_end_with_a_service_that_is_killed():
    done = subprocess.run([sys.executable, "-c", SERVICE], capture_output=True, text=True, timeout=60, check=False)
    ids = [int(word) for word in done.stdout.split()]
    assert len(ids) == 2, done.stderr
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{one}").exists() for one in ids):
        assert time.monotonic() < deadline, "a reader outlives its service"
        time.sleep(0.1)
