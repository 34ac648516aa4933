import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import get_args

import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import Outcome
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.report.report import report_html
from fedbnsl.tracking.report.sections import warnings
from fedbnsl.tracking.report.tables import data_header, data_rows
from fedbnsl.tracking.result import NO_PARAMETERS, Parameters, PrivacySpent
from tests.tracking.golden import RUNS
from tests.tracking.report.page import one_line, read

VOID = {"meta", "br"}


class Balanced(HTMLParser):
    """Fails where an element is closed that is not open."""

    def __init__(self):
        super().__init__()
        self.open, self.links = [], []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(html):
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    return parser


def test_the_report_needs_nothing_else(chain):
    html = report_html(chain)
    policy = re.search('Content-Security-Policy" content="([^"]*)"', html).group(1)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-")
    own = html[: html.index("<script")]
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\((?!#)|<link", own)
    assert not re.search(r"<script[^>]*src=", html)
    assert all(link.startswith("#") for link in parsed(html).links)


def test_names_from_the_data_are_escaped(chain):
    names = ("<b>bold</b>", 'a"&b', "c")
    wild = replace(
        chain,
        dataset="<script>alert(1)</script>",
        structure=Structure(names, chain.structure.weights),
        parameters=NO_PARAMETERS,
        truth=Structure(names, chain.structure.weights),
        lost=("<i>north</i>",),
        outcome="silo lost",
        params={"<u>": "<s>"},
        about={"truth": "<em>"},
    )
    html = report_html(wild)
    assert not re.search(r"<(b>bold|script>alert|i>north|u>|s>|em>)", html)
    assert "&lt;b&gt;bold&lt;/b&gt; → a&#34;&amp;b" in html
    parsed(html)


def test_it_says_what_happened(chain):
    html = one_line(report_html(chain))
    for said in (
        "2 edges among 3 variables, learned from 70 rows in 2 silos. The run converged after 2 rounds.",
        "True graph: drawn by hand.",
        "This run had no privacy budget: replies are exact, without added noise.",
        "✓ correct",
        "rho1",
    ):
        assert said in html
    assert warnings(chain) == []


def test_edges_are_sorted_by_strength(chain):
    html = report_html(chain)
    assert html.index("a → b") < html.index("b → c")


def test_warnings(chain, cyclic):
    assert [text.split(":")[0] for text in warnings(cyclic)] == ["Not converged", "The graph contains a cycle"]
    assert "a → b → c → a" in warnings(cyclic)[1]
    assert "north, south stopped" in warnings(replace(chain, outcome="silo lost", lost=("north", "south")))[0]
    assert "The true graph is not known, so there is no comparison." in report_html(cyclic)


def test_a_pag_is_explained_and_shown_with_its_marks(chain):
    marks = np.array([[0, 2, 0], [3, 0, 2], [0, 2, 0.0]])
    pag = Structure(("a", "b", "c"), marks, "pag")
    none = Parameters(None, "a PAG leaves causes and confounding undecided")
    figures = {"shd": 1, "shd_lenient": 0, "smhd": None, "tests": 1234, "tests_left_out": 0}
    html = report_html(replace(chain, structure=pag, truth=pag, metrics=chain.metrics | figures, parameters=none))
    for said in ("a o→ b", "b ↔ c", "This graph is a PAG", "<span>SHD</span>", "<span>lenient SHD</span>", "1,234"):
        assert said in html
    assert "No parameters: a PAG leaves causes and confounding undecided." in html
    assert "true weight" not in html[: html.index("<script")]
    assert "–" not in html[html.index("<h2>Scores") : html.index("<h2>Edges")]  # what is not defined is left out
    parsed(html)


def test_a_cpdag_without_weights_has_none_in_its_table(chain):
    edges = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0.0]])
    html = report_html(replace(chain, structure=Structure(("a", "b", "c"), edges, "cpdag"), truth=None))
    assert "a — b" in html
    assert "<th>weight</th>" not in html
    assert "the graph is a CPDAG" in html


