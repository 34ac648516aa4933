"""What is installed is what is there."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("algorithms", "data", "flows", "tasks", "tracking")


def test_every_package_is_listed_and_typed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    found = {"fedbnsl", *(_name(path) for room in ROOMS for path in (ROOT / room).rglob("__init__.py"))}
    assert sorted(listed) == sorted(found)
    assert all((ROOT / name.removeprefix("fedbnsl.").replace(".", "/") / "py.typed").exists() for name in found)


def _name(init: Path) -> str:
    return ".".join(("fedbnsl", *init.parent.relative_to(ROOT).parts))
