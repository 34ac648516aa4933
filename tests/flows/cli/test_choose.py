"""`fedbnsl choose`: its recommendation for each kind of data; with an ε, it reads no rows."""

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.amputate import amputate
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.data.generators.mixed import mixed
from fedbnsl.flows.cli import choose as module
from tests.flows.commands import run

DATA = {
    "continuous": lambda: homogeneous(5, 3, 120, 1),
    "discrete": lambda: discrete(variables=5, silos=2, rows=300, seed=3),
    "time-series": lambda: dynamic(4, 3, 150, 2),
    "mixed": lambda: amputate(mixed(6, 2, 300, 1), "mcar", 0.2, np.random.default_rng(1)),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def made(kind):
        write_folder(tmp_path / kind, DATA[kind]())
        return tmp_path / kind

    return made


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("continuous", ("secure-linear", "fed-sparse", "secure-lingam", "360 in 3 silos", "standard deviations")),
        ("discrete", ("secure-boss", "fed-pc", "fed-ges", "600 in 2 silos", "3 to 4 a variable", "for all pairs")),
        (
            "mixed",
            ("secure-boss", "fed-pc", "fed-fci", "a variable of 3", "20 % of all", "standard deviations"),
        ),
        ("time-series", ("secure-linear", "pfdbnl", "fdbnl", "unbroken", "with one lag")),
    ],
)
def test_the_choice_and_two_others_are_shown(capsys, folder, kind, words):
    path = folder(kind)
    code, out, err = run(capsys, "choose", path)
    assert code == 0, err
    assert all(word in out for word in words), out
    assert out.index("auto") < out.index(words[0].split()[0])
    assert f"fedbnsl learn {path}" in out
    assert not (path.parent / "runs").exists()


@pytest.mark.parametrize(("kind", "first"), [("continuous", "secure-sum"), ("time-series", "secure-sum -p lags=auto")])
def test_with_a_budget_the_rows_are_not_looked_at(capsys, folder, monkeypatch, kind, first):
    path = folder(kind)

    def looked(*given):
        raise AssertionError("it looked at the rows")

    monkeypatch.setattr("fedbnsl.data.folder.folder.read_folder", looked)
    monkeypatch.setattr("fedbnsl.algorithms.statistics.moments.column_summaries", looked)
    code, out, err = run(capsys, "choose", path, "--epsilon", "2")
    assert code == 0, err
    assert out.index("auto") < out.index(first)
    assert "dp-covariance" in out
    assert "--epsilon 2" in out
    assert "standard deviations" not in out


def test_it_reads_the_folder_as_learn_does_and_prints_the_command(capsys, folder):
    path = folder("mixed")
    (path / "about.json").unlink()
    silo = sorted(path.glob("silo*.csv"))[0]
    silo.write_text("".join(f"{line.rstrip()},{'ward' if i == 0 else 'A'}\n" for i, line in enumerate(silo.open())))
    code, _, err = run(capsys, "choose", path)
    assert code == 2
    assert "'ward'" in err
    code, out, err = run(capsys, "choose", path, "--ignore", "ward,x1", "--secure")
    assert code == 0, err
    assert "5 variables" in out
    assert out.splitlines()[-1] == f"fedbnsl learn {path} --ignore ward,x1 --secure"
    code, out, err = run(capsys, "choose", path, "--columns", "common")
    assert code == 0, err
    assert out.splitlines()[-1] == f"fedbnsl learn {path} --columns common"


@pytest.mark.parametrize("columns", [60, 80])
def test_the_choices_are_readable_lines(capsys, folder, monkeypatch, columns):
    path = folder("mixed")
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, err = run(capsys, "choose", path)
    assert code == 0, err
    *lines, command = out.splitlines()
    assert command == f"fedbnsl learn {path}"
    assert max(map(len, lines)) <= columns
    assert not set("│┃─━") & set(out)
    words = " ".join(out.split())
    for entry in ("secure-boss", "fed-pc", "fed-fci"):
        assert all(word in words.split() for word in registry.entry(entry).disclosure.split())


def test_a_private_choice_for_labels_is_a_private_learner(capsys, folder):
    code, out, err = run(capsys, "choose", folder("discrete"), "--epsilon", "2")
    assert code == 0, err
    assert "fed-pc" in out
    assert "secure-boss" not in out


@pytest.mark.parametrize("epsilon", ["0", "-1"])
def test_a_budget_that_means_nothing_is_refused(capsys, folder, epsilon):
    code, out, err = run(capsys, "choose", folder("continuous"), "--epsilon", epsilon)
    assert code == 2
    assert out == ""
    assert "epsilon" in err
    assert err.count("\n") == 1


def test_columns_that_are_all_alike_and_means_apart_are_told():
    data = homogeneous(3, 2, 200, 5)
    tables = {silo: (X - X.mean(axis=0)) / X.std(axis=0) for silo, X in data.tables.items()}
    tables["silo-2"][:, 1] += 4
    facts = dict(module.scale_ranges(type(data)(data.schema, tables, None, {})))
    assert facts["standard deviations"].endswith("(all alike, as after standardising)")
    assert facts["silos' means"] == "up to 4 standard deviations apart (x2)"
