"""The BIF reader against pgmpy's, against the repository's own counts, and on what it must refuse."""

import gzip
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.generators.linear import random_dag
from fedbnsl.data.generators.random_network import random_network
from fedbnsl.data.networks.bif import parse_bif, read_bif
from fedbnsl.data.networks.carried import carried_file
from fedbnsl.data.networks.catalogue import DISCRETE
from fedbnsl.data.networks.published import FOLDER, discrete_network

COUNTS = {  # nodes, edges, free parameters: bnlearn Bayesian Network Repository
    "child": (20, 25, 230),
    "insurance": (27, 52, 1008),
    "water": (32, 66, 10083),
    "mildew": (35, 46, 540150),
    "alarm": (37, 46, 509),
    "barley": (48, 84, 114005),
    "hailfinder": (56, 66, 2656),
    "hepar2": (70, 123, 1453),
    "win95pts": (76, 112, 574),
    "pathfinder": (109, 195, 72079),
    "andes": (223, 338, 1157),
    "diabetes": (413, 602, 429409),
    "pigs": (441, 592, 5618),
    "link": (724, 1125, 14211),
    "munin": (1041, 1397, 80592),
    "asia": (8, 8, 18),
    "cancer": (5, 4, 10),
    "earthquake": (5, 4, 10),
    "survey": (6, 6, 21),
    "sachs": (11, 17, 178),
}


@pytest.mark.parametrize("name", COUNTS)
def test_sizes_are_those_of_the_repository_and_reading_takes_less_than_two_seconds(name):
    before = time.process_time()
    network = discrete_network(name)
    assert time.process_time() - before < 2
    free = sum(table.size // table.shape[-1] * (table.shape[-1] - 1) for table in network.tables.values())
    assert (len(network.variables), int(network.structure.adjacency.sum()), free) == COUNTS[name]
    assert network.structure.acyclic
    assert all(np.allclose(table.sum(axis=-1), 1, atol=1e-6) for table in network.tables.values())


def test_every_discrete_network_of_the_wheel_is_in_the_catalogue():
    folder = carried_file("pgmpy", f"{FOLDER}/asia.bif.gz", "").parent
    assert {path.name.removesuffix(".bif.gz") for path in folder.glob("*.bif.gz")} == set(DISCRETE)


@pytest.mark.parametrize("name", ["child", "alarm", "insurance"])
def test_the_tables_are_those_pgmpy_reads(name):
    from pgmpy.readwrite import BIFReader

    path = carried_file("pgmpy", f"{FOLDER}/{name}.bif.gz", "")
    theirs = BIFReader(string=gzip.decompress(path.read_bytes()).decode()).get_model()
    ours = read_bif(path)
    assert set(ours.variables) == set(theirs.nodes)
    for cpd in theirs.get_cpds():
        v, parents = cpd.variable, cpd.variables[1:]
        assert tuple(parents) == ours.parents[v]
        for parent in (v, *parents):
            assert tuple(cpd.state_names[parent]) == ours.levels[parent]
        assert np.array_equal(np.moveaxis(cpd.values, 0, -1), ours.tables[v])


def test_labels_that_are_no_words():
    network = discrete_network("child")
    assert network.levels["LowerBodyO2"] == ("<5", "5-12", "12+")
    assert network.levels["XrayReport"] == ("Normal", "Oligaemic", "Plethoric", "Grd_Glass", "Asy/Patchy")
    assert network.levels["CardiacMixing"] == ("None", "Mild", "Complete", "Transp.")


def test_a_table_read_off_by_hand():
    asia = discrete_network("asia")
    assert asia.parents["dysp"] == ("bronc", "either")
    assert asia.tables["dysp"].tolist() == [[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.1, 0.9]]]


def as_bif(network, rng):
    """Write a network with its blocks and rows in any order, comments, properties and odd spaces between them."""
    blocks = []
    for v in network.variables:
        labels = ", ".join(network.levels[v])
        blocks.append(f"variable {v}\n{{ property x = 1 ;\n type discrete[{len(network.levels[v])}] {{{labels}}};}}")
        given = network.parents[v]
        rows = []
        for at in np.ndindex(network.tables[v].shape[:-1]):
            numbers = " , ".join(repr(float(number)) for number in network.tables[v][at])
            names = ",".join(network.levels[parent][code] for parent, code in zip(given, at, strict=True))
            rows.append(f"( {names}) {numbers} ;" if given else f"table {numbers};")
        head = f"{v} | {', '.join(given)}" if given else v
        blocks.append(f"probability({head} ){{\n{chr(10).join(rng.permutation(rows))}\n}}")
    gap = ["\n", "\n// probability ( a | b ) {\n", " /* variable\n x { } */ "]
    first = [block for block in blocks if block.startswith("variable")]
    rest = list(rng.permutation([block for block in blocks if not block.startswith("variable")]))
    return "network a { property y; }" + "".join(rng.choice(gap) + block for block in first + rest)


