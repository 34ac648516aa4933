"""The width of a command's output without a terminal."""

import pytest

from fedbnsl.flows.terminal.console import console


@pytest.mark.parametrize(("columns", "width"), [("60", 60), (None, 120)])
def test_a_pipe_is_as_wide_as_columns_says(monkeypatch, columns, width):
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    assert console().width == width
