"""Discrete data sets from the command line and the forms, and levels that silos have in common."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import OnceBroadcast, single_reply
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Reading, declarations
from fedbnsl.data.folder.folder import read_folder, silo_files
from fedbnsl.data.networks.published import DISCRETE, GAUSSIAN
from fedbnsl.flows.options.prepare import recipe
from fedbnsl.tasks.silo.rows import describe_rows, read_rows
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.described_schema import schema_from_descriptions
from fedbnsl.tasks.transport.in_process import InProcessTransport, in_process_roster
from tests.flows.commands import run

BIF = """variable a { type discrete [ 2 ] { <5, 5+ }; }
variable b { type discrete [ 2 ] { x, y }; }
probability ( a ) { table 0.3, 0.7; }
probability ( b | a ) { (<5) 0.9, 0.1; (5+) 0.2, 0.8; }
"""


MADE = {
    "discrete": (
        ["discrete", "--variables", 5, "--silos", 3, "--rows", 20, "--degree", 1.5, "--levels", "2-3"],
        "3 silos, 60 rows, 5 variables, ",
    ),
    "one number of levels": (["discrete", "--variables", 3, "--levels", "4"], "10 silos, 10000 rows, 3 variables, "),
    "surrogate": (["surrogate", "--variables", 6, "--rows", 100, "--parents", 2], "4 silos, 400 rows, 6 variables, "),
    "surrogate network": (
        ["surrogate", "--network", "asia", "--parents", 1],
        "4 silos, 10000 rows, 8 variables, 8 true",
    ),
    "network": (["network", "--network", "child"], "5 silos, 5000 rows, 20 variables, 25 true edges"),
    "bif": (["network", "--network", "mine.bif", "--rows", 10], "5 silos, 50 rows, 2 variables, 1 true edges"),
    "sachs": (["sachs", "--discrete", "--silos", 8], "8 silos, 853 rows, 11 variables, 17 true edges"),
    "more of sachs": (["sachs", "--discrete", "--rows", 2000], "3 silos, 2000 rows, 11 variables, 17 true edges"),
    "lucas": (["lucas", "--version", "1"], "4 silos, 2000 rows, 12 variables, 6 true edges"),
    "split": (
        ["split", "--table", "words.csv", "--silos", 2, "--skew", "sick"],
        "2 silos, 8 rows, 2 variables, no truth",
    ),
    "split by": (["split", "--table", "words.csv", "--by", "sick"], "2 silos, 8 rows, 1 variables, no truth"),
    "split of codes": (
        ["split", "--table", "codes.csv", "--silos", 2, "--kind", "discrete", "--truth", "truth.csv"],
        "2 silos, 4 rows, 2 variables, 1 true edges",
    ),
}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "mine.bif").write_text(BIF)
    (tmp_path / "words.csv").write_text("sick,colour\n" + "yes,red\nno,blue\nyes,green\nno,red\n" * 2)
    (tmp_path / "codes.csv").write_text("x,y\n0,1\n1,0\n0,1\n1,0\n")
    (tmp_path / "truth.csv").write_text("source,target\nx,y\n")


@pytest.mark.parametrize("case", MADE)
def test_every_kind_of_discrete_data_can_be_prepared(capsys, files, case):
    (kind, *options), summary = MADE[case]
    code, out, err = run(capsys, "prepare", kind, "made", *options)
    assert code == 0, err
    assert out.startswith(f"made: {summary}")
    data = read_folder(Path("made"))
    assert data.schema.kind == "discrete"
    assert all(data.schema.levels[name] for name in data.schema.variables)


WRONG = {
    "levels": (["discrete", "new", "--levels", "2 to 5"], "levels is '2 to 5'"),
    "levels upside down": (["discrete", "new", "--levels", "5-2"], "levels: 5-2 is not a range of numbers from 2 on"),
    "one level": (["discrete", "new", "--levels", "1"], "levels: 1-1 is not a range"),
    "degree": (["discrete", "new", "--degree", "20"], "degree: 20.0 is not between 0 and 19"),
    "concentration": (["discrete", "new", "--concentration", "0"], "concentration: 0.0 is not a positive number"),
    "silos": (["discrete", "new", "--silos", "0"], "silos is '0'"),
    "rows": (["surrogate", "new", "--rows", "1"], "rows is '1'"),
    "latent": (["discrete", "new", "--latent", "-1"], "latent is '-1'"),
    "parents": (["surrogate", "new", "--parents", "21"], "parents: 21 is not between 0 and 20"),
    "surrogate network": (
        ["surrogate", "new", "--network", "chain"],
        "network: 'chain' is not one of alarm, ",
    ),
    "network": (["network", "new", "--network", "chain"], "alarm, andes, arth150, asia,"),
    "bif file": (["network", "new", "--network", "no.bif"], "no.bif: no such file"),
    "bif fault": (
        ["network", "new", "--network", "bad.bif"],
        "bad.bif: line 4: probabilities of 'b': (<6): there is no level",
    ),
    "version": (["lucas", "new", "--version", "4"], "version is '4'"),
    "sachs": (
        ["sachs", "new", "--discrete", "--by-condition"],
        "by_condition is 'True': discrete data are drawn from one",
    ),
    "rows of sachs": (["sachs", "new", "--rows", "900"], "rows is '900': the first condition has 853 cells"),
    "skew": (
        ["split", "new", "--table", "words.csv", "--silos", "2", "--skew", "age"],
        "no column of labels 'age'; it has",
    ),
    "skewed numbers": (
        ["split", "new", "--table", "codes.csv", "--silos", "2", "--skew", "x"],
        "codes.csv has no column of labels, and",
    ),
    "kind": (["split", "new", "--table", "words.csv", "--silos", "2", "--kind", "words"], "kind is 'words'"),
    "truth": (["split", "new", "--table", "words.csv", "--silos", "2", "--truth", "t.csv"], "t.csv: no such file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_one_line_and_nothing_is_written(capsys, files, tmp_path, case):
    words, said = WRONG[case]
    (tmp_path / "bad.bif").write_text(BIF.replace("(<5)", "(<6)"))
    before = sorted(tmp_path.iterdir())
    code, out, err = run(capsys, "prepare", *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err
    assert sorted(tmp_path.iterdir()) == before


BAD = {
    "missing column": ("x\nred\nblue\n", ["two.csv", "'y'", "missing"]),
    "empty cell": ("x,y\nred,\nblue,b\n", ["two.csv", "line 2", "'y'", "empty"]),
    "missing value": ("x,y\nred,a\n?,b\n", ["two.csv", "line 3", "'x'", "empty", "--missing refuse"]),
    "undeclared level": ("x,y\nred,a\ngreen,b\n", ["two.csv", "line 3", "'x'", "'green'", "red, blue"]),
    "continuous column": ("x,y\nred,1.5\nblue,2\n", ["two.csv", "line 2", "'y'", "'1.5'", "continuous"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_discrete_data_are_one_line(capsys, tmp_path, case):
    content, said = BAD[case]
    (tmp_path / "data").mkdir()
    declared = {"x": ["red", "blue"]} if case == "undeclared level" else {}
    (tmp_path / "data" / "about.json").write_text(json.dumps({"kind": "discrete", "levels": declared}))
    (tmp_path / "data" / "one.csv").write_text("x,y\nred,1\nblue,2\n")
    (tmp_path / "data" / "two.csv").write_text(content)
    code, out, err = run(capsys, "learn", "data", "--engine", "inline", "--out", "out", "--missing", "refuse")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert all(word in err for word in said), err


def test_a_learner_of_numbers_refuses_labels(capsys):
    assert run(capsys, "prepare", "discrete", "made", "--variables", 4, "--silos", 2, "--rows", 20)[0] == 0
    code, _, err = run(capsys, "learn", "made", "-a", "fed-sparse", "--engine", "inline")
    assert code == 2
    assert "fed-sparse learns from continuous data, and made is discrete" in err


def test_the_help_names_every_network(capsys):
    code, out, _ = run(capsys, "prepare", "network", "--help")
    assert code == 0
    assert all(name in out for name in DISCRETE | GAUSSIAN)


def test_a_recipe_makes_what_the_command_line_makes(capsys, tmp_path):
    options = {"variables": 6, "silos": 3, "rows": 40, "seed": 5, "parents": 2}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    assert run(capsys, "prepare", "surrogate", "made", *words)[0] == 0
    made, again = read_folder(tmp_path / "made"), recipe("surrogate", **options).build()
    assert made.schema == again.schema
    assert all(np.array_equal(made.tables[silo], again.tables[silo]) for silo in again.tables)


@pytest.fixture
def hosted(tmp_path):
    """A function that writes silos to a folder and returns it with a transport to their services."""
    (tmp_path / "data").mkdir()

    def host(**contents):
        for silo, content in contents.items():
            (tmp_path / "data" / f"{silo}.csv").write_text(content)
        services = {silo: SiloService(silo, path) for silo, path in silo_files(tmp_path / "data").items()}
        return tmp_path / "data", InProcessTransport(services)

    return host


def test_silos_agree_on_the_schema_of_their_folder(hosted):
    folder, silos = hosted(one="x,y\nred,1\nblue,2\n", two="y,x\n3,red\n1,green\n", three="x,y\nred,2\nred,2\n")
    data = read_folder(folder)
    schema = schema_from_descriptions(in_process_roster(silos, silos.present()), declarations({})).schema
    assert (schema.kind, schema.levels, schema.rows) == ("discrete", data.schema.levels, data.schema.rows)
    assert schema.levels == {"x": ("blue", "green", "red"), "y": ("1", "2", "3")}
    for silo, path in silo_files(folder).items():
        rows = read_rows(silo, path, schema)
        order = [schema.variables.index(name) for name in data.schema.variables]
        assert np.array_equal(rows[:, order], data.tables[silo])


def test_one_silo_of_words_makes_all_discrete(hosted):
    _, silos = hosted(one="x,y\n1,2\n2,1\n", two="x,y\n1,high\n2,low\n")
    schema = schema_from_descriptions(in_process_roster(silos, ("one", "two")), declarations({})).schema
    assert (schema.kind, schema.levels) == ("discrete", {"x": ("1", "2"), "y": ("1", "2", "high", "low")})


def test_what_the_coordinator_declares_is_the_schema(hosted):
    folder, silos = hosted(one="x,y\n1,None\n2,a\n", two="x,y\n1,a\n1,a\n")
    about = {"kind": "discrete", "levels": {"y": ["a", "None"]}, "checksums": {}}
    schema = schema_from_descriptions(in_process_roster(silos, ("one", "two")), declarations(about)).schema
    assert schema.levels == {"x": ("1", "2"), "y": ("a", "None")}
    assert read_rows("one", folder / "one.csv", schema).tolist() == [[0, 1], [1, 0]]
    private = describe_rows("two", folder / "two.csv", declarations(about, Reading(private=True)))
    assert {column.labels for column in private.profile.columns.values()} == {None}, "no label that occurs"


def test_numbers_are_described_without_any_level(hosted):
    _, silos = hosted(one="x,y\n1,2\n2,1\n", two="x,y\n1,4\n2,5\n")
    schema = schema_from_descriptions(in_process_roster(silos, ("one", "two")), declarations({})).schema
    assert (schema.kind, schema.levels) == ("continuous", {})


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (
            {"kind": "discrete", "levels": {"x": ["red"]}},
            "one.csv: line 3, column 'x': 'blue' is not one of the levels red",
        ),
        ({"kind": "continuous"}, "one.csv: line 2, column 'x': 'red' is not a number"),
        ({"levels": {"z": ["a"]}}, "'z' is not a column of the data"),
        ({"columns": {"z": "discrete"}}, "'z' is not a column of the data"),
    ],
)
def test_silos_that_cannot_agree(hosted, about, said):
    _, silos = hosted(one="x,y\nred,1\nblue,1\n", two="x,y\nred,1\nblue,1\n")
    with pytest.raises(BadInput) as caught:
        schema_from_descriptions(in_process_roster(silos, ("one", "two")), declarations(about))
    assert said in str(caught.value)


def test_a_level_that_came_after_the_schema_is_refused(hosted):
    folder, silos = hosted(one="x,y\nred,1\nblue,2\n", two="x,y\nred,1\nblue,2\n")
    schema = schema_from_descriptions(in_process_roster(silos, ("one", "two")), declarations({})).schema
    (folder / "one.csv").write_text("x,y\nred,1\ngreen,2\n")
    with pytest.raises(BadInput, match=r"one\.csv: line 3, column 'x': 'green' is not one of the levels blue, red"):
        read_rows("one", folder / "one.csv", schema)


def test_a_folder_hosted_as_one_pooled_silo_has_its_levels(hosted):
    folder, _ = hosted(one="x,y\nred,1\nblue,2\n", two="x,y\nred,1\ngreen,2\n")
    pooled = InProcessTransport({"pooled": SiloService("pooled", folder)})
    schema = schema_from_descriptions(in_process_roster(pooled, ("pooled",)), declarations({})).schema
    assert schema.rows == {"pooled": 4}
    assert read_rows("pooled", folder, schema).tolist() == [[2, 0], [0, 1], [2, 0], [1, 1]]


@dataclass(frozen=True)
class Sent:
    """A silo's rows; only this test algorithm sends them."""

    table: np.ndarray


def test_another_run_with_other_levels_reads_its_own_codes(hosted, monkeypatch):
    _, silos = hosted(one="x,y\nred,1\nblue,2\n", two="x,y\nred,1\nblue,2\n")
    schema = schema_from_descriptions(in_process_roster(silos, ("one", "two")), declarations({})).schema
    sends_its_rows = single_reply(lambda table, *rest: Sent(table), None, None, None, None, Sent)
    monkeypatch.setattr(RunTerms, "algorithm", lambda terms: sends_its_rows)
    tables = []
    for number, levels in enumerate((schema.levels, schema.levels | {"x": ("blue", "green", "red")})):
        terms = RunTerms(f"run {number}", registry.pack(registry.specify("fed-pc")), replace(schema, levels=levels), 0)
        reply = silos.services["one"].solve(terms, 1, wire.encode(OnceBroadcast()))
        tables.append(wire.decode(Sent, reply).table.tolist())
    assert tables == [[[1, 0], [0, 1]], [[2, 0], [0, 1]]]
