"""Tables of a program as silos: all accepted forms give the same silos, and other objects give one-line errors."""

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Reading
from fedbnsl.flows.api.tables import split_tables

NORTH = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
SOUTH = pd.DataFrame({"a": [5.0, 6.0], "b": [7.0, 8.5]})


def test_one_table_is_divided_by_a_column_and_loses_it():
    whole = pd.concat([NORTH.assign(ward=7), SOUTH.assign(ward=12)]).iloc[[2, 0, 3, 1]]
    found = split_tables(whole, by="ward")[0]
    assert list(found) == ["12", "7"]
    pd.testing.assert_frame_equal(found["7"].reset_index(drop=True), NORTH)
    pd.testing.assert_frame_equal(found["12"].reset_index(drop=True), SOUTH)


def test_a_list_gets_names_and_arrays_get_columns_that_sort():
    found = split_tables([np.ones((2, 11)), *[np.zeros((2, 11))] * 9])[0]
    assert sorted(found) == list(found) == [f"silo-{number:02d}" for number in range(1, 11)]
    assert list(found["silo-01"].columns) == [f"x{number:02d}" for number in range(1, 12)]
    assert (found["silo-01"] == 1).all(axis=None)


def test_tables_of_other_libraries_are_taken_by_their_own_way_to_pandas():
    class Foreign:
        def __init__(self, frame):
            self.frame = frame

        def to_pandas(self):
            return self.frame

    assert split_tables({"north": Foreign(NORTH)})[0]["north"] is NORTH
    assert set(split_tables(Foreign(NORTH.assign(ward=["x", "x"])), by="ward")[0]) == {"x"}


WRONG = {
    "one table": (NORTH, None, "data is one DataFrame: give the column with the silo of each row"),
    "no such column": (NORTH, "ward", "by is 'ward': no such column; available: a, b"),
    "silos of one row": (NORTH.assign(ward=["x", None]), "ward", "column 'ward': no silo has 2 rows or more"),
    "by of a dict": ({"north": NORTH}, "a", "by is 'a', a column of one DataFrame, but data is a dict of silos"),
    "one array": (np.eye(3), None, "data is one array, which names no silos"),
    "no silo": ([], None, "data is an empty list: give a folder"),
    "text in a list": (["north.csv"], None, "silo 'silo-1' is a str: give a DataFrame"),
    "a number": (5, None, "data is a int: give a folder"),
}


@pytest.mark.parametrize(("data", "by", "said"), WRONG.values(), ids=WRONG)
def test_what_is_no_federated_data_is_said_in_one_line(data, by, said):
    with pytest.raises(BadInput, match=said) as raised:
        split_tables(data, by)
    assert "\n" not in str(raised.value)


def test_of_a_private_run_no_row_is_named():
    with pytest.raises(BadInput) as raised:
        split_tables(NORTH.assign(ward=["x", None]), "ward", Reading(private=True))
    assert "row" not in str(raised.value).removesuffix("its row has no silo")
