"""The result of `learn` in the formats of notebooks, matplotlib, networkx and pgmpy."""

import re
from base64 import b64decode
from dataclasses import replace
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest

from fedbnsl import Learned, learn, load, prepare
from fedbnsl.algorithms.diagnosis.findings import Finding
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.edges import edge_type
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE, TAIL, pag_of
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.result import Diagnosed

pytestmark = pytest.mark.usefixtures("rendered")


@pytest.fixture(scope="module")
def found():
    return learn(prepare("homogeneous", variables=4, silos=2, rows=200, seed=1), "notears-admm", rounds=3)


def test_it_says_itself_in_one_line(found):
    edges = int((found.weights != 0).sum(axis=None))
    said = f"Learned(notears-admm on data: 4 variables, {edges} edges, SHD {found.metrics['shd']}; "
    assert repr(found) == said + "out of rounds after 3 rounds)"


def test_an_edge_at_several_lags_counts_at_each(found):
    names = found.result.structure.variables
    weights, lagged = np.zeros((4, 4)), np.zeros((3, 4, 4))
    weights[0, 1] = lagged[0, 1, 1] = lagged[0, 0, 2] = lagged[2, 0, 2] = 0.5
    series = replace(found.result, structure=Structure(names, weights, lagged=lagged), truth=None)
    assert ": 4 variables, 1 edge, 3 lagged edges, " in repr(Learned(series))


def test_its_page_has_the_picture_and_what_to_know_and_escapes_all_text(found):
    names = ("<b>", *found.result.structure.variables[1:])
    odd = replace(
        found.result,
        dataset="a<b",
        structure=replace(found.result.structure, variables=names),
        truth=None,
        diagnosed=Diagnosed((Finding("f", "x < y.", "Look."),)),
    )
    page = Learned(odd)._repr_html_()
    assert "a&lt;b" in page
    assert "<li>x &lt; y. Look.</li>" in page
    assert "http" not in re.sub(r'src="[^"]*"', "", page)
    (image,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', page)
    picture = ElementTree.fromstring(b64decode(image))
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert "<b>" in "".join(picture.itertext())
    assert len(page) < 50_000


def test_a_page_shows_the_first_findings_and_says_that_there_are_more(found):
    many = tuple(Finding("f", f"Number {k}.", "") for k in range(8))
    page = Learned(replace(found.result, diagnosed=Diagnosed(many)))._repr_html_()
    assert "Number 4." in page
    assert "Number 5." not in page
    assert "3 more findings" in page


def test_a_large_graph_is_a_small_page(found):
    d = 200
    weights = np.triu(np.random.default_rng(0).random((d, d)) < 0.02, 1).astype(float)
    large = replace(found.result, structure=Structure(tuple(f"v{k}" for k in range(d)), weights), truth=None)
    assert len(Learned(large)._repr_html_()) < 400_000


def test_its_plot_is_a_figure_that_a_notebook_shows(found, tmp_path):
    from matplotlib.figure import Figure

    figure = found.plot()
    assert isinstance(figure, Figure)
    assert ElementTree.fromstring(figure._repr_svg_()).tag.endswith("svg")
    figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_networkx_and_pgmpy_get_graphs_of_their_own(found):
    graph = found.to_networkx()
    assert nx.utils.graphs_equal(graph, found.graph)
    graph.clear()
    assert len(found.graph) == 4
    model = found.to_pgmpy()
    assert model == found.model
    assert model is not found.model
    assert set(model.edges()) == set(found.graph.edges())


def test_it_is_saved_to_a_new_folder_alone_and_copied_from_its_own(found, tmp_path):
    first = found.save(tmp_path / "first")
    assert {"structure.csv", "metrics.json", "report.html", "model.json"} <= {path.name for path in first.iterdir()}
    with pytest.raises(BadInput, match="first: already exists"):
        found.save(first)
    (first / "notes.txt").write_text("mine")
    second = load(first).save(str(tmp_path / "second"))
    names = {path.name for path in first.iterdir()} - {"notes.txt"}
    assert {path.name for path in second.iterdir()} == names
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


DAG = Structure(("a", "b", "c"), np.array([[0, 0.5, 0], [0, 0, -2.0], [0, 0, 0]]))
CPDAG = Structure(("a", "b", "c", "d"), np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0.0]]), "cpdag")
PAG = Structure(("a", "b", "c"), pag_of(np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0]], bool)).astype(float), "pag")
LAGGED = Structure(("a", "b"), np.array([[0, 1.0], [0, 0]]), lagged=np.array([[[0.5, 0], [0.25, 0]]]))


