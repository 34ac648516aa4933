"""Names of columns with spaces around them: every format reads them without."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from fedbnsl.data.folder.formats import Form
from fedbnsl.data.folder.sources import open_source


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_column_of_the_silos_may_be_padded(form, tmp_path):
    """`--by hospital` finds the column ` hospital `."""
    path = tmp_path / f"all.{form}"
    if form == "csv":
        path.write_text(" hospital ,x\na,1.5\nb,2.5\na,3.5\n")
    else:
        parquet.write_table(pa.table({" hospital ": ["a", "b", "a"], "x": [1.5, 2.5, 3.5]}), path)
    source = open_source(path, Form(rows=("hospital", "a")))
    (batch,) = source.batches(["x"])
    assert [float(cell) for cell in batch.column(0).to_pylist()] == [1.5, 3.5]
