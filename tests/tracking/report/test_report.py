import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import get_args
from xml.etree import ElementTree

import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import Outcome
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.report.report import report_html
from fedbnsl.tracking.report.sections import warnings
from fedbnsl.tracking.report.tables import data_header, data_rows
from fedbnsl.tracking.result import NO_PARAMETERS
from tests.tracking.golden import RUNS
from tests.tracking.report.page import read

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


def test_warnings(chain, cyclic):
    assert [text.split(":")[0] for text in warnings(cyclic)] == ["Not converged", "The graph contains a cycle"]
    assert "a → b → c → a" in warnings(cyclic)[1]
    assert "north, south stopped" in warnings(replace(chain, outcome="silo lost", lost=("north", "south")))[0]
    assert "The true graph is not known, so there is no comparison." in report_html(cyclic)


def test_what_could_not_be_compared_says_why(chain):
    html = report_html(replace(chain, metrics=chain.metrics | {"not_compared": "this cpdag belongs to no class"}))
    assert "No scores are available: this cpdag belongs to no class." in html


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


@pytest.mark.parametrize("name", RUNS)
def test_a_report_can_be_read_by_keyboard_and_by_ear(name):
    """Regions that scroll take the focus, pictures have words, headings descend one level at a time."""
    html = re.sub(r"<script.*?</script>|<style>.*?</style>", "", report_html(RUNS[name]), flags=re.DOTALL)
    html = (
        re.sub(r"<(meta[^>]*)>", r"<\1/>", html).replace("xlink:", "").replace(" hidden>", ">").replace(" open>", ">")
    )
    page = ElementTree.fromstring(html.removeprefix("<!doctype html>"))
    assert page.get("lang") == "en"
    (main,) = page.iter("main")
    for place in main.iter("div"):
        if "table" in (place.get("class") or "").split():
            assert (place.get("tabindex"), place.get("role")) == ("0", "group")
            assert place.get("aria-label")
    for picture in main.iter("svg"):
        assert (picture.get("role"), bool(picture.get("aria-label"))) == ("img", True)
    assert all(head.get("scope") == "col" and head.text for head in main.iter("th"))
    levels = [int(one.tag[1]) for one in main.iter() if re.fullmatch(r"h\d", one.tag)]
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
