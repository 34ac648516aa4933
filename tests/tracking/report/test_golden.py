"""The reports of the golden runs, read back cell by cell: every figure in its own row and column."""

import pytest

from fedbnsl.tracking.report.report import report_html
from tests.tracking import expected
from tests.tracking.golden import ARROWS, EARLIER, FINDINGS, LEARNED, LINES, RESAMPLES, RUNS, TRUE
from tests.tracking.report.page import as_text, read


class Pages(dict):
    """The sections of every report, by run: each is written when it is first asked for."""

    def __missing__(self, name):
        self[name] = read(report_html(RUNS[name]))
        return self[name]


@pytest.fixture(scope="module")
def pages():
    return Pages()


def test_the_reports_read_as_expected(pages):
    """A run on many variables differs from another one only in its picture and its edges, which have other tests."""
    names = [name for name in RUNS if name != "wide"]
    parts = {name: {one.title or "Head": as_text(one) for one in pages[name].values()} for name in names}
    expected.check("report", parts)


def text_of(edge):
    return " → ".join(edge)


def number(value):
    return "–" if value is None else f"{value:.4g}"


def test_edges_stand_with_their_own_weights_the_strongest_first(pages):
    header, rows = pages["weighted"]["Edges"].tables[0]
    assert header[:3] == ("edge", "weight", "true weight")
    marks = {True: "✓ correct", False: "✗ extra"}
    wanted = []
    for edge, weight in sorted(LEARNED.items(), key=lambda one: -abs(one[1])):
        mark = "↺ reversed" if edge[::-1] in TRUE else marks[edge in TRUE]
        true = TRUE.get(edge, TRUE.get(edge[::-1]))
        wanted.append((text_of(edge), number(weight), number(true), mark))
    assert rows == [*wanted, ("pain → sleep", "–", "0.67", "✗ missing")]


def test_changes_have_the_weight_before_and_the_weight_now(pages):
    section = pages["weighted"]["Changes since the previous run"]
    rows = {row[0]: row[1:] for row in section.table("edge", "change", "weight before", "weight now", "difference")}
    fates = {}
    for edge, now in LEARNED.items():
        before = EARLIER.get(edge, EARLIER.get(edge[::-1]))
        fate = "kept" if edge in EARLIER else "turned" if edge[::-1] in EARLIER else "gained"
        fates[text_of(edge)] = (fate, number(before), number(now), number(abs(now - (before or 0))))
    for edge in (("dose", "fever"), ("age", "blood")):
        fates[text_of(edge)] = ("lost", number(EARLIER[edge]), "–", number(EARLIER[edge]))
    assert rows == fates
    changed = [row[1] != "kept" for row in section.tables[0][1]]
    assert changed == sorted(changed, reverse=True)
    counts = {"edges gained": "4", "edges lost": "2", "edges turned": "1", "edges kept": "4"}
    assert counts.items() <= section.tiles.items()
    drift = section.table("variable", "drift, nats per row")
    assert [row[0] for row in drift] == ["sleep", "dose", "blood", "age", "fever", "pain"]
    assert drift[-1] == ("pain", "-0.0029")


def test_confidence_tells_strength_and_direction_the_way_an_edge_is_written(pages):
    rows = pages["cpdag"]["Confidence"].columns()
    for text, cells in rows.items():
        source, mark, target = text.split(" ")
        there, back = ARROWS.get((source, target), 0), ARROWS.get((target, source), 0)
        line = LINES.get((source, target), 0) + LINES.get((target, source), 0)
        joined = there + back + line
        assert float(cells["strength"]) == pytest.approx(joined / RESAMPLES, rel=1e-3)
        if joined:
            assert float(cells["direction"]) == pytest.approx((there + line / 2) / joined, rel=1e-3)
        assert mark in "→—"
    learned = {name for name, cells in rows.items() if cells["learned"] == "yes"}
    assert learned == {"dose → pain", "age — sleep", "dose — blood", "fever → age", "sleep → pain"}
    assert rows["age — sleep"]["in the averaged network"] == "sleep → age"
    true = {name for name, cells in rows.items() if cells["in the true graph"] == "yes"}
    assert true == {"dose → pain", "age — sleep", "dose — blood", "blood → fever", "sleep → pain"}
    strengths = [float(cells["strength"]) for cells in rows.values()]
    assert strengths == sorted(strengths, reverse=True)


def test_edges_without_weights_stand_by_strength(pages):
    header, rows = pages["cpdag"]["Edges"].tables[0]
    assert header[:3] == ("edge", "strength", "direction")
    confidence = pages["cpdag"]["Confidence"].columns()
    found = [row for row in rows if not row[-1].endswith("missing")]
    assert {row[0]: row[1:3] for row in found} == {
        row[0]: (confidence[row[0]]["strength"], confidence[row[0]]["direction"]) for row in found
    }
    strengths = [float(row[1]) for row in found]
    assert strengths == sorted(strengths, reverse=True)
    assert len(set(strengths)) > 2


def test_lagged_edges_have_a_confidence_of_their_own_lag(pages):
    rows = pages["dynamic"]["Confidence"].columns()
    counted = {"air[t-1] → air": 38, "water[t-1] → soil": 29, "soil[t-1] → water": 11, "air[t-2] → soil": 33}
    counted |= {"soil[t-2] → soil": 5, "soil[t-2] → water": 19, "water[t-1] → water": 7, "soil → air": 28}
    counted |= {"air → water": 23}
    assert {name: float(cells["strength"]) for name, cells in rows.items()} == {
        name: pytest.approx(times / RESAMPLES, rel=1e-3) for name, times in counted.items()
    }
    assert [name for name, cells in rows.items() if cells["learned"] != "yes"] == ["soil[t-2] → water"]
    averaged = {name for name, cells in rows.items() if cells["in the averaged network"] != "–"}
    assert averaged == {"soil → air", "air[t-1] → air", "soil[t-2] → water"}


@pytest.mark.parametrize("name", RUNS)
def test_what_the_answer_rests_on_stands_in_every_report(pages, name):
    run = RUNS[name]
    assert all(one in pages[name]["Before you trust this graph"].text for one in run.basis)
    if run.diagnosed.findings:
        rows = pages[name]["Before you trust this graph"].table("finding", "observation", "what to do")
        assert rows == [(one.name, one.message, one.advice) for one in FINDINGS]
    if run.notes:
        assert all(f"{note}." in pages[name]["Data"].text for note in run.notes)
    settings = dict(pages[name]["Settings"].tables[0][1])
    assert (settings["algorithm"], settings["run"], settings["seed"]) == (run.algorithm, run.name, "1723")
