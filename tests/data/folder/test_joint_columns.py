"""The kind of a column that the cells of all silos together suggest."""

from dataclasses import replace

import pytest

from fedbnsl.data.folder.about import NO_DECLARATION
from fedbnsl.data.folder.joint_columns import joint_column, skewed_columns
from fedbnsl.data.folder.profile import UNDISCLOSED


@pytest.mark.parametrize(
    ("silos", "expected"),
    [
        ({"log": 60, "": 40}, "log"),
        ({"log": 40, "": 60}, ""),
        ({"log": 30, "normal-scores": 35, "": 35}, "otherwise"),
        ({"log": 50, "": 50}, ""),
    ],
)
def test_the_word_of_most_cells_counts(silos, expected):
    parts = {f"s{k}": replace(UNDISCLOSED, numbers=n, shape=word) for k, (word, n) in enumerate(silos.items())}
    assert joint_column(parts).majority(lambda part: part.shape, "otherwise") == expected


@pytest.mark.parametrize(
    ("other", "expected"), [({}, "log"), ({"zeros": 1}, "normal-scores"), ({"negative": True}, "normal-scores")]
)
def test_a_logarithm_is_suggested_where_every_silo_can_take_it(other, expected):
    parts = {
        "large": replace(UNDISCLOSED, numbers=90, shape="log"),
        "small": replace(UNDISCLOSED, numbers=10, shape="", **other),
    }
    assert skewed_columns({"income": joint_column(parts)}, {}, NO_DECLARATION) == {"income": expected}
