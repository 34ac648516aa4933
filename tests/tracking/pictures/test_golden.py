"""The pictures of the golden runs, read back from their artists: ends, heads, widths, colours, rows and columns."""

import pytest

from fedbnsl.algorithms.graphs.edges import ClassifiedEdges
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.flows.api.learned import structure_figure
from fedbnsl.tracking.pictures.picture import draw_matrices, draw_rounds, draw_structure
from tests.tracking import expected
from tests.tracking.golden import (
    ARROWS,
    LAGGED,
    LEARNED,
    LINES,
    RUNS,
    TRUE,
    TRUE_LAGGED,
    TRUE_WITHIN,
    WIDE,
    WIDE_TRUE,
    WITHIN,
)
from tests.tracking.pictures.artists import cells, colour_of, described, lines, shown

COLOURS = {"learned": "#1f5a96", "right": "#0b7d62", "extra": "#d1400b", "missing": "#6f6f6f", "reversed": "#8a2da5"}
WIDTHS = {"learned": 1.0, "right": 1.0, "extra": 2.0, "missing": 1.2, "reversed": 1.5}


def category(edge, true):
    return "right" if edge in true else "reversed" if edge[::-1] in true else "extra"


def as_drawn(figure, time=False):
    """The directed lines as {(source, target): (colour, width)}."""
    found = {}
    for line in lines(figure, time):
        (head,) = line.heads
        (tail,) = set(line.ends) - {head}
        assert not line.circles
        found[tail, head] = (line.colour, line.width)
    return found


def test_a_line_has_the_ends_the_colour_and_the_width_of_its_edge():
    """A greater absolute weight gives a thicker line: 0.9 points for the heaviest edge, of weight −2.63."""
    kinds = {edge: category(edge, TRUE) for edge in LEARNED}
    wanted = {
        edge: (COLOURS[kinds[edge]], pytest.approx(WIDTHS[kinds[edge]] + 0.9 * abs(weight) / 2.63, abs=1e-3))
        for edge, weight in LEARNED.items()
    }
    wanted["pain", "sleep"] = (COLOURS["missing"], 1.2)
    assert as_drawn(structure_figure(RUNS["weighted"])) == wanted


def test_lines_are_as_thick_as_resamples_say():
    run = RUNS["cpdag"]
    widths = {line.ends: line.width for line in lines(structure_figure(run))}
    for ends, width in widths.items():
        joined = sum(counted.get(pair, 0) for counted in (ARROWS, LINES) for pair in (ends, ends[::-1]))
        assert width == pytest.approx(0.5 + 2.0 * joined / 40)
    assert len(set(widths.values())) >= 5
    heads = {line.ends: line.heads for line in lines(structure_figure(run))}
    assert heads["age", "sleep"] == heads["blood", "dose"] == ()
    assert heads["age", "fever"] == ("age",)
    assert heads["pain", "sleep"] == ("pain",)


def test_marks_of_a_pag_sit_at_their_own_ends():
    found = {line.ends: (line.heads, line.circles) for line in lines(structure_figure(RUNS["pag"]))}
    assert found == {
        ("age", "dose"): (("dose",), ()),
        ("age", "pain"): (("age",), ()),
        ("dose", "sleep"): (("sleep",), ("dose",)),
        ("fever", "pain"): (("pain",), ("fever",)),
        ("fever", "sleep"): (("fever", "sleep"), ()),
        ("blood", "fever"): ((), ("blood", "fever")),
        ("blood", "dose"): ((), ("dose",)),
    }


def test_only_required_edges_that_were_learned_have_a_band():
    axes = structure_figure(RUNS["weighted"]).axes[0]
    bands = [patch for patch in axes.patches if patch.get_linewidth() == 6.0]
    (line,) = (one for one in lines(structure_figure(RUNS["weighted"])) if one.ends == ("dose", "pain"))
    assert len(bands) == 1
    assert line.colour == COLOURS["right"]
    assert "1 required" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_over_time_an_edge_leads_from_its_lag_to_the_last_column():
    """Within one time and across time, each kind has its own heaviest edge; here resamples give the widths."""
    run = RUNS["dynamic"]
    wanted = {(f"{a}@0", f"{b}@0"): category((a, b), TRUE_WITHIN) for a, b in WITHIN}
    for lag, (edges, true) in enumerate(zip(LAGGED, TRUE_LAGGED, strict=True), 1):
        wanted |= {(f"{a}@{lag}", f"{b}@0"): "right" if (a, b) in true else "extra" for a, b in edges}
    wanted["soil@1", "air@0"] = "missing"
    found = as_drawn(structure_figure(run), time=True)
    assert {edge: colour for edge, (colour, _) in found.items()} == {
        edge: COLOURS[kind] for edge, kind in wanted.items()
    }
    by_weight = as_drawn(draw_structure(ClassifiedEdges(run.structure)), time=True)
    assert by_weight["soil@0", "air@0"][1] == by_weight["air@1", "air@0"][1] == pytest.approx(1.9)
    assert by_weight["water@1", "soil@0"][1] == pytest.approx(1.0 + 0.9 * 0.38 / 0.71, abs=1e-3)


