"""`benchmark`: data × algorithms × seeds, other programs, resuming after a kill, and correct tables."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from fedbnsl import benchmark, learn, prepare
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.benchmark.cells import pooled_frame
from fedbnsl.flows.benchmark.runner import JOURNAL
from fedbnsl.flows.benchmark.spec import read_spec, spec_of
from fedbnsl.flows.benchmark.tables import drawn, latex, markdown, summaries
from fedbnsl.tracking.mlflow.store import log_benchmark
from tests.flows.commands import run

DRAWN = {"prepare": "homogeneous", "variables": 6, "silos": 3, "rows": 200, "name": "drawn"}
PEER = """
import csv, sys
rows = list(csv.reader(open(sys.argv[1])))
assert len(rows) == 601 and sys.argv[3] in ("0", "1")
open(sys.argv[2], "w").write("source,target\\n" + rows[0][0] + "," + rows[0][1] + "\\n")
"""


@pytest.fixture
def peer(tmp_path):
    file = tmp_path / "peer.py"
    file.write_text(PEER)
    return {"program": f"{sys.executable} {file} {{rows}} {{edges}} {{seed}}", "name": "peer"}


def test_rows_are_those_of_single_runs(tmp_path, peer):
    algorithms = ["secure-linear", {"algorithm": "fed-pc", "alpha": 0.001}, peer]
    found = benchmark([DRAWN], algorithms, seeds=2, out=tmp_path / "out", workers=0).rows
    assert list(found["status"].unique()) == ["ok"]
    assert len(found) == 6
    for seed in (0, 1):
        data = prepare("homogeneous", variables=6, silos=3, rows=200, seed=seed)
        one = learn(data, "fed-pc", alpha=0.001, seed=seed, bootstrap=0)
        row = found[(found["algorithm"] == "fed-pc alpha=0.001") & (found["seed"] == seed)].iloc[0]
        assert (row["shd"], row["bytes_up"]) == (one.metrics["shd"], one.metrics["bytes_up"])
    of_peer = found[found["algorithm"] == "peer"]
    assert (of_peer["edges"] == 1).all()
    assert (of_peer["cpu"] > 0).all()
    read = pd.read_csv(tmp_path / "out" / "results.csv")
    np.testing.assert_allclose(read["shd"], found["shd"])
    assert {one.name for one in (tmp_path / "out").iterdir()} >= {"tables.md", "tables.tex", "shd.png", "seconds.png"}


def test_the_cpu_time_of_a_run_is_that_of_its_program_too(tmp_path):
    busy = "import sys, time; [0 for _ in iter(lambda: time.process_time() < 0.9, False)]; "
    busy += "open(sys.argv[1], 'w').write('source,target\\n')"
    learner = {"program": f'''{sys.executable} -c "{busy}" {{edges}} {{rows}}''', "name": "busy"}
    (row,) = benchmark(DRAWN, learner, out=tmp_path / "out", workers=0).rows.to_dict("records")
    assert row["status"] == "ok", row["reason"]
    assert row["cpu"] >= 0.8


def test_programs_get_labels_as_text():
    data = prepare("discrete", variables=4, silos=2, rows=50, seed=1)
    frame = pooled_frame(data)
    assert len(frame) == 100
    for name, levels in data.schema.levels.items():
        assert set(frame[name]) <= set(levels)


def test_a_failing_program_does_not_end_the_others(tmp_path):
    broken = {"program": f"""{sys.executable} -c "exit('no(memory)')" {{rows}} {{edges}}""", "name": "broken"}
    slow = {
        "program": f"""{sys.executable} -c "import time; time.sleep(20)" {{rows}} {{edges}}""",
        "name": "slow",
        "timeout": 0.2,
    }
    absent = {"program": "no-such-program {rows} {edges}", "name": "absent"}
    silent = {"program": "true {rows} {edges}", "name": "silent"}
    found = benchmark(DRAWN, ["secure-sum", broken, slow, absent, silent], out=tmp_path / "out", workers=0).rows
    by = found.set_index("algorithm")
    assert by.loc["secure-sum", "status"] == "ok"
    assert (by.drop("secure-sum")["status"] == "failed").all()
    assert by.loc["broken", "reason"] == "broken ended with 1: no(memory)"
    assert by.loc["slow", "reason"] == "slow took more than 0.2 s"
    assert by.loc["absent", "reason"] == "absent: there is no program no-such-program"
    assert by.loc["silent", "reason"] == "silent ended without a file of edges"
    assert "## 4 of 5 runs failed" in (tmp_path / "out" / "tables.md").read_text()


@pytest.mark.slow(60)
def test_it_goes_on_where_it_was_killed(tmp_path):
    """The process is killed after the first run; the second call does the others, and failed runs again."""
    spec, out = tmp_path / "spec.yaml", tmp_path / "out"
    spec.write_text(json.dumps({"data": [DRAWN], "algorithms": ["fed-sparse", "notears-admm"], "seeds": 6}))
    words = [
        sys.executable,
        "-m",
        "fedbnsl.flows.cli.main",
        "benchmark",
        str(spec),
        "--out",
        str(out),
        "--workers",
        "0",
    ]
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not ((out / JOURNAL).exists() and (out / JOURNAL).read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    before = (out / JOURNAL).read_text().splitlines()
    assert 0 < len(before) < 12
    with (out / JOURNAL).open("a") as journal:
        journal.write('{"key": "cut sho')
        failed = json.loads(before[0]) | {"status": "failed"}
        journal.write("\n" + json.dumps(failed) + "\n")
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=True)
    assert done.stderr.count(" of 12: ") == 12 - len(before) + 1
    read = pd.read_csv(out / "results.csv")
    assert len(read) == 12
    assert (read["status"] == "ok").all()
    again = subprocess.run(words, capture_output=True, text=True, timeout=100, check=True)
    assert " of 12: " not in again.stderr


@pytest.mark.slow
def test_processes_give_the_same_rows(tmp_path):
    scored = ["data", "algorithm", "seed", "shd", "bytes_up", "edges"]
    alone, beside = (
        benchmark([DRAWN], ["secure-linear", "fed-pc"], seeds=2, out=tmp_path / str(n), workers=n).rows for n in (0, 2)
    )
    pd.testing.assert_frame_equal(alone[scored], beside[scored])


@pytest.mark.slow(60)
def test_a_script_without_a_guard_uses_processes(tmp_path):
    script = f"import fedbnsl\nprint(fedbnsl.benchmark([{DRAWN}], ['secure-sum'], seeds=2, out='out', workers=2))"
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run([sys.executable, "script.py"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith("Benchmark(2 of 2 runs succeeded; ")


ROWS = pd.DataFrame(
    {
        "data": ["a|b"] * 6 + ["c_1"] * 2,
        "algorithm": ["x", "x", "x", "y", "y", "y", "x", "y"],
        "seed": [0, 1, 2, 0, 1, 2, 0, 0],
        "status": ["ok"] * 7 + ["failed"],
        "reason": [""] * 7 + ["no rows"],
        "shd": [2.0, 4.0, 3.0, 9.0, 10.0, 8.0, 5.0, np.nan],
        "f1": [0.5, 0.6, 0.4, 0.9, 0.9, 0.9, 0.1, np.nan],
    }
)


def test_tables_have_means_deviations_and_the_best_in_bold():
    text = markdown(ROWS, "study")
    assert "| a\\|b | **3 ± 1** | 9 ± 1 |" in text
    assert "| c_1 | **5** | – |" in text
    assert "| a\\|b | 0.5 ± 0.1 | **0.9 ± 0** |" in text
    assert "- c_1, y, seed 0: no rows" in text
    assert "over 3 seeds" in text
    printed = latex(ROWS, "study")
    assert r"a|b & \textbf{3 $\pm$ 1} & 9 $\pm$ 1 \\" in printed
    assert r"c\_1 & \textbf{5} & -- \\" in printed
    assert printed.count(r"\begin{tabular}") == printed.count(r"\end{tabular}") == 2


def test_every_letter_that_latex_reads_as_a_command_is_escaped():
    printed = latex(ROWS.assign(algorithm="\\^_%&#${}~"), "study")
    assert r"\textbackslash{}\textasciicircum{}\_\%\&\#\$\{\}\textasciitilde{} \\" in printed


def test_what_is_within_a_standard_error_of_the_best_is_as_good():
    rows = ROWS.assign(shd=[2.0, 4.0, 3.0, 3.0, 4.0, 3.5, 5.0, np.nan])
    found = summaries(rows, "shd")
    assert found["a|b", "x"].best
    assert found["a|b", "y"].best
    assert not summaries(ROWS, "shd")["a|b", "y"].best


@pytest.mark.parametrize(
    ("other", "good"), [((2.5,), True), ((2.8,), False), ((2.1, 3.1), True), ((2.9,) * 9, False), ((2.5,) * 9, True)]
)
def test_a_standard_error_has_the_number_of_runs_of_each_algorithm(other, good):
    """The best has the mean 2 of four runs with a standard error of 1/√3; runs of the other failed."""
    values = {"x": (1.0, 3.0, 1.0, 3.0), "y": other}
    rows = pd.DataFrame([{"data": "d", "algorithm": name, "shd": v} for name, own in values.items() for v in own])
    assert summaries(rows, "shd")["d", "x"].best
    assert summaries(rows, "shd")["d", "y"].best == good
    f1 = rows.assign(f1=-rows["shd"])
    assert summaries(f1, "f1")["d", "y"].best == good


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- a", "a spec is a mapping with the keys name, repeats, data, algorithms, seeds, options, timeout"),
        ("data: x\nalgoritms: y", "unknown key 'algoritms': did you mean algorithms?"),
        ("data: []\nalgorithms: fed-pc", "data: name at least one"),
        ("data: nowhere\nalgorithms: fed-pc", "nowhere: no such folder"),
        ("data: {prepare: magic}\nalgorithms: fed-pc", "unknown kind of data 'magic'"),
        ("data: {prepare: homogeneous, seed: 3}\nalgorithms: fed-pc", "the seed of prepared data is that of the run"),
        ("data: {prepare: homogeneous}\nalgorithms: fed-px", "unknown algorithm 'fed-px': did you mean fed-pc"),
        ("data: {prepare: homogeneous}\nalgorithms: {algorithm: fed-pc, alfa: 1}", "fed-pc: unknown setting 'alfa'"),
        ("data: {prepare: homogeneous}\nalgorithms: [fed-pc, fed-pc]", "two are called 'fed-pc'"),
        ("data: {prepare: homogeneous}\nalgorithms: {program: peer}", "the command needs {rows}"),
        ("data: {prepare: homogeneous}\nalgorithms: fed-pc\nseeds: 0", "seeds is '0'"),
        (
            "data: {prepare: homogeneous, name: a}\nalgorithms: {algorithm: fed-sparse, preset: {b: paper}, name: one}",
            "algorithms: one: no preset for the data set 'a'",
        ),
        ("data: {", "not a YAML file"),
    ],
)
def test_a_bad_spec_is_one_line(content, said, tmp_path, capsys):
    file = tmp_path / "spec.yaml"
    file.write_text(content)
    code, _, err = run(capsys, "benchmark", file, "--out", tmp_path / "out")
    assert code == 2
    assert said in err
    assert str(file) in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_folders_are_relative_to_the_spec(tmp_path):
    prepare("homogeneous", tmp_path / "study", variables=4, silos=3, rows=30, seed=1)
    file = tmp_path / "spec.yaml"
    file.write_text("data: study\nalgorithms: secure-sum\nseeds: [3, 5]\n")
    assert [(cell.source.folder, cell.seed) for cell in read_spec(file).cells()] == [
        (str(tmp_path / "study"), 3),
        (str(tmp_path / "study"), 5),
    ]


def test_a_folder_of_something_else_is_not_written_to(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="already exists and is no benchmark"):
        benchmark(DRAWN, "secure-sum", out=tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("workers", [0, 2])
def test_data_in_memory_are_compared_like_folders(tmp_path, workers, peer):
    data = prepare("homogeneous", variables=6, silos=3, rows=200, seed=3)
    variables = list(data.schema.variables)
    tables = {silo: pd.DataFrame(table, columns=variables) for silo, table in data.tables.items()}
    whole = pd.concat([table.assign(hospital=silo) for silo, table in tables.items()])
    truth = pd.DataFrame(data.truth.weights, variables, variables)
    sources = [
        {"data": data, "name": "federated"},
        {"data": tables, "truth": truth, "name": "tables"},
        {"data": whole, "by": "hospital", "truth": truth, "name": "one table"},
    ]
    found = benchmark(sources, ["secure-linear", peer], out=tmp_path / "out", workers=workers).rows
    assert list(found["status"]) == ["ok"] * 6, found["reason"].tolist()
    assert found.loc[found["algorithm"] == "secure-linear", "shd"].nunique() == 1
    assert found["data"].drop_duplicates().tolist() == ["federated", "tables", "one table"]


def test_a_dict_of_tables_is_a_data_set_and_its_rows_are_part_of_the_key():
    data = prepare("homogeneous", variables=4, silos=2, rows=50, seed=3)
    tables = {silo: pd.DataFrame(table) for silo, table in data.tables.items()}
    other = {silo: table + 1 for silo, table in tables.items()}
    keys = {next(spec_of(one, ["pc"], [0]).cells()).key for one in (tables, other, data, [data])}
    assert len(keys) == 3
    with pytest.raises(BadInput, match="give the column with the silo of each row"):
        spec_of(tables["silo-1"], ["pc"])
    with pytest.raises(BadInput, match="data: unknown key 'thruth': did you mean truth"):
        spec_of({"data": data, "thruth": 1}, ["pc"])


def test_the_key_of_a_run_holds_all_that_determines_it():
    keys = [
        next(spec_of(data, [learner], [seed]).cells()).key
        for data, learner, seed in (
            (DRAWN, "fed-pc", 0),
            (DRAWN, "fed-pc", 1),
            (DRAWN | {"rows": 300}, "fed-pc", 0),
            (DRAWN, {"algorithm": "fed-pc", "alpha": 0.2, "name": "fed-pc"}, 0),
        )
    ]
    assert len(set(keys)) == 4
    assert next(spec_of(DRAWN, ["fed-pc"], [0]).cells()).key == keys[0]


@pytest.mark.slow
def test_mlflow_has_a_child_run_for_each_run(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    rows = [{**one, "alpha": 0.1} for one in ROWS.to_dict("records")]
    parent = log_benchmark("study", rows)
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_run(parent).info.experiment_id
    children = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent}'")
    assert len(children) == len(ROWS)
    assert sorted(one.info.status for one in children) == ["FAILED"] + ["FINISHED"] * 7
    (one,) = [one for one in children if one.data.params["data"] == "c_1" and one.info.status == "FINISHED"]
    assert one.data.metrics["shd"] == 5.0
    assert one.data.params["algorithm"] == "x"


def test_a_preset_has_the_settings_of_the_paper(tmp_path):
    """Formerly, benchmarks rejected presets as unknown settings, although `learn` accepted them."""
    papers = {"algorithm": "notears-admm", "preset": "paper", "rounds": 4, "name": "paper"}
    data = {"prepare": "homogeneous", "variables": 5, "silos": 2, "rows": 200}
    found = benchmark(data, [papers, {"algorithm": "notears-admm", "rounds": 4}], out=tmp_path / "out", workers=0)
    assert (found.rows["status"] == "ok").all()
    one, other = found.rows["bytes_up"]
    assert one != other


GENERATOR = """
import sys
from fedbnsl import prepare
prepare("homogeneous", sys.argv[1], variables=4, silos=2, rows=100, seed=int(sys.argv[2]))
"""


def test_a_program_writes_the_data_of_each_seed(tmp_path):
    (tmp_path / "draw.py").write_text(GENERATOR)
    drawn = {"generator": f"{sys.executable} {tmp_path / 'draw.py'} {{folder}} {{seed}}", "name": "drawn"}
    silent = {"generator": "true {folder} {seed}", "name": "silent"}
    found = benchmark([drawn, silent], "secure-sum", seeds=2, out=tmp_path / "out", workers=0).rows
    for seed in (0, 1):
        data = prepare("homogeneous", variables=4, silos=2, rows=100, seed=seed)
        row = found[(found["data"] == "drawn") & (found["seed"] == seed)].iloc[0]
        assert row["shd"] == learn(data, "secure-sum", seed=seed, bootstrap=0).metrics["shd"]
    assert set(found[found["data"] == "silent"]["reason"]) == {"silent ended without a folder of data"}
    with pytest.raises(BadInput, match=r"needs \{seed\}, the seed"):
        spec_of([{"generator": "x {folder}"}], ["secure-sum"])


def test_an_algorithm_for_other_data_is_not_applicable_once_and_has_not_failed(tmp_path):
    found = benchmark(DRAWN, ["secure-sum", "fdbnl"], seeds=3, out=tmp_path / "out", workers=0).rows
    assert set(found[found["algorithm"] == "fdbnl"]["status"]) == {"not applicable"}
    text = (tmp_path / "out" / "tables.md").read_text()
    assert text.count("fdbnl learns from time-series data") == 1
    assert "runs failed" not in text
    before = (tmp_path / "out" / JOURNAL).read_text()
    benchmark(DRAWN, ["secure-sum", "fdbnl"], seeds=3, out=tmp_path / "out", workers=0)
    assert (tmp_path / "out" / JOURNAL).read_text() == before, "nothing is run again"


def test_a_sweep_is_a_run_for_each_value_and_lines_in_pictures(tmp_path):
    rest = {name: value for name, value in DRAWN.items() if name != "rows"}
    swept = {**rest, "sweep": {"rows": [50, 600]}}
    found = benchmark(swept, ["secure-linear", "secure-sum"], seeds=2, out=tmp_path / "out", workers=0).rows
    assert set(found["data"]) == {"drawn, rows 50", "drawn, rows 600"}
    one = learn(prepare("homogeneous", variables=6, silos=3, rows=50, seed=1), "secure-sum", seed=1, bootstrap=0)
    row = found[(found["data_value"] == 50) & (found["seed"] == 1) & (found["algorithm"] == "secure-sum")].iloc[0]
    assert row["shd"] == one.metrics["shd"]
    (axes,) = drawn(found, "shd").axes
    assert axes.get_xlabel() == "rows"
    assert {line.get_label() for line in axes.containers} == {"secure-linear", "secure-sum"}
    assert all(sorted(line[0].get_xdata()) == [50, 600] for line in axes.containers)
    private = {"algorithm": "dp-fed-sparse", "sweep": {"epsilon": [8, 40]}}
    mixed = benchmark(DRAWN, [private, "secure-sum"], out=tmp_path / "mixed", workers=0).rows
    (axes,) = drawn(mixed, "shd").axes
    assert axes.get_xlabel() == "epsilon"
    assert [line.get_label() for line in axes.lines if line.get_linestyle() == "--"] == ["secure-sum"]


@pytest.mark.parametrize("sweep", [3, {}, {"rows": 5}, {"rows": []}, {"rows": ["a"]}, {"rows": [1], "silos": [2]}])
def test_a_sweep_of_another_form_is_refused(sweep):
    with pytest.raises(BadInput, match=r"^data: sweep"):
        spec_of([{"prepare": "homogeneous", "sweep": sweep}], ["secure-sum"])


def test_a_spread_of_rounding_is_none_and_a_chosen_epsilon_is_not_best():
    rows = pd.DataFrame({"data": "d", "algorithm": ["a", "a", "b", "b"], "seed": [0, 1, 0, 1]})
    rows = rows.assign(shd=[3.0, 3.0 + 1e-15, 4.0, 5.0], epsilon=[1.0, 1.0, 2.0, 2.0], status="ok", reason="")
    assert summaries(rows, "shd")["d", "a"].text == "3 ± 0"
    assert not any(one.best for one in summaries(rows, "epsilon").values())
    assert "**1 ± 0**" not in markdown(rows, "x")
