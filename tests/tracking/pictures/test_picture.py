import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Polygon

from fedbnsl.algorithms.graphs.edges import ClassifiedEdges, classify
from fedbnsl.algorithms.graphs.strengths import edge_strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.pictures.drawing import SIGNS
from fedbnsl.tracking.pictures.picture import MAX_DRAWN_VARIABLES, as_png, as_svg, draw_rounds, draw_structure, panels
from fedbnsl.tracking.pictures.style import Marks, causal_order
from fedbnsl.tracking.result import BASES


@pytest.mark.parametrize("d", [8, 60])
def test_structures_are_drawn(random_case, d):
    figure = draw_structure(ClassifiedEdges(*random_case(d, 3, d)), title="with $ and <b>")
    assert as_png(figure, 60).startswith(b"\x89PNG")
    width, height = figure.get_size_inches()
    assert 3 < width < 16
    assert 2 < height < 16


def drawn_marks(structure):
    """How many arrow heads and how many circles a picture of `structure` has."""
    from matplotlib.patches import Circle, Polygon

    patches = draw_structure(ClassifiedEdges(structure)).axes[0].patches
    return tuple(sum(isinstance(patch, kind) for patch in patches) for kind in (Polygon, Circle))


def test_edges_have_the_marks_of_their_graph():
    both = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0.0]])
    names = ("a", "b", "c")
    assert drawn_marks(Structure(names, both, "dag")) == (3, 0)
    assert drawn_marks(Structure(names, both, "cpdag")) == (1, 0)  # a — b has no head
    marks = np.array([[0, 2, 3], [3, 0, 2], [1, 2, 0.0]])  # a o→ b, b ↔ c, a —o c
    assert drawn_marks(Structure(names, marks, "pag")) == (3, 2)


def head_and_line(learned, truth=None):
    """The height of the tip of the only arrow, of both ends of its line, and of the variables."""
    from matplotlib.patches import PathPatch, Polygon

    axes = draw_structure(ClassifiedEdges(learned, truth)).axes[0]
    (head,) = [patch for patch in axes.patches if isinstance(patch, Polygon)]
    (line,) = [patch for patch in axes.patches if isinstance(patch, PathPatch)]
    line_ys = line.get_path().vertices[:, 1]
    middles = {text.get_text(): text.get_position()[1] for text in axes.texts}
    return head.get_xy()[0][1], line_ys.min(), line_ys.max(), middles


def test_an_arrow_head_touches_the_box_it_points_at_and_the_line_stops_short_of_it():
    for marks, cause, effect in (([[0, 2], [1, 0]], "a", "b"), ([[0, 1], [2, 0]], "b", "a")):
        tip, low, high, middles = head_and_line(Structure(("a", "b"), np.array(marks, float), "pag"))
        assert middles[effect] < tip < low < high < middles[cause]
        assert tip - middles[effect] < 0.2


def test_a_reversed_edge_is_laid_out_as_the_truth_has_it_and_points_up():
    learned, truth = (Structure(("a", "b"), np.array(one, float)) for one in ([[0, 0], [1, 0]], [[0, 1], [0, 0]]))
    tip, low, high, middles = head_and_line(learned, truth)
    assert middles["b"] < low < high < tip < middles["a"]
    assert middles["a"] - tip < 0.2


@pytest.mark.parametrize("kind", ["cpdag", "pag"])
def test_many_variables_show_their_marks_in_both_cells(kind):
    d = MAX_DRAWN_VARIABLES + 1
    weights = np.zeros((d, d))
    weights[0, 1] = weights[1, 0] = 3.0 if kind == "pag" else 1.0
    weights[2, 3], weights[3, 2] = (2.0, 1.0) if kind == "pag" else (1.0, 0.0)
    axes = draw_structure(ClassifiedEdges(Structure(tuple(f"X{k}" for k in range(d)), weights, kind))).axes[0]
    squares, dots, *_ = (len(one.get_offsets()) for one in axes.collections)
    assert (squares, dots) == (3, 2 if kind == "pag" else 0)


