"""BIF text is read back as written, for all labels; errors say what cannot be written or read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.core.schema import name_fault
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.bif import format_bif, parse_bif
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.data.generators.random_graphs import random_dag
from fedbnsl.data.generators.random_network import random_network


def assert_same(one, other):
    assert (one.variables, one.levels, one.parents) == (other.variables, other.levels, other.parents)
    for name in one.variables:
        np.testing.assert_array_equal(one.tables[name], other.tables[name], strict=True)


ODD = [
    "<5",
    "12+",
    "Asy/Patch",
    "two words",
    "é",
    "-1",
    "[x]",
    "table",
    "default",
    "property x",
    "variable",
    "/",
    "'",
    "a,b",
    "%2C",
    "//",
    '"q"',
    "{|}",
]
words = st.one_of(st.sampled_from(ODD), st.text(min_size=1, max_size=6)).filter(lambda word: name_fault(word) is None)


@st.composite
def networks(draw):
    """A random network whose variables and labels may be any names that data may have."""
    d, seed = draw(st.integers(1, 5)), draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    names = tuple(draw(st.lists(words, min_size=d, max_size=d, unique=True)))
    levels = {name: tuple(draw(st.lists(words, min_size=1, max_size=4, unique=True))) for name in names}
    order = rng.permutation(d)
    dag = np.triu(rng.random((d, d)) < 0.5, 1)[np.ix_(order, order)]
    parents, tables = {}, {}
    for v, name in enumerate(names):
        parents[name] = tuple(names[u] for u in rng.permutation(np.flatnonzero(dag[:, v])))
        shape = tuple(len(levels[parent]) for parent in parents[name])
        tables[name] = rng.dirichlet(np.full(len(levels[name]), draw(st.sampled_from([0.05, 1.0]))), shape)
    return Network(names, levels, parents, tables)


@given(networks())
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_back_bit_for_bit(network):
    assert_same(parse_bif(format_bif(network)), network)


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("a,b", "a%2Cb"),
        ("(x)", "%28x%29"),
        ("x;", "x%3B"),
        ("{}", "%7B%7D"),
        ('say "x"', '"say %22x%22"'),
        ("a//b", "a%2F/b"),
        ("/*", "%2F*"),
        ("p|q", "p%7Cq"),
        ("a%2Cb", "a%252Cb"),
        ("5%", "5%"),
    ],
)
def test_letters_that_end_a_name_are_written_by_their_codes(word, written):
    network = Network((word,), {word: ("no", word)}, {word: ()}, {word: np.array([0.5, 0.5])})
    text = format_bif(network)
    assert f"variable {written} {{" in text
    assert f"{{ no, {written} }}" in text
    assert_same(parse_bif(text), network)


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
    """This is the format's definition, and pgmpy 1.1.2 reads the file in the same way."""
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
    "no network": ("hello", "line 1: neither a variable nor probabilities: 'hello'"),
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
    "own parent": (HEAD + B.replace("| a", "| b"), "line 6: 'b' has a duplicate parent, or itself as a parent"),
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
def test_a_fault_is_one_line_that_says_where(fault):
    text, message = FAULTS[fault]
    with pytest.raises(BadInput) as caught:
        parse_bif(text, "n.bif")
    said = str(caught.value)
    assert said.startswith("n.bif: ")
    assert message in said
    assert "\n" not in said


def test_a_table_too_large_for_memory_is_refused():
    names = [f"v{i}" for i in range(30)]
    text = "".join(f"variable {v} {{ type discrete [ 2 ] {{ y, n }}; }}\n" for v in names)
    with pytest.raises(BadInput, match="a table of 1073741824 numbers is too large"):
        parse_bif(text + f"probability ( v0 | {', '.join(names[1:])} ) {{ default 0.5, 0.5; }}")
