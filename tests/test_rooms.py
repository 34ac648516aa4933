"""The structure of the packages: no circular imports, few files in a folder, and sentences that name what exists."""

import ast
import re
import warnings
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("algorithms", "data", "tasks", "flows", "tracking")


def module_of(path):
    """The dotted name of a file below the root; that of a folder for its `__init__.py`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for room in ROOMS for path in (ROOT / room).rglob("*.py")}


@cache
def statements(path):
    """All statements of a file, nested ones included, without their expressions."""

    def within(node):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield child
                yield from within(child)

    return list(within(ast.parse(path.read_text(encoding="utf-8"))))


def imported(name):
    """The modules of the project that `name` imports, at its top or within a function."""
    package = name.split(".")[:-1] if MODULES[name].name != "__init__.py" else name.split(".")
    for node in statements(MODULES[name]):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
        elif (node.module or "").startswith("fedbnsl."):
            base = node.module.split(".")[1:]
        else:
            continue
        base = ".".join(part for part in base if part)
        found = {f"{base}.{one.name}" for one in node.names} & set(MODULES)
        yield from found or {base} & set(MODULES)


@cache
def imports():
    """module -> the modules of the project that it imports."""
    return {name: set(imported(name)) for name in MODULES}


def sorted_without_circles(graph):
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


def test_every_module_that_a_sentence_names_exists():
    """In docstrings, comments and documents: a path or a name of a file in backticks."""
    folders = (*ROOMS, "fedbnsl", "tests", "benchmarks", "docs", "examples", "deploy")
    files = [path.relative_to(ROOT).as_posix() for one in folders for path in (ROOT / one).rglob("*.py")]
    files += [path.name for path in ROOT.glob("*.py")]
    documents = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    names = {f"/{file}" for file in files} | {"/statistics.py"}  # a file beside a user's data
    texts = [file for file in files if file.split("/")[0] in ROOMS]
    texts += [path.relative_to(ROOT).as_posix() for path in documents]
    missing = {
        f"{file}: {name}"
        for file in texts
        for name in re.findall(r"`([\w/]+\.py)`", (ROOT / file).read_text("utf-8"))
        if not any(one.endswith("/" + name) for one in names)
    }
    assert len(texts) > 300
    assert missing == set()


def test_no_module_imports_itself_by_way_of_others():
    assert sum(map(len, imports().values())) > 500
    sorted_without_circles(imports())


@pytest.mark.parametrize("within", ["", *ROOMS])
def test_no_room_imports_itself_by_way_of_others(within):
    """First the packages of the project, then the folders and files directly below each."""
    depth = 2 if within else 1
    room = {name: ".".join(name.split(".")[:depth]) for name in MODULES if name.startswith(within) and name != within}
    graph = {one: set() for one in room.values()}
    for name in room:
        graph[room[name]] |= {room[other] for other in imports()[name] if other in room} - {room[name]}
    assert any(graph.values())
    sorted_without_circles(graph)


def test_no_module_is_compiled_with_a_warning():
    """Python 3.12 and later print warnings that earlier versions hide, such as invalid escape sequences."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in (*MODULES.values(), *(ROOT / "fedbnsl").glob("*.py"), *(ROOT / "examples").glob("*.py")):
            compile(path.read_text(encoding="utf-8"), str(path), "exec")


def test_there_are_few_files_at_the_door_of_flows():
    assert len(list((ROOT / "flows").glob("*.py"))) <= 8


ENTRY_POINTS = {"flows.servers.parent_watchdog", "flows.cli.warm"}
"""modules that are run by `python -m`"""


MAKER = re.compile(r'lazy_factory\("([a-z_.]+):')


def lines_of(name):
    return MODULES[name].read_text(encoding="utf-8").count("\n")


def test_no_small_module_serves_one_other():
    """A module of under 50 lines with a single importer belongs into that importer; the registry counts, too."""
    declared = {
        f"algorithms.{one}" for path in ROOT.glob("algorithms/*/__init__.py") for one in MAKER.findall(path.read_text())
    }
    importers = {
        name: [other for other, used in imports().items() if name in used] + ["the registry"] * (name in declared)
        for name in MODULES
    }
    crumbs = {
        name: importers[name][0]
        for name, path in MODULES.items()
        if path.name != "__init__.py" and lines_of(name) < 50 and len(importers[name]) == 1
    }
    assert {name: by for name, by in crumbs.items() if name not in ENTRY_POINTS} == {}
