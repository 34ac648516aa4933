"""`flows/` stays a house one can find one's way in: no circle of imports, few files at the door, short functions."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

FLOWS = Path(__file__).parents[2] / "flows"


def module_of(path):
    """Return the dotted name of a file, "" for that of flows itself."""
    parts = path.relative_to(FLOWS).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FLOWS.rglob("*.py")}


def imported(name):
    """Return the modules of flows that the module `name` imports, at its top or within a function."""
    package = name.split(".")[:-1] if MODULES[name].name != "__init__.py" else name.split(".")
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
        elif (node.module or "").startswith("fedbnsl.flows"):
            base = node.module.split(".")[2:]
        else:
            continue
        base = ".".join(part for part in base if part)
        found = {f"{base}.{one.name}".lstrip(".") for one in node.names} & set(MODULES)
        yield from found or {base} & set(MODULES)


def sorted_without_circles(graph):
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


def test_no_module_imports_itself_by_way_of_others():
    graph = {name: set(imported(name)) for name in MODULES}
    assert any(graph.values())
    sorted_without_circles(graph)


def test_no_room_imports_itself_by_way_of_others():
    room = {name: name.split(".")[0] for name in MODULES}
    graph = {one: set() for one in room.values()}
    for name in MODULES:
        graph[room[name]] |= {room[other] for other in imported(name)} - {room[name]}
    assert graph["cli"]
    sorted_without_circles(graph)


def test_there_are_few_files_at_the_door_and_no_long_function():
    assert len(list(FLOWS.glob("*.py"))) <= 8
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = node.end_lineno - node.lineno + 1
                assert length <= 50, f"{path.name}: {node.name} has {length} lines"