def with_structure(found, structure):
    return Learned(replace(found.result, structure=structure, truth=None, confidence=None))


@pytest.mark.parametrize("structure", [DAG, CPDAG, PAG, LAGGED], ids=["dag", "cpdag", "pag", "over time"])
def test_an_exported_graph_says_the_type_of_each_edge(found, structure):
    """An edge without a direction would otherwise look like two arcs."""
    learned = with_structure(found, structure)
    turned = {"<": ">", ">": "<"}
    types = {(u, v): type_ for u, v, type_ in learned.graph.edges(data="type")}
    expected = {}
    for edge in learned.result.edges:
        if structure.kind == "pag":
            type_ = edge_type("pag", edge.at_source, edge.at_target)
            expected[edge.source, edge.target] = type_
            expected[edge.target, edge.source] = "".join(turned.get(one, one) for one in reversed(type_))
        else:
            expected[edge.cause, edge.target] = "directed" if edge.directed else "undirected"
            expected |= {} if edge.directed else {(edge.target, edge.cause): "undirected"}
    assert types == expected
    has_weights = structure.kind != "pag"
    assert all(("weight" in attributes) == has_weights for *_, attributes in learned.graph.edges(data=True))


def test_an_exported_graph_has_strengths_and_what_directions_rest_on():
    given = prepare("homogeneous", variables=4, silos=2, rows=200, seed=1)
    learned = learn(given, "fed-sparse", bootstrap=6)
    rows = {(row["source"], row["target"]): row for _, row in learned.edges.iterrows()}
    found = {(source, target): attributes for source, target, attributes in learned.graph.edges(data=True)}
    assert found.keys() == rows.keys()
    for arc, attributes in found.items():
        assert {attributes["type"], attributes["basis"]} == {"directed", "equal variances"}
        assert all(attributes[name] == rows[arc][name] for name in ("weight", "strength", "direction", "basis"))


def test_a_pdag_of_pgmpy_keeps_undirected_edges(found):
    pdag = with_structure(found, CPDAG).to_pdag()
    assert set(pdag.directed_edges) == {("b", "c"), ("d", "c")}
    assert {frozenset(edge) for edge in pdag.undirected_edges} == {frozenset("ab")}
    assert set(with_structure(found, LAGGED).to_pdag().directed_edges) == {("a", "b"), ("a[t-1]", "a"), ("b[t-1]", "a")}
    assert set(with_structure(found, DAG).to_pdag().nodes) == {"a", "b", "c"}
    with pytest.raises(ValueError, match="use to_causal_learn"):
        with_structure(found, PAG).to_pdag()


@pytest.mark.parametrize("structure", [DAG, CPDAG, PAG, LAGGED], ids=["dag", "cpdag", "pag", "over time"])
def test_a_graph_of_causal_learn_has_the_same_marks(found, structure):
    learned = with_structure(found, structure)
    signs = {"TAIL": TAIL, "ARROW": ARROW, "CIRCLE": CIRCLE}
    marks = {}
    for edge in learned.to_causal_learn().get_graph_edges():
        ends = (edge.get_node1().get_name(), edge.get_node2().get_name())
        marks[ends] = (signs[edge.get_endpoint1().name], signs[edge.get_endpoint2().name])
    for edge in learned.result.edges:
        ends, own = (edge.cause, edge.target), (edge.at_source, edge.at_target)
        assert marks.pop(ends, None) == own or marks.pop(ends[::-1], None) == own[::-1]
    assert not marks