@pytest.mark.parametrize("d", [1, 3, MAX_DRAWN_VARIABLES + 1])
def test_a_structure_without_edges_is_drawn(d):
    structure = Structure(tuple(f"X{k}" for k in range(d)), np.zeros((d, d)))
    assert as_png(draw_structure(ClassifiedEdges(structure)), 40).startswith(b"\x89PNG")


def test_an_svg_refers_to_nothing_outside(random_case):
    svg = as_svg(draw_structure(ClassifiedEdges(*random_case(8, 2, 0))), "one")
    assert svg.startswith("<svg")
    assert "http" not in svg
    assert ">X3</text>" in svg


def test_two_figures_on_a_page_share_no_clip_path(chain):
    import re

    ids = [
        set(re.findall(r'<clipPath id="([^"]+)"', as_svg(draw_rounds(chain.rounds), label))) for label in ("one", "two")
    ]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_the_heat_map_has_true_edges_above_the_diagonal(random_case):
    learned, truth = random_case(60, 3, 7)
    edges = classify(learned, truth)
    place = {learned.variables[node]: rank for rank, node in enumerate(causal_order(learned.variables, edges))}
    assert len(place) == 60
    for edge in edges:
        if edge.category in ("right", "missing"):
            assert place[edge.source] < place[edge.target]
        if edge.category == "reversed":
            assert place[edge.source] > place[edge.target]


def test_rounds_are_drawn():
    rows = [
        {
            "round": k,
            "h": 0.1**k,
            "primal_residual": 1.0 / k,
            "dual": 2.0 / k,
            "edges": 5,
            "bytes_up": 10**6,
            "rho": 10**k,
        }
        for k in range(1, 6)
    ]
    drawn = {panel.title: panel for panel in panels(rows)}
    assert list(drawn) == [
        "h: acyclicity constraint, 0 for an acyclic graph",
        "residuals",
        "edges",
        "data sent, cumulative",
        "rho",
    ]
    assert list(drawn["residuals"].lines) == ["primal", "dual"]
    assert drawn["data sent, cumulative"].lines["from silos"] == ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    assert [panel.logarithmic for panel in drawn.values()] == [True, True, False, False, True]
    assert as_png(draw_rounds(rows), 40).startswith(b"\x89PNG")


@pytest.mark.parametrize("rows", [[], [{"round": 1, "h": 0.0}], [{"round": 1, "h": float("nan"), "edges": 0}]])
def test_rounds_with_nothing_to_show_are_drawn(rows):
    assert as_png(draw_rounds(rows), 40).startswith(b"\x89PNG")


def test_variables_that_hold_labels_are_told_apart():
    from matplotlib.colors import to_hex
    from matplotlib.patches import FancyBboxPatch

    structure = Structure(("age", "sex", "dose"), np.triu(np.ones((3, 3)), 1))

    def fills(labels):
        figure = draw_structure(ClassifiedEdges(structure), marks=Marks(labels=labels))
        boxes = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]
        legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        return [to_hex(box.get_facecolor()) for box in boxes], legend

    (age, sex, dose), legend = fills(("sex",))
    assert age == dose != sex
    assert legend[-2:] == ["numbers", "labels"]
    one_kind, legend = fills(())
    assert len(set(one_kind)) == 1
    assert "labels" not in legend


def test_every_axis_has_its_unit(chain):
    rows = [{"round": k, "h": 0.1 / k, "edges": 3, "bytes_up": 5e5, "tests": 9, "primal": 1.0} for k in (1, 2)]
    axes = [one for one in draw_rounds(rows).axes if one.axison]
    assert [one.get_ylabel() for one in axes] == ["h (no unit)", "norm (no unit)", "count", "MB", "count"]
    assert {one.get_xlabel() for one in axes} == {"round"}


def test_a_legend_fits_into_the_figure_of_a_narrow_graph():
    names = ("a", "b", "c", "d")
    learned = matrix(4, [(0, 1), (2, 1), (0, 3)])
    truth = matrix(4, [(0, 1), (1, 2), (2, 3)])
    figure = draw_structure(
        ClassifiedEdges(Structure(names, learned), Structure(names, truth)),
        marks=Marks(required=(("a", "b"),), labels=("c",)),
    )
    figure.canvas.draw()
    legend = figure.axes[0].get_legend().get_window_extent()
    assert len(figure.axes[0].get_legend().get_texts()) == 7
    assert figure.bbox.x0 <= legend.x0
    assert legend.x1 <= figure.bbox.x1


