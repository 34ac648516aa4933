"""A public class name is used only once in the whole package."""

import ast
from collections import defaultdict
from pathlib import Path

import fedbnsl.algorithms

ROOMS = ("algorithms", "data", "tasks", "flows", "tracking")
ROLES = {"Server", "Silo", "Broadcast", "Reply"}
"""what every algorithm has: its own, of these names"""


def classes(module: Path) -> list[str]:
    """The public classes that a module defines, inner ones included."""
    nodes = ast.walk(ast.parse(module.read_text(encoding="utf-8")))
    return [node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def test_no_class_name_is_defined_in_two_modules():
    root = Path(fedbnsl.algorithms.__file__).parents[1]
    defined = defaultdict(list)
    for room in ROOMS:
        for module in sorted((root / room).rglob("*.py")):
            for name in set(classes(module)) - ROLES:
                defined[name].append(module.relative_to(root).as_posix())
    assert len(defined) > 100
    twice = [f"{name}: {', '.join(modules)}" for name, modules in sorted(defined.items()) if len(modules) > 1]
    assert not twice, "\n".join(twice)
