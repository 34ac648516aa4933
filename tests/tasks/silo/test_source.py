"""What the source of a silo's rows states about its cells."""

from dataclasses import replace

import numpy as np

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.data.folder.about import NO_DECLARATION
from fedbnsl.tasks.silo.source import FileSource


def test_a_far_cell_has_a_line_unless_rows_were_dropped(tmp_path):
    """If incomplete rows were dropped, rows of the table are not lines of the file."""
    x = np.random.default_rng(1).normal(size=50)
    x[7] = 900.0
    file = tmp_path / "a.csv"
    file.write_text("x\n" + "".join(f"{value}\n" for value in x))
    source, schema = FileSource("a", file), Schema(("x",), {"a": 50})
    place = source.far_cell(x[:, None], schema, "x", NO_DECLARATION)
    assert place.startswith(f"{file}: line 9, column 'x': 900, where the median is ")
    assert source.far_cell(x[:, None], replace(schema, complete_rows=True), "x", NO_DECLARATION) == ""
