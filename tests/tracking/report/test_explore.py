import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.report import explore
from fedbnsl.tracking.report.explore import LIBRARY, OWN_SCRIPTS, explore_scripts, graph_data, script
from fedbnsl.tracking.report.report import report_html
from fedbnsl.tracking.result import NO_PARAMETERS


def data_of(result):
    return graph_data(result)


def with_structure(result, weights, kind="dag", truth=None):
    names = tuple("abcdefgh"[: len(weights)])
    true = None if truth is None else Structure(names, np.array(truth, float), kind)
    return replace(result, structure=Structure(names, np.array(weights, float), kind), truth=true)


def test_marks_of_a_pag_and_of_a_cpdag_are_told(chain):
    pag = data_of(with_structure(chain, [[0, 2, 0], [3, 0, 2], [0, 2, 0]], "pag"))
    assert [edge["marks"] for edge in pag["edges"]] == [[3, 2], [2, 2]]
    assert all("weight" not in edge for edge in pag["edges"])
    cpdag = data_of(with_structure(chain, [[0, 1, 0], [1, 0, 0], [0, 1, 0]], "cpdag"))
    assert sorted(edge["marks"] for edge in cpdag["edges"]) == [[1, 1], [1, 2]]


def test_a_way_goes_from_source_to_target_round_what_lies_between(chain):
    weights = [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    down = data_of(with_structure(chain, weights))
    (long,) = (edge for edge in down["edges"] if edge.get("by"))
    heights = [down["nodes"][0]["y"], *(y for _, y in long["by"]), down["nodes"][2]["y"]]
    assert heights == sorted(heights)
    assert len(set(heights)) == 4
    middle = down["nodes"][1]
    assert all(abs(x - middle["x"]) > middle["width"] / 2 for x, _ in long["by"])


def test_the_way_of_a_reversed_edge_goes_against_the_layers(chain):
    learned, truth = [[0, 1, 0], [0, 0, 1], [1, 0, 0]], [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    data = data_of(with_structure(chain, learned, truth=truth))
    (turned,) = (edge for edge in data["edges"] if edge["category"] == "reversed")
    heights = [data["nodes"][2]["y"], *(y for _, y in turned["by"]), data["nodes"][0]["y"]]
    assert heights == sorted(heights, reverse=True)


def test_the_policy_lets_these_scripts_run_and_no_other(chain):
    html = report_html(chain)
    policy = re.search(r'content="([^"]*script-src[^"]*)"', html).group(1)
    texts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digests = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts]
    assert policy.split("script-src ")[1].split() == digests
    assert len(texts) == len(OWN_SCRIPTS) + 1
    assert "unsafe-inline" not in policy.split("script-src ")[1]


def test_no_name_can_end_the_script_that_it_stands_in(chain):
    names = ("</script><b>", "b", "c")
    wild = replace(chain, structure=Structure(names, chain.structure.weights), truth=None, parameters=NO_PARAMETERS)
    html = report_html(wild)
    assert "</script><b>" not in html
    (data,) = re.findall(r'<script type="application/json" id="structure">(.*?)</script>', html, re.DOTALL)
    assert json.loads(data)["nodes"][0]["name"] == "</script><b>"


def test_weights_that_are_no_numbers_do_not_take_the_report_away(chain):
    wild = with_structure(chain, [[0, np.inf, np.nan], [0, 0, 1.5], [0, 0, 0]])
    assert [edge.get("weight") for edge in data_of(wild)["edges"]] == [None, None, 1.5]
    assert 'id="structure"' in report_html(wild)


def test_without_an_edge_there_is_nothing_to_explore(chain):
    html = report_html(with_structure(chain, np.zeros((3, 3))))
    assert "<script" not in html
    assert "Explore" not in html


def test_a_graph_of_too_many_edges_is_a_matrix_alone(chain, monkeypatch):
    monkeypatch.setattr(explore, "MAX_GRAPH_EDGES", 1)
    assert len(explore_scripts(chain)) == len(OWN_SCRIPTS) + 1
    data = data_of(chain)
    assert "x" not in data["nodes"][0]
    assert len(data["edges"]) == 2


@pytest.mark.parametrize("name", OWN_SCRIPTS)
def test_our_scripts_reach_nothing_and_write_no_markup(name):
    assert not re.search(r"https?:|fetch\(|XMLHttpRequest|WebSocket|import\(|innerHTML|eval\(|Storage", script(name))


def test_the_library_says_its_licence_and_cannot_end_its_element():
    text = script(LIBRARY)
    assert "Permission is hereby granted, free of charge" in text[:2000]
    assert "</script" not in text
    assert len(text) < 500_000


def test_a_large_graph_opens_and_a_small_one_waits(chain, random_case):
    learned, truth = random_case(60, 2, 1)
    assert "<details open>" in report_html(
        replace(chain, structure=learned, truth=truth, refit={}, parameters=NO_PARAMETERS)
    )
    assert "<details>" in report_html(chain)