@given(st.integers(2, 7), st.integers(0, 12), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_what_is_written_in_any_order_is_read(variables, edges, seed):
    rng = np.random.default_rng(seed)
    dag = random_dag(variables, min(edges, variables * (variables - 1) // 2), rng)
    network = random_network(dag, tuple(f"v{i}" for i in range(variables)), (2, 4), None, rng)
    back = parse_bif(as_bif(network, rng))
    assert back.variables == network.variables
    assert (back.levels, back.parents) == (network.levels, network.parents)
    assert all(np.array_equal(back.tables[v], network.tables[v]) for v in network.variables)


HEAD = """network unknown {
}
variable a { type discrete [ 2 ] { yes, no }; }
variable b { type discrete [ 3 ] { low, mid, high }; }
probability ( a ) { table 0.2, 0.8; }
"""
B = "probability ( b | a ) {\n  (yes) 0.1, 0.2, 0.7;\n  (no) 0.5, 0.25, 0.25;\n}\n"


def test_a_flat_table_counts_the_variable_itself_slowest():
    """As the format says, and as pgmpy 1.1.2 reads this one."""
    text = HEAD + "probability ( b | a ) { table 0.1, 0.5, 0.2, 0.25, 0.7, 0.25; }"
    assert parse_bif(text).tables["b"].tolist() == parse_bif(HEAD + B).tables["b"].tolist()


def test_a_default_stands_for_the_rows_that_are_not_listed():
    text = HEAD + "probability ( b | a ) { default 0.1, 0.2, 0.7; (no) 0.5, 0.25, 0.25; }"
    assert parse_bif(text).tables["b"].tolist() == [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]


def test_names_in_quotation_marks():
    network = parse_bif(
        'variable "the a" { type discrete [2] { "<5", x }; } probability ( "the a" ) { table 0.5, 0.5; }'
    )
    assert network.levels == {"the a": ("<5", "x")}


FAULTS = {
    "no network": ("hello", "line 1: neither a variable nor probabilities, 'hello'"),
    "nothing": ("", "no columns"),
    "half a block": (HEAD + "variable c { type discrete [ 2 ] { yes, no };", "line 6: neither a variable nor"),
    "variable twice": (
        HEAD + "variable a { type discrete [ 2 ] { x, y }; }",
        "line 6: the variable 'a' is declared twice",
    ),
    "levels": (
        HEAD + "variable c { type discrete [ 3 ] { x, y }; }",
        "line 6: the variable 'c' has 3 levels, but names x, y",
    ),
    "level twice": (HEAD + "variable c { type discrete [ 2 ] { x, x }; }", "has 2 levels, but names x, x"),
    "no table": (HEAD, "the variable 'b' has no probabilities"),
    "table twice": (HEAD + B + B, "line 10: the probabilities of 'b' are given twice"),
    "unknown variable": (HEAD + B.replace("| a", "| c"), "line 6: the variable 'c' is not declared"),
    "own parent": (HEAD + B.replace("| a", "| b"), "line 6: 'b' has a parent twice, or itself"),
    "unknown level": (
        HEAD + B.replace("(no)", "(maybe)"),
        "line 6: probabilities of 'b': (maybe): there is no level 'maybe'",
    ),
    "too many levels": (HEAD + B.replace("(no)", "(no, no)"), "(no, no) does not name 1 parents' levels"),
    "row twice": (HEAD + B.replace("(no)", "(yes)"), "the row (yes) is given twice"),
    "row missing": (HEAD + B.replace("  (no) 0.5, 0.25, 0.25;\n", ""), "a configuration of its parents is missing"),
    "number missing": (HEAD + B.replace("0.25, 0.25", "0.25"), "5 numbers where 6 are needed"),
    "no number": (HEAD + B.replace("0.25, 0.25", "x, 0.25"), "could not convert string to float"),
    "sum": (HEAD + B.replace("0.5, 0.25", "0.4, 0.25"), "a row is negative or sums to 0.9, not 1"),
    "negative": (HEAD + B.replace("0.1, 0.2, 0.7", "-0.1, 0.4, 0.7"), "a row is negative"),
    "something else": (HEAD + B.replace("(no)", "else"), "'else 0.5, 0.25, 0.25;' is not understood"),
    "cycle": (
        HEAD.replace("( a ) { table 0.2, 0.8; }", "( a | b ) { default 0.2, 0.8; }") + B,
        "has the cycle a -> b -> a",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_that_says_where(tmp_path, fault):
    text, message = FAULTS[fault]
    path = tmp_path / "n.bif"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_bif(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert message in said
    assert "\n" not in said


def test_a_table_too_large_for_memory_is_refused():
    names = [f"v{i}" for i in range(30)]
    text = "".join(f"variable {v} {{ type discrete [ 2 ] {{ y, n }}; }}\n" for v in names)
    with pytest.raises(BadInput, match="a table of 1073741824 numbers is too large"):
        parse_bif(text + f"probability ( v0 | {', '.join(names[1:])} ) {{ default 0.5, 0.5; }}")


def test_a_file_that_cannot_be_read(tmp_path):
    for content, name, message in (
        (None, "n.bif", "no such file"),
        (b"no gzip", "n.bif.gz", "cannot be read: Not a gzipped file"),
        (gzip.compress(b"variable" * 99)[:20], "n.bif.gz", "cannot be read: "),
        (b"variable \xe9", "n.bif", "byte 9: not UTF-8 text"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput) as caught:
            read_bif(tmp_path / name)
        assert message in str(caught.value)
        (tmp_path / name).unlink(missing_ok=True)


def test_the_order_of_the_parents_matters():
    """A reader that counted the first parent fastest would read another table."""
    network = discrete_network("asia")
    dysp = network.tables["dysp"]
    assert not np.array_equal(dysp, np.swapaxes(dysp, 0, 1))
