"""Runs after few rows have changed since an earlier run: scheduled runs are skipped, and remote owners refuse."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedbnsl.data.folder.folder import silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.learn import learn
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.options.repeat import HOOKS, RepeatSettings
from fedbnsl.tasks.silo.policy import NotAllowed, Policy
from tests.flows.engines.test_repeat import hook_to, told_in
from tests.flows.owners import owners_of

NIGHTLY = RepeatSettings(deployment="nightly")


@pytest.fixture
def study(tmp_path):
    """A folder of three silos; without about.json, whose checksums would refuse a change."""
    write_folder(tmp_path / "study", homogeneous(variables=4, silos=3, rows=60, seed=1))
    (tmp_path / "study" / "about.json").unlink()
    return tmp_path / "study"


def append_rows(file, count):
    """Add `count` rows, all different from existing ones."""
    lines = file.read_text().splitlines()
    more = [",".join(f"{float(cell) + 0.001 * (k + 1):.6f}" for cell in lines[1].split(",")) for k in range(count)]
    file.write_text("\n".join([*lines, *more]) + "\n")


@pytest.mark.slow(60)
def test_a_night_with_few_changes_is_skipped_and_the_last_publication_stands(server, study, tmp_path, monkeypatch):
    monkeypatch.setenv(HOOKS, hook_to(tmp_path / "told", "unchanged", "failure", "learned").model_dump_json())

    def night(name, repeat=NIGHTLY, **more):
        settings = LearnSettings(data=str(study), algorithm="secure-sum", name=name, **more)
        return learn(settings, repeat, return_state=True)

    assert night("monday").name == "Completed"
    last = Path("runs/.repeated/nightly.json").read_text()
    append_rows(study / "silo-2.csv", 9)
    for name, repeat in (("tuesday", NIGHTLY), ("again", NIGHTLY.model_copy(update={"unchanged": "learn"}))):
        skipped = night(name, repeat)
        assert (skipped.type.value, skipped.name) == ("COMPLETED", "Skipped")
        assert skipped.message.startswith("silo silo-2: fewer than 10 rows changed since an earlier publication")
        assert not Path("runs", name).exists()
    assert Path("runs/.repeated/nightly.json").read_text() == last
    assert night("weekly", RepeatSettings(deployment="weekly")).name == "Skipped", "the silo's record counts, not ours"
    append_rows(study / "silo-2.csv", 10)
    assert night("wednesday").name == "Completed"
    assert [message["event"] for message in told_in(tmp_path / "told")] == ["learned", *["unchanged"] * 3, "learned"]
    append_rows(study / "silo-2.csv", 1)
    assert night("thursday", NIGHTLY.model_copy(update={"changed_rows": 0})).name == "Completed"


@pytest.mark.slow
def test_a_run_by_hand_on_a_folder_of_ones_own_is_never_refused(server, study):
    for name in ("one", "two"):
        learn(LearnSettings(data=str(study), algorithm="secure-sum", name=name))
        append_rows(study / "silo-2.csv", 1)


@pytest.mark.slow
def test_over_tls_an_owner_refuses_in_one_line_at_both_ends(server, study, tmp_path, capsys):
    policies = {"silo-2": Policy(rows=5)}
    with owners_of(silo_files(study), tmp_path / "federation", policies) as owners:
        words = ["learn", "--federation", owners.file, "-a", "secure-sum", "--out"]

        def run(out):
            with pytest.raises(SystemExit) as left:
                main([*map(str, words), str(tmp_path / out)])
            return left.value.code, capsys.readouterr().err.splitlines()

        (owners.file.parent / "about.json").write_text('{"kind": "continuous"}')
        assert run("one")[0] == 0
        append_rows(study / "silo-2.csv", 1)
        code, said = run("two")
        assert code == 2
        assert said[-1].startswith("error: silo silo-2: fewer than 10 rows changed since an earlier publication")
        assert said[-1].endswith("wait until 10 rows have changed, or use --epsilon if its owner limits ε")
        assert owners.said[-1].startswith("refused: silo silo-2: fewer than 10 rows changed")
        assert not (tmp_path / "two").exists()
        append_rows(study / "silo-2.csv", 9)
        assert run("three")[0] == 0


@pytest.mark.slow
def test_over_tls_a_sum_over_a_subset_of_the_silos_is_refused(server, study, tmp_path):
    policies = dict.fromkeys(silo_files(study), Policy(masked=True, silos=2))
    with owners_of(silo_files(study), tmp_path / "federation", policies) as owners:
        (owners.file.parent / "about.json").write_text('{"kind": "continuous"}')
        asked = {"data": str(owners.file.parent), "federation": str(owners.file), "algorithm": "secure-sum"}
        learn(LearnSettings(**asked, out="one"))
        with pytest.raises(NotAllowed, match="a sum over other silos than before"):
            learn(LearnSettings(**asked, out="two", silos=("silo-1", "silo-2")))
        learn(LearnSettings(**asked, out="three"))


@pytest.mark.slow(120)
def test_on_machines_of_their_own(study, tmp_path):
    """Coordinator, silos and runs are separate processes, with the policy that `init` writes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    program = [sys.executable, "-m", "fedbnsl.flows.cli.main"]
    silos = sorted(silo_files(study))
    init = [*program, "federation", "init", "made", "--silos", ",".join(silos), "--address", address]
    subprocess.run(init, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    running, logs = [], {silo: tmp_path / f"{silo}.log" for silo in silos}

    def start(log, *words):
        with log.open("w") as out:
            running.append(subprocess.Popen([*program, *map(str, words)], cwd=tmp_path, stdout=out, stderr=out))

    def run(out):
        options = {"--federation": "made/coordinator/federation.toml", "--algorithm": "secure-sum", "--out": out}
        words = [*program, "learn", *(word for option in options.items() for word in option)]
        env = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
        return subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280, check=False)

    try:
        start(tmp_path / "coordinator.log", "coordinator", "start", "--federation", "made/coordinator/federation.toml")
        for folder in ("coordinator", *silos):
            (tmp_path / "made" / folder / "about.json").write_text('{"kind": "continuous"}')
        for silo in silos:
            file = tmp_path / "made" / silo / "silo.toml"
            shutil.copy(study / f"{silo}.csv", file.parent / "rows.csv")
            file.write_text(re.sub(r'^data = ".*"$', 'data = "rows.csv"', file.read_text(), flags=re.M))
            start(logs[silo], "silo", "start", "--config", file)
        deadline = time.monotonic() + 120
        while not all("has joined" in log.read_text() for log in logs.values()):
            assert time.monotonic() < deadline, {silo: log.read_text() for silo, log in logs.items()}
            time.sleep(0.3)
        first = run("one")
        assert first.returncode == 0, first.stderr
        append_rows(tmp_path / "made" / "silo-2" / "rows.csv", 1)
        second = run("two")
        assert second.returncode == 2, second.stderr
        assert "error: silo silo-2: fewer than 10 rows changed since an earlier publication" in second.stderr
        assert "Traceback" not in second.stderr
        assert "refused: silo silo-2: fewer than 10 rows changed" in logs["silo-2"].read_text()
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(30)
