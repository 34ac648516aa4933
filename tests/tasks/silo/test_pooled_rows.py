"""A pooled baseline reads rows from a folder, and it stays known which silo owns each row."""

from fedbnsl.data.federated import pool
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.silo.rows import describe_rows


def test_the_rows_of_each_silo_are_told_apart(tmp_path):
    folder = tmp_path / "set"
    write_folder(folder, homogeneous(4, 3, 20, 1))
    described = describe_rows("pooled", folder).schema
    assert described.stretches == {"pooled": (20, 20, 20)}
    assert described == pool(read_folder(folder)).schema