def test_matrices_have_causes_in_rows_and_blue_where_the_effect_rises():
    run = RUNS["dynamic"]
    axes = draw_matrices(ClassifiedEdges(run.structure, run.truth)).axes
    given = {
        "learned: W, within t": WITHIN,
        "learned: A, from t − 1": LAGGED[0],
        "learned: A, from t − 2": LAGGED[1],
        "true: W, within t": TRUE_WITHIN,
        "true: A, from t − 1": TRUE_LAGGED[0],
        "true: A, from t − 2": TRUE_LAGGED[1],
    }
    assert [one.get_title() for one in axes] == list(given)
    for one, weights in zip(axes, given.values(), strict=True):
        assert (one.get_ylabel(), one.get_xlabel()) == ("from (cause)", "to (effect)")
        found, largest = shown(one), max(map(abs, weights.values()))
        assert {edge: colour for edge, (_, colour) in found.items()} == {
            edge: "blue" if weight > 0 else "red" for edge, weight in weights.items()
        }
        for edge, (value, _) in found.items():
            assert abs(value) == pytest.approx(0.2 + 0.8 * abs(weights[edge]) / largest)


def test_faults_are_marked_in_the_cells_of_the_learned_matrices():
    run = RUNS["dynamic"]
    learned = draw_matrices(ClassifiedEdges(run.structure, run.truth)).axes[:3]
    faults = [list(cells(one).values()) for one in learned]  # extra, missing, reversed, half-directed
    assert faults[0] == [set(), set(), {("air", "water")}, set()]
    assert faults[1] == [{("soil", "water"), ("water", "water")}, {("soil", "air")}, set(), set()]
    assert faults[2] == [{("soil", "soil")}, set(), set(), set()]


def test_a_heat_map_has_causes_in_rows_and_effects_in_columns():
    (axes,) = structure_figure(RUNS["wide"]).axes
    kinds = {"right": "2 correct", "extra": "2 extra", "reversed": "1 reversed"}
    wanted = {label: {edge for edge in WIDE if category(edge, WIDE_TRUE) == kind} for kind, label in kinds.items()}
    wanted["1 missing"] = {("V20", "V09")}
    found = cells(axes)
    assert {label: found[label] for label in wanted} == wanted
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("from (cause)", "to (effect)")
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


def test_a_heat_map_has_the_dots_of_a_pag_where_its_circles_are():
    """V03 o→ V50 has a circle at V03: the dot is in the row of V50 and the column of V03."""
    names = RUNS["wide"].structure.variables
    weights = RUNS["wide"].structure.weights * 0.0
    i, j, k = (names.index(name) for name in ("V03", "V50", "V20"))
    weights[i, j], weights[j, i], weights[k, i], weights[i, k] = 2.0, 3.0, 2.0, 1.0
    (axes,) = draw_structure(ClassifiedEdges(Structure(names, weights, "pag"))).axes
    marks, dots = cells(axes).values()
    assert marks == {("V03", "V50"), ("V50", "V03"), ("V20", "V03")}
    assert dots == {("V50", "V03")}


def test_a_picture_for_mlflow_is_no_transpose_and_has_the_sign_of_each_weight():
    from fedbnsl.tracking.mlflow.saved_model import GAP, adjacency_image

    structure = RUNS["dynamic"].structure
    picture = adjacency_image(structure)
    side = (picture.shape[1] - 2 * GAP) // 3
    size = side // 3
    for number, weights in enumerate((structure.weights, *structure.lagged)):
        for row in range(3):
            for column in range(3):
                x = number * (side + GAP) + column * size + size // 2
                red, _, blue = picture[row * size + size // 2, x].tolist()
                weight = weights[row, column]
                assert (blue > red, red > blue) == (weight > 0, weight < 0)


def test_pictures_are_drawn_as_expected():
    drawn = ("weighted", "cpdag", "pag", "dynamic", "mixed", "wide")
    found = {name: {"structure": described(structure_figure(RUNS[name], f"{name} run"))} for name in drawn}
    found["dynamic"]["matrices"] = described(draw_matrices(RUNS["dynamic"].compared_edges, "two rows of matrices"))
    found["weighted"]["rounds"] = described(draw_rounds(RUNS["weighted"].rounds))
    expected.check("pictures", found)


def test_a_colour_is_read_as_it_is_seen():
    """A test of these tests' reader: it notices a figure with swapped colours."""
    (image,) = draw_matrices(ClassifiedEdges(RUNS["dynamic"].structure)).axes[0].images
    before = colour_of(image, 1, 2)
    image.set_cmap(f"{image.get_cmap().name}_r")
    assert {before, colour_of(image, 1, 2)} == {"blue", "red"}