def test_what_could_not_be_compared_says_why(chain):
    html = report_html(replace(chain, metrics=chain.metrics | {"not_compared": "this cpdag belongs to no class"}))
    assert "No scores are available: this cpdag belongs to no class." in html


def test_the_model_is_described(chain):
    html = report_html(chain)
    for said in ("linear Gaussian network", "each variable regressed on its parents over 70 rows", "model.json"):
        assert said in html


SPENT = PrivacySpent(
    epsilon=5.0,
    delta=4e-8,
    adjacency="replace-one",
    protects="from the coordinator",
    broken="",
    run={"north": 4.99, "south": 4.5},
    ever={"north": 7.25, "south": 4.5},
    releases=(("bucket counts", 1, 0.04), ("second moments", 1, 0.34)),
)


def test_privacy_spent(chain):
    html = report_html(replace(chain, privacy=SPENT, secure=True))
    assert "replies are exact" not in html
    for said in ("4e-08", "replace-one", "4.99", "7.25", "second moments", "Not protected by ε", "only their sum"):
        assert said in html
    assert "NOT PRIVATE" not in html


def test_a_broken_promise_is_said_at_the_top_and_no_epsilon_is_shown_as_spent(chain):
    broken = replace(chain, privacy=replace(SPENT, broken="its noise is drawn from a known seed"))
    assert warnings(broken) == ["NOT PRIVATE: its noise is drawn from a known seed."]
    assert "∞" in report_html(broken)


@pytest.mark.parametrize("d", [20, 60])
def test_large_and_local(chain, random_case, d):
    learned, truth = random_case(d, 2, d)
    names = learned.variables
    local = {"north": learned, "south": Structure(names, np.zeros((d, d)))}
    of_silos = {"local_structures": local, "parameters": NO_PARAMETERS, "refit": {}}
    html = report_html(replace(chain, structure=learned, truth=truth, **of_silos))
    assert "edges of its own graph" in html
    parsed(html)


def test_a_handful_of_empty_cells_is_not_counted():
    """1 % of 100 rows is one row."""
    schema = Schema(("dose", "age"), {"a": 100, "b": 100}, empty={"a": (1, 6), "b": (5, 99)})
    dose, age = data_rows(schema)
    assert dose[3:] == ("3 %", "few", "few")
    assert age[3:] == ("52 %", "6 %", "nearly all")


def test_of_many_silos_the_largest_share_of_empty_cells_is_shown():
    silos = [f"silo-{number:02d}" for number in range(1, 11)]
    empty = {silo: (10 * place, 0) for place, silo in enumerate(silos)}
    schema = Schema(("dose", "age"), dict.fromkeys(silos, 100), empty=empty)
    assert data_header(schema) == ("column", "kind", "content", "missing", "maximum over silos")
    dose, age = data_rows(schema)
    assert dose[3:] == ("45 %", "90 %")
    assert age[3:] == ("", "")


def test_the_largest_share_is_not_that_of_the_most_empty_cells():
    """Of 9 silos, the largest has 100 of 1000 cells empty, and another one 60 of 100."""
    rows = {f"silo-{number}": 1000 if number == 1 else 100 for number in range(1, 10)}
    empty = {"silo-1": (100,), "silo-5": (60,)}
    ((*_, total, largest),) = data_rows(Schema(("dose",), rows, empty=empty))
    assert (total, largest) == ("9 %", "60 %")


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_every_outcome_of_a_run_has_its_words(outcome):
    """Formerly, runs that ended at a limit had no report, because the template lacked their outcome."""
    run = RUNS["weighted"]
    page = read(report_html(replace(run, outcome=outcome, rounds=run.rounds[:1])))
    said = " ".join(section.text for section in page.values())
    ends = {
        "converged": "",
        "out of rounds": "The run did not converge",
        "out of time": "The run reached its time limit",
        "out of bytes": "The run reached its limit of megabytes",
        "silo lost": "The run lost a silo",
        "cancelled": "The run was cancelled",
    }
    assert ends[outcome] in said
