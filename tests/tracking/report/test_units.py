"""Numbers in sentences are in the unit of their column, also if a transform of the column was learned from."""

import re

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.effects.units import Scale
from fedbnsl.tracking.report.statements import statements


@pytest.mark.parametrize("transform", ["log", "log1p", "sqrt", "anscombe"])
def test_a_change_of_transformed_values_is_computed_back(transform):
    rows = np.random.default_rng(0).normal(2, 0.3, 4000)
    scale = Scale("days", transform)
    step = scale.change(0.1, rows)
    assert np.isclose(step, np.mean(scale.original(rows + 0.1)) - np.mean(scale.original(rows)))
    assert abs(step - 0.1) > 0.01
    assert Scale().change(0.1, rows) == 0.1


@pytest.fixture
def counts(tmp_path):
    """Patients whose days in hospital, a count, are 2.4 more on average if they are ill."""
    rng = np.random.default_rng(0)
    ill = rng.random(6000) < 0.5
    frame = pd.DataFrame(
        {
            "ill": np.where(ill, "yes", "no"),
            "stay": rng.poisson(np.where(ill, 5.0, 2.6)),
            "age": [f"{x:.1f} years" for x in rng.normal(60, 9, 6000) + 6 * ill],
        }
    )
    for k in range(3):
        frame[k::3].to_csv(tmp_path / f"s{k}.csv", index=False)
    (tmp_path / "about.json").write_text('{"unit": {"stay": "days", "age": "years"}}')
    return tmp_path


def test_the_sentence_on_a_count_is_in_days(counts):
    result = learn(counts, bootstrap=0).result
    assert result.schema.transforms == {"stay": "anscombe"}
    (text,) = [one.text for one in statements(result).sentences if "stay" in one.edge.text]
    found = re.search(
        r"the mean of stay is (higher|lower) by ([\d.]+) days \(95 % interval ([\d.]+) to ([\d.]+)\)", text
    )
    low, size, high = (float(found[k]) for k in (3, 2, 4))
    assert low < size < high
    assert 2.2 < size < 2.6


def test_plain_numbers_have_their_unit(counts):
    text = " ".join(one.text for one in statements(learn(counts, bootstrap=0).result).sentences)
    assert re.search(r"age (is )?(higher|lower) by [\d.]+ years", text)
