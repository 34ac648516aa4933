"""Silos with different columns: a missing column counts as empty, and pairs that no row has together are marked."""

import json

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn, load
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches
from fedbnsl.data.folder.about import Reading
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.tracking.pictures.drawing import NOT_IDENTIFIED
from fedbnsl.tracking.report.drawings import draw_result
from fedbnsl.tracking.report.report import report_html

CHAIN = ("a", "b", "c", "d")


def silos(kind="numbers", seed=0):
    """Three silos of the chain a → b → c → d: one without a, one without d, one without both."""
    rng, tables = np.random.default_rng(seed), {}
    for silo, (n, lacking) in {"one": (700, "d"), "other": (900, "a"), "third": (400, "ad")}.items():
        x = rng.normal(size=(n, 4))
        for j in range(1, 4):
            x[:, j] += 1.1 * x[:, j - 1]
        frame = pd.DataFrame(x, columns=list(CHAIN)).round(4)
        labels = CHAIN if kind == "labels" else ("a", "d") if kind == "mixed" else ()
        for name in labels:
            frame[name] = np.array(["low", "mid", "top"])[np.digitize(frame[name], (-0.7, 0.7))]
        tables[silo] = frame.drop(columns=[name for name in CHAIN if name in lacking])
    return tables


@pytest.mark.parametrize("kind", ["numbers", "labels", "mixed"])
def test_the_union_learns_what_is_identified_and_marks_the_rest(kind, tmp_path):
    learned = learn(silos(kind), columns="union", out=tmp_path / "out")
    result = learned.result
    assert result.schema.variables == ("a", "b", "c", "d")
    assert result.not_identified == (("a", "d"),)
    adjacency = result.structure.adjacency | result.structure.adjacency.T
    assert {frozenset((CHAIN[i], CHAIN[j])) for i, j in np.argwhere(adjacency)} == set(
        map(frozenset, ("ab", "bc", "cd"))
    )
    assert "not identified" in [one.name for one in result.diagnosed.findings]
    assert load(tmp_path / "out").result.not_identified == (("a", "d"),)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["not_identified"] == [["a", "d"]]


def test_masks_change_nothing():
    plain, masked = (learn(silos(), columns="union", secure=secure, seed=1) for secure in (False, True))
    np.testing.assert_allclose(plain.result.structure.weights, masked.result.structure.weights, atol=1e-6)
    assert masked.result.not_identified == (("a", "d"),)


def test_common_columns_are_those_of_all_silos():
    learned = learn(silos(), columns="common")
    assert learned.result.structure.variables == ("b", "c")
    assert set(learned.result.schema.aside) == {"a", "d"}
    assert learned.result.not_identified == ()
    with pytest.raises(BadInput, match="no column is common to all silos"):
        learn({"one": silos()["one"][["a"]], "other": silos()["other"][["d"]]}, columns="common")


def test_without_the_option_both_choices_are_named():
    with pytest.raises(BadInput, match=r"column '[ad]' is .*; .* columns='common' .*, columns='union' keeps them"):
        learn(silos())


def test_with_an_epsilon_a_union_is_refused_and_common_columns_are_learned():
    with pytest.raises(
        BadInput, match="columns='union': not every silo has 'a', and with an ε an empty cell counts as 0"
    ):
        learn(silos(), "secure-sum", epsilon=3.0, columns="union")
    learned = learn(silos(), "secure-sum", epsilon=3.0, columns="common")
    assert learned.result.structure.variables == ("b", "c")


def test_complete_rows_and_refusal():
    with pytest.raises(BadInput, match="no rows without an empty cell"):
        learn(silos(), columns="union", missing="complete-rows")
    with pytest.raises(BadInput, match="columns='union' leaves cells empty"):
        learn(silos(), columns="union", missing="refuse")


@pytest.mark.parametrize("kind", ["numbers", "labels", "mixed"])
def test_tables_in_passes_are_read_alike(kind, tmp_path, monkeypatch):
    for silo, frame in silos(kind).items():
        frame.to_csv(tmp_path / f"{silo}.csv", index=False)
    reading = Reading(columns="union")
    whole = read_folder(tmp_path, reading)
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(batches, "MAX_BATCH_ROWS", 90)
    monkeypatch.setattr(batches, "MIN_BATCH_ROWS", 90)
    passes = read_folder(tmp_path, reading)
    assert passes.schema.empty == whole.schema.empty
    assert set(passes.schema.streamed) == {"one", "other", "third"}
    for silo in whole.schema.silos:
        np.testing.assert_array_equal(np.concatenate([*passes.tables[silo]]), whole.tables[silo])


def test_the_picture_and_the_report_show_pairs_that_are_not_identified(rendered):
    learned = learn(silos(), columns="union", diagnose=False)
    figure = draw_result(learned.result)
    (dots,) = [one for one in figure.axes[0].patches if one.get_linestyle() == ":"]
    assert dots.get_edgecolor()[:3] == pytest.approx(tuple(int(NOT_IDENTIFIED[k : k + 2], 16) / 255 for k in (1, 3, 5)))
    assert "1 not identified" in [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert "No row has both variables of these pairs" in report_html(learned.result)
    assert "No row has both" not in report_html(learn(silos(), columns="common", diagnose=False).result)
