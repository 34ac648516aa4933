"""Dynamic structures drawn over time, and as matrices."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon

from fedbnsl.algorithms.graphs.edges import ClassifiedEdges
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.pictures.heat_map import draw_matrices
from fedbnsl.tracking.pictures.picture import MAX_UNROLLED_VARIABLES, as_png, as_svg, draw_structure
from fedbnsl.tracking.pictures.style import STYLES


def structure(d=3, lags=2, within=(), lagged=()):
    W, A = np.zeros((d, d)), np.zeros((lags, d, d))
    for i, j in within:
        W[i, j] = 1.0
    for k, i, j in lagged:
        A[k - 1, i, j] = -0.5
    return Structure(tuple(f"X{v}" for v in range(d)), W, lagged=A)


def parts(figure, kind):
    return [patch for patch in figure.axes[0].patches if isinstance(patch, kind)]


def test_every_time_has_its_column_and_every_edge_its_head():
    figure = draw_structure(ClassifiedEdges(structure(within=[(0, 1)], lagged=[(1, 0, 0), (2, 1, 2)])))
    assert [len(parts(figure, kind)) for kind in (FancyBboxPatch, PathPatch, Polygon)] == [9, 3, 3]
    assert {"t", "t − 1", "t − 2"} <= {text.get_text() for text in figure.axes[0].texts}


def column(figure, name, nth):
    """The place of the box with `name` in column `nth`."""
    places = [text.get_position() for text in figure.axes[0].texts if text.get_text() == name]
    return sorted(places)[nth]


def test_a_lagged_edge_leads_from_its_time_to_the_last_past_the_boxes_between():
    figure = draw_structure(ClassifiedEdges(structure(lagged=[(2, 0, 1)])))
    (line,) = parts(figure, PathPatch)
    (start, *_, end), (head,) = line.get_path().vertices, parts(figure, Polygon)
    (x0, y0), (x2, y2) = column(figure, "X0", 0), column(figure, "X1", 2)
    assert x0 < start[0] < end[0] < head.get_xy()[0][0] < x2
    assert (start[1], end[1]) == (pytest.approx(y0), pytest.approx(y2))
    x1 = column(figure, "X0", 1)[0]
    past = [y for x, y in line.get_path().vertices if abs(x - x1) < 0.3]
    assert len(past) == 2
    assert all(abs(y - column(figure, f"X{v}", 1)[1]) > 0.14 for y in past for v in range(3))


def test_an_edge_within_one_time_arches_beside_the_last_column():
    figure = draw_structure(ClassifiedEdges(structure(within=[(0, 2)])))
    (line,), (head,) = parts(figure, PathPatch), parts(figure, Polygon)
    x, y = column(figure, "X2", 2)
    assert (line.get_path().vertices[:, 0] > x).all()
    assert head.get_xy()[0][1] == pytest.approx(y)


def test_colours_say_what_is_right():
    learned = structure(within=[(0, 1)], lagged=[(1, 0, 0), (1, 1, 2)])
    truth = structure(within=[(1, 0)], lagged=[(1, 0, 0), (2, 1, 2)], lags=3)
    colours = [
        to_rgb(line.get_edgecolor()) for line in parts(draw_structure(ClassifiedEdges(learned, truth)), PathPatch)
    ]
    expected = [STYLES[category].colour for category in ("reversed", "right", "extra", "missing")]
    assert colours == [to_rgb(colour) for colour in expected]


def test_edges_at_one_box_do_not_end_in_one_point():
    figure = draw_structure(ClassifiedEdges(structure(d=5, lagged=[(1, v, 0) for v in range(5)])))
    tips = [head.get_xy()[0][1] for head in parts(figure, Polygon)]
    assert len({round(y, 3) for y in tips}) == 5
    assert np.ptp(tips) < 0.28


@pytest.mark.parametrize(("d", "lags"), [(1, 1), (5, 3), (MAX_UNROLLED_VARIABLES + 1, 2)])
def test_structures_of_every_size_are_drawn(d, lags):
    rng = np.random.default_rng(d)
    W = np.triu(rng.random((d, d)) < 0.3, 1) * 1.0
    one = Structure(tuple(f"X{v}" for v in range(d)), W, lagged=(rng.random((lags, d, d)) < 0.2) * -0.3)
    for figure in (
        draw_structure(ClassifiedEdges(one)),
        draw_structure(ClassifiedEdges(one, one)),
        draw_matrices(ClassifiedEdges(one, one), "with $ and <b>"),
    ):
        assert as_png(figure, 40).startswith(b"\x89PNG")
        assert max(figure.get_size_inches()) < 30


def test_matrices_stand_beside_those_of_the_truth_with_marks():
    learned = structure(within=[(0, 1)], lagged=[(1, 0, 0), (2, 1, 2)])
    truth = structure(within=[(0, 1), (1, 2)], lagged=[(1, 0, 0)], lags=1)
    figure = draw_matrices(ClassifiedEdges(learned, truth))
    assert [axes.get_title() for axes in figure.axes] == [
        f"{whose}: {what}"
        for whose in ("learned", "true")
        for what in ("W, within t", "A, from t − 1", "A, from t − 2")
    ]
    shown = [np.sign(axes.images[0].get_array()) for axes in figure.axes]
    np.testing.assert_array_equal(shown[1], -np.diag([1.0, 0, 0]))
    assert [abs(one).sum() for one in shown] == [1, 1, 1, 2, 1, 0]
    marks = [[len(dots.get_offsets()) for dots in axes.collections] for axes in figure.axes]
    assert marks == [[0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [], [], []]  # extra, missing, reversed, half-directed


def test_lags_that_only_the_truth_has_are_matrices_of_missing_edges():
    learned = structure(within=[(0, 1)], lagged=[(1, 0, 0)], lags=1)
    truth = structure(within=[(0, 1)], lagged=[(1, 0, 0), (2, 1, 2)])
    figure = draw_matrices(ClassifiedEdges(learned, truth))
    assert [axes.get_title().split(", ")[1] for axes in figure.axes] == 2 * ["within t", "from t − 1", "from t − 2"]
    marks = [[len(dots.get_offsets()) for dots in axes.collections] for axes in figure.axes[:3]]
    assert marks == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]


def test_a_truth_without_times_stands_by_itself():
    learned, truth = structure(lagged=[(1, 0, 1)]), Structure(("X0", "X1", "X2"), np.eye(3, k=1) + np.eye(3, k=-1))
    figure = draw_matrices(ClassifiedEdges(learned, truth))
    assert [axes.get_title() for axes in figure.axes][-1] == "true: effects at any lag"
    assert len(figure.axes) == 4
    colours = {line.get_edgecolor() for line in parts(draw_structure(ClassifiedEdges(learned, truth)), PathPatch)}
    assert [to_rgb(colour) for colour in colours] == [to_rgb(STYLES["learned"].colour)]


def test_an_svg_over_time_refers_to_nothing_outside():
    svg = as_svg(draw_matrices(ClassifiedEdges(structure(lagged=[(1, 0, 1)]))), "matrices")
    assert svg.startswith("<svg")
    assert "http" not in svg
