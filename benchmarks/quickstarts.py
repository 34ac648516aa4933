"""The first hours of four users: every command of the four quickstarts of the documentation, word for word, with times.

`python benchmarks/quickstarts.py [PAGE ...]` runs the blocks of a page in order in one new folder, with a new home, as
the build of the site does (`docs/site/build.py`), one page after another. A command that fails ends it with its error.
"""

import importlib.util
import json
import resource
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from measure import RESULTS, show

ROOT = Path(__file__).resolve().parents[1]
USERS = {
    "hospital": "data scientist: `inspect`, `choose`, the first graph, its effects",
    "researcher": "researcher: `benchmark` with seeds and tables, then Python",
    "operator": "operator: a coordinator and three silos that learn once, and the certificates of another federation",
    "notebook": "notebook user: `learn`, its result, and what to ask of it",
}
"""the quickstarts, by the name of their page, with what their user does"""


def site_builder() -> ModuleType:
    """The module that builds the site, which is a script in the documentation."""
    spec = importlib.util.spec_from_file_location("site_builder", ROOT / "docs/site/build.py")
    assert spec is not None
    assert spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    return builder


def cpu_seconds() -> float:
    """The CPU seconds of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def played(name: str, builder: ModuleType) -> dict[str, Any]:
    """The line of the table for a page: the number of its blocks that ran, and their seconds."""
    page = ROOT / f"docs/site/{name}.md"
    text = page.read_text("utf-8")
    blocks = [language for language, _ in builder.FENCE.findall(text) if language in builder.RUN]
    start, before = time.perf_counter(), cpu_seconds()
    builder.with_output(text, page.relative_to(ROOT))
    wall, cpu = time.perf_counter() - start, cpu_seconds() - before
    return {
        "page": f"`docs/site/{name}.md`",
        "user": USERS[name],
        "blocks": len(blocks),
        "s": f"{wall:.0f}",
        "CPU s": f"{cpu:.0f}",
    }


def main() -> None:
    """Play the pages that are named, or all of them; the others keep the lines that are recorded."""
    builder, recorded = site_builder(), RESULTS / "quickstarts.json"
    known = json.loads(recorded.read_text("utf-8"))["rows"] if recorded.exists() else []
    lines = dict(zip(USERS, known, strict=False))
    for name in sys.argv[1:] or USERS:
        lines[name] = played(name, builder)
        print(f"{name}: {lines[name]['s']} s, {lines[name]['CPU s']} CPU s", flush=True)
    show("quickstarts", [lines[name] for name in USERS if name in lines], {})


if __name__ == "__main__":
    main()
