"""What is installed is what is there."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("algorithms", "data", "flows", "tasks", "tracking")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return the names of the files in a wheel built from a copy of this checkout."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("fedbnsl", *ROOMS):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    build = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
    subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, capture_output=True)
    (path,) = copy.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def test_every_module_is_in_the_wheel(wheel):
    """No list of packages has to be kept: a new folder with an `__init__.py` is found."""
    found = {f"fedbnsl/{path.relative_to(ROOT)}" for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    found |= {f"fedbnsl/{path.name}" for path in (ROOT / "fedbnsl").glob("*.py")}
    assert {name for name in wheel if name.endswith(".py")} == found
    assert "fedbnsl/py.typed" in wheel
    scripts = {f"fedbnsl/{path.relative_to(ROOT)}" for path in (ROOT / "tracking").rglob("*.js")}
    assert {name for name in wheel if name.endswith(".js")} == scripts != set()


@pytest.mark.parametrize("room", ROOMS)
def test_every_folder_with_modules_is_a_package(room):
    folders = {path.parent for path in (ROOT / room).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
