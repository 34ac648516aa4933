"""The certificates and files of a small federation, as `fedbnsl federation init` makes them."""

import pytest

from fedbnsl.flows.cli.federation import init_federation


@pytest.fixture(scope="session")
def issued(tmp_path_factory):
    """The folder of a federation of two silos, clinic and lab, both with rows; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("federation") / "made"
    init_federation(folder, ["clinic", "lab"], "10.0.0.5:8786")
    for silo in ("clinic", "lab"):
        (folder / silo / "rows.csv").write_text("a,b\n1,2\n")
    return folder
