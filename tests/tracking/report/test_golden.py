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


def test_the_ledger_has_this_run_before_all_runs(pages):
    section = pages["private"]["Privacy"]
    ledger = section.table("ledger of silo", "ε of this run", "ε of all runs")
    assert ledger == [("north", "1.43", "7.19"), ("south", "2.61", "5.87")]
    spent = dict(section.tables[0][1])
    assert list(spent.values()) == ["2.61", "2.17", "2.9", "3.7e-06", "replace-one", "one patient's row", "7.19"]
    assert section.tables[1][1] == [("counts of buckets", "3", "0.0417"), ("second moments", "1", "0.0953")]
    assert "their sums" in section.text
    broken = pages["broken"]["Privacy"]
    assert [value for _, value in broken.tables[0][1]][:2] == ["∞", "not available"]
    assert "the silo south was pooled" in broken.text
    assert broken.paragraphs[0][0] == "warning"


def test_forecasts_of_the_model_come_before_those_of_persistence(pages):
    rows = pages["dynamic"]["Forecasts one step ahead"].tables[1][1]
    assert rows == [
        ("mean over variables", "1.137", "1.961", "0.5798"),
        ("air", "0.613", "1.187", "0.5164"),
        ("water", "1.229", "2.441", "0.5035"),
        ("soil", "1.569", "2.255", "0.6958"),
    ]
    assert [row[1] for row in pages["dynamic"]["Forecasts one step ahead"].tables[0][1]] == ["2", "0.8317"]


def test_a_probability_table_has_one_parameter_less_than_levels_for_each_row(pages):
    """Levels 2, 3, 2, 3, 2 and 4; age has 6 rows, dose 4, pain 9: 6 + 8 + 9 + 2 + 1 + 3."""
    rows = dict(pages["cpdag"]["Model"].tables[0][1])
    assert rows["free parameters"] == "29"
    assert rows["file"] == "model.bif"


def test_bytes_up_and_down_are_not_exchanged(pages):
    rows = [row[1] for row in pages["weighted"]["Communication"].tables[0][1]]
    assert rows == ["3", "366,017", "86,423", "0.1428", "9,631", "5,077"]
    up, down = (row[0] for row in pages["weighted"]["Communication"].tables[0][1][1:3])
    assert up.startswith("Rounds, silos to coordinator")
    assert down.startswith("Rounds, coordinator to silos")
    mixed = [row[1] for row in pages["mixed"]["Communication"].tables[0][1]]
    assert mixed == ["3", "613", "366,017", "86,423", "0.1428", "11", "70,301", "9,631", "5,077"]


def test_each_silo_has_its_own_rows_and_errors(pages):
    assert pages["weighted"]["Silos"].columns() == {
        "east": {"rows": "83", "consensus": "0.6143", "refitted": "0.1867"},
        "north": {"rows": "311", "consensus": "0.3119", "refitted": "0.2537"},
        "south": {"rows": "1,409", "consensus": "0.4201", "refitted": "0.3571"},
    }
    for name in ("personal", "dynamic"):
        scores = pages[name]["Silos"].columns(1)
        assert list(scores) == sorted(RUNS[name].silo_scores)
        for silo, cells in scores.items():
            assert list(cells.values()) == [number(value) for value in RUNS[name].silo_scores[silo].values()]
    assert [tuple(one) for one in pages["personal"]["Silos"].columns(1)["east"].items()] == [
        ("SHD", "0.6262"),
        ("TPR", "0.6393"),
        ("FDR", "0.6524"),
        ("AUROC", "0.6655"),
    ]


def test_edges_of_the_silos_are_counted_each_way(pages):
    header, rows = pages["personal"]["Edges by silo"].tables[0]
    assert header == ("edge", "silos of 3", "opposite direction", "mean weight", "minimum", "maximum")
    assert rows == [
        ("dose → pain", "2", "1", "1.325", "1.16", "1.49"),
        ("sleep → age", "2", "0", "0.365", "0.28", "0.45"),
        ("pain → dose", "1", "2", "-0.94", "-0.94", "-0.94"),
        ("pain → age", "1", "1", "-0.77", "-0.77", "-0.77"),
        ("age → pain", "1", "1", "-0.35", "-0.35", "-0.35"),
    ]


def test_shares_of_empty_cells_stand_below_their_own_silo(pages):
    assert pages["mixed"]["Data"].columns() == {
        "age": {"kind": "numbers", "content": "", "missing": "8 %", "north": "", "south": "10 %"},
        "sex": {"kind": "labels", "content": "f, m, x", "missing": "4 %", "north": "20 %", "south": ""},
        "dose": {"kind": "numbers", "content": "", "missing": "30 %", "north": "30 %", "south": "30 %"},
        "ward": {"kind": "labels", "content": "A, B", "missing": "18 %", "north": "all", "south": "few"},
    }


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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pag", "Not converged: the run ended after 3 rounds"),
        ("private", "Silo lost: north stopped responding"),
        ("broken", "NOT PRIVATE: the silo south was pooled"),
        ("dynamic", "Dropped out during the run: dune"),
    ],
)
def test_a_warning_stands_at_the_head_of_the_page(pages, name, words):
    warnings = [text for kind, text in pages[name][""].paragraphs if kind == "warning"]
    assert any(one.startswith(words) for one in warnings)
    assert not [one for kind, one in pages["weighted"][""].paragraphs if kind == "warning"]