def matrix(d, edges):
    found = np.zeros((d, d))
    for source, target in edges:
        found[source, target] = 1.0
    return found


def test_an_arrowhead_is_hollow_if_resamples_do_not_agree_with_the_direction():
    structures = [
        Structure(("x", "y", "z"), matrix(3, [(0, 1), (1, 2)] if k < 7 else [(1, 0), (1, 2)])) for k in range(10)
    ]
    strengths = edge_strengths(structures)
    learned = ClassifiedEdges(structures[0])
    assert {edge.text: strengths.doubtful(edge) for edge in learned} == {"x → y": True, "y → z": False}
    figure = draw_structure(learned, marks=Marks(strengths))
    heads = [one for one in figure.axes[0].findobj(Polygon) if one.get_zorder() == 4]
    assert sorted(to_hex(head.get_facecolor()) == "#ffffff" for head in heads) == [False, True]
    assert "1 of doubtful direction" in [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    agreeing = draw_structure(learned, marks=Marks(edge_strengths([structures[0]] * 10)))
    assert not any("doubtful" in text.get_text() for text in agreeing.axes[0].get_legend().get_texts())


def legend_of(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_every_basis_of_a_direction_has_a_sign():
    assert set(SIGNS) == {*BASES.values(), "background knowledge", "experiments", "survival outcome", "time"}
    assert len({sign for _, sign, _ in SIGNS.values()}) == len({letter for *_, letter in SIGNS.values()}) == len(SIGNS)


def test_a_direction_has_a_sign_for_what_it_rests_on_except_the_usual_one():
    structure = Structure(("w", "x", "y", "z"), matrix(4, [(0, 1), (0, 2), (0, 3)]))
    usual, known = "equal variances", "background knowledge"
    figure = draw_structure(
        ClassifiedEdges(structure),
        marks=Marks(basis={("w", "x", 0): usual, ("w", "y", 0): known, ("w", "z", 0): usual}),
    )
    assert legend_of(figure)[1:] == ["2 by equal variances", "1 by knowledge"]
    assert [line.get_marker() for line in figure.axes[0].lines] == [SIGNS[known][1]]
    assert not draw_structure(ClassifiedEdges(structure), marks=Marks(basis={("w", "x", 0): usual})).axes[0].lines


@pytest.mark.parametrize("kind", ["graph", "over time"])
def test_a_doubted_direction_is_hollow_without_resamples_too(kind):
    weights = matrix(3, [(0, 1), (1, 2)])
    structure = Structure(("dose", "age", "pain"), weights, lagged=np.zeros((1, 3, 3)) if kind != "graph" else None)
    figure = draw_structure(ClassifiedEdges(structure), marks=Marks(doubted={("dose", "age")}))
    heads = [one for one in figure.axes[0].findobj(Polygon) if one.get_zorder() == 4]
    assert sorted(to_hex(head.get_facecolor()) == "#ffffff" for head in heads) == [False, True]
    assert "1 of doubtful direction" in legend_of(figure)


@pytest.mark.parametrize("d", [2, 12])
def test_a_legend_takes_more_rows_rather_than_a_wide_figure(d):
    names = tuple(f"v{k}" for k in range(d))
    structure = Structure(names, matrix(d, [(k, k + 1) for k in range(d - 1)]))
    keys = [(*sorted(names[k : k + 2]), 0) for k in range(d - 1)]
    bases = dict(zip(keys, SIGNS, strict=False))
    doubted = {(names[0], names[1])}
    figure = draw_structure(ClassifiedEdges(structure), marks=Marks(basis=bases, doubted=doubted, labels=names[:1]))
    figure.canvas.draw()
    legend = figure.axes[0].get_legend().get_window_extent()
    assert figure.get_figwidth() <= 6
    assert figure.bbox.x0 <= legend.x0
    assert legend.x1 <= figure.bbox.x1
    boxes = [one for one in figure.axes[0].patches if one.get_zorder() == 5]
    assert legend.y0 >= max(box.get_window_extent().y1 for box in boxes)
