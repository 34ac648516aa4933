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
