import os

import pytest

from .study import write_reference


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """The results with which those of all platforms are compared."""
    folder = tmp_path_factory.mktemp("reference")
    write_reference(folder, os.environ | {"FEDBNSL_HOME": str(folder / "home")})
    return folder
