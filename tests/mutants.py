"""Plant known defects one at a time and print those that the tests do not detect.

    python tests/mutants.py [GROUP...] [--match WORD] [--baseline]

`tests/planted.toml` has a table for each defect, in groups: `what` describes it; `function`, an operator of
`defects.py` and its argument say what is changed; `tests` must fail. Each defect is planted in a copy of the package.
Its tests, and all processes that they start, import this copy in place of the checkout. The exit code is 1 if a defect
survives, cannot be planted, or stops its tests from being collected.

Tests run in forks of this process, which has imported the slow third-party packages, but nothing of this package.
"""

import argparse
import ast
import importlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

if __package__:
    from .defects import OPERATORS, OutdatedError, defective, functions
else:
    from defects import OPERATORS, OutdatedError, defective, functions

ROOT = Path(__file__).resolve().parents[1]
PLANTED = ROOT / "tests" / "planted.toml"
ROOMS = ("algorithms", "data", "flows", "tasks", "tracking")
AT_ONCE = 2
# If a defect makes a test wait for ever, the test has noticed it.
SECONDS = 300
PASSED, FAILED = 0, 1
"""exit codes of pytest: no test failed, and some did; any other says that the tests did not run"""


@dataclass(frozen=True)
class Mutant:
    """One defect, and the tests that must notice it."""

    group: str
    what: str
    function: str
    """the qualified name of a function or method; if it is ambiguous, after the end of its module's name and a colon"""
    operator: str
    """the operator of `defects.py` that is applied to the function"""
    of: str
    """what the operator is applied to"""
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """The group and what the defect is."""
        return f"{self.group}: {self.what}"

    @property
    def file(self) -> str:
        """The file that has the function; raises `OutdatedError` unless there is exactly one."""
        module, _, name = self.function.rpartition(":")
        end = f"/{module.replace('.', '/')}.py" if module else ""
        found = [file for file in files_of().get(name, ()) if file.endswith(end)]
        if len(found) != 1:
            raise OutdatedError(f"{self.function} is in {', '.join(found) or 'no file'}")
        return found[0]

    def source(self) -> str:
        """The source of the file with the defect; raises `OutdatedError` if it cannot be planted."""
        text = (ROOT / self.file).read_text(encoding="utf-8")
        return defective(text, self.function.rpartition(":")[2], self.operator, self.of)


@cache
def files_of() -> dict[str, list[str]]:
    """The files, relative to the root, that have a function of each qualified name."""
    found: dict[str, list[str]] = {}
    for path in sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for name, _ in functions(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return found


@dataclass(frozen=True)
class Outcome:
    """What became of one defect: `killed`, `survived` or `broken`, the seconds of processor time, what pytest said."""

    mutant: Mutant
    verdict: str
    seconds: float
    said: str = ""


def planted(groups: Iterable[str] = (), file: Path = PLANTED) -> list[Mutant]:
    """The defects of `groups`, by default of all groups in `file`."""
    known = tomllib.loads(file.read_text(encoding="utf-8"))
    chosen = list(groups) or list(known)
    if unknown := sorted(set(chosen) - set(known)):
        raise SystemExit(f"no such group: {', '.join(unknown)}; there are {', '.join(known)}")
    return [_mutant(group, one) for group in chosen for one in known[group]]


def _mutant(group: str, given: dict[str, str]) -> Mutant:
    (operator,) = given.keys() & OPERATORS.keys()
    return Mutant(group, given["what"], given["function"], operator, given[operator], tuple(given["tests"]))


def misfit(mutant: Mutant) -> str:
    """The reason that `mutant` cannot be planted or tested in this checkout; empty if it can."""
    try:
        mutant.source()
    except OutdatedError as reason:
        return str(reason)
    missing = [test for test in mutant.tests if not _there(test)]
    if missing or not mutant.tests:
        return f"no such test: {', '.join(missing) or 'none is named'}"
    return ""


def _there(test: str) -> bool:
    """Whether the file of a test's address is there and defines its class and function."""
    file, *names = test.split("[")[0].split("::")
    text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
    return bool(text) and all(
        re.search(rf"^\s*(async def|def|class) {re.escape(name)}\b", text, re.M) for name in names
    )


class Copy:
    """A copy of the package in a folder of its own, with its compiled code; one defect at a time is in it."""

    def __init__(self, folder: Path) -> None:
        """Make the copy in `folder`."""
        self.folder = folder
        shutil.copytree(ROOT / "fedbnsl", folder / "fedbnsl")
        for room in ROOMS:
            shutil.copytree(ROOT / room, folder / "fedbnsl" / room)

    def plant(self, mutant: Mutant) -> None:
        """Put the defect in."""
        planted_path(self.folder, mutant).write_text(mutant.source(), encoding="utf-8")

    def take_out(self, mutant: Mutant) -> None:
        """Make the file as it was, and its compiled code."""
        path, original = planted_path(self.folder, mutant), ROOT / mutant.file
        for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            stale.unlink()
        for one in (original, *(original.parent / "__pycache__").glob(f"{path.stem}.*")):
            shutil.copy2(one, path.parent / one.relative_to(original.parent))


def planted_path(copy: Path, mutant: Mutant) -> Path:
    """The path of the file of `mutant` in a copy of the package."""
    return copy / "fedbnsl" / mutant.file


def fork(work: Callable[[], int], output: Path) -> int:
    """The id of a forked process, in its own process group, that does `work` and exits with its return value."""
    if child := os.fork():
        return child
    code = 2
    try:
        os.setsid()
        log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        signal.alarm(SECONDS)
        code = work()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def tests_in(copy: Path, mutant: Mutant) -> int:
    """Run the tests of `mutant` on the package in `copy`; return pytest's exit code."""
    import numba
    import pytest

    text = planted_path(copy, mutant).read_text(encoding="utf-8") if mutant.file else ""
    os.environ |= {"PYTHONPATH": str(copy), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the search for plugins takes as long as many tests
    if "@njit" in text:  # callers' compiled code has the callee in it
        os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = str(copy / f"numba-{os.getpid()}")
    sys.dont_write_bytecode = True
    sys.path[0] = str(copy)
    os.chdir(ROOT)
    options = ["-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider"]
    options += ["-p", "_hypothesis_pytestplugin", "--hypothesis-profile=planted"]
    return int(pytest.main([*options, *mutant.tests]))


HEAVY = (
    *("pytest", "hypothesis.strategies", "scipy.optimize", "scipy.stats", "numba", "pandas", "networkx", "msgpack"),
    "cryptography.hazmat.primitives.asymmetric.x25519",
)
"""what the tests of the algorithms need besides the package itself, and what takes seconds to import"""


def run_all(mutants: list[Mutant], *, plant: bool = True) -> list[Outcome]:
    """Return the outcomes of `mutants`, `AT_ONCE` at a time; without `plant`, those of tests on unchanged code."""
    for module in HEAVY:
        importlib.import_module(module)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="fedbnsl-mutants-") as folder:
        idle = [Copy(Path(folder) / str(k)) for k in range(min(AT_ONCE, len(mutants)))]
        running: dict[int, tuple[Copy, Mutant]] = {}
        waiting = list(mutants)
        while waiting or running:
            while waiting and idle:
                copy, mutant = idle.pop(), waiting.pop(0)
                if plant:
                    copy.plant(mutant)
                running[_start(copy, mutant)] = (copy, mutant)
            process, status, usage = os.wait3(0)
            copy, mutant = running.pop(process)
            _end(process)
            outcomes.append(_outcome(copy, mutant, status, usage.ru_utime + usage.ru_stime))
            copy.take_out(mutant)
            idle.append(copy)
            _tell(outcomes[-1])
    return outcomes


def _start(copy: Copy, mutant: Mutant) -> int:
    return fork(lambda: tests_in(copy.folder, mutant), copy.folder / "output.txt")


def _end(process: int) -> None:
    """End processes that the tests may have left."""
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def _outcome(copy: Copy, mutant: Mutant, status: int, seconds: float) -> Outcome:
    said = (copy.folder / "output.txt").read_text(encoding="utf-8", errors="replace")
    if os.WIFSIGNALED(status):
        late = os.WTERMSIG(status) == signal.SIGALRM
        return Outcome(mutant, "killed" if late else "broken", seconds, said)
    verdict = {PASSED: "survived", FAILED: "killed"}.get(os.WEXITSTATUS(status), "broken")
    return Outcome(mutant, verdict, seconds, said)


def _tell(outcome: Outcome) -> None:
    print(f"{outcome.verdict:8} {outcome.seconds:6.1f} s  {outcome.mutant.name}", flush=True)


def table(outcomes: list[Outcome]) -> str:
    """The counts of each group as a table."""
    groups = sorted({one.mutant.group for one in outcomes})
    lines = [f"{'group':12} {'planted':>8} {'killed':>8} {'survived':>9} {'broken':>7} {'seconds':>8}"]
    for group in [*groups, "all"]:
        of = [one for one in outcomes if group in (one.mutant.group, "all")]
        counts = [sum(one.verdict == verdict for one in of) for verdict in ("killed", "survived", "broken")]
        lines.append(
            f"{group:12} {len(of):8} {counts[0]:8} {counts[1]:9} {counts[2]:7} {sum(one.seconds for one in of):8.0f}"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Plant the defects that `arguments` select; return the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("groups", nargs="*", help="groups of defects; all by default")
    parser.add_argument("--match", default="", help="only those with this in what they are")
    parser.add_argument("--planted", type=Path, default=PLANTED, help="the file of defects")
    parser.add_argument("--baseline", action="store_true", help="run their tests on sound code instead: all must pass")
    asked = parser.parse_args(arguments)
    mutants = [one for one in planted(asked.groups, asked.planted) if asked.match in one.name]
    misfits = {one: why for one in mutants if (why := misfit(one))}
    for one, why in misfits.items():
        print(f"broken             {one.name}: {why}")
    began = time.monotonic()
    outcomes = run_all([one for one in mutants if one not in misfits], plant=not asked.baseline)
    print(f"\n{table(outcomes)}\nin {time.monotonic() - began:.0f} s")
    return int(bool(_complain(outcomes, "survived" if asked.baseline else "killed") or misfits))


def _complain(outcomes: Sequence[Outcome], wanted: str) -> list[Outcome]:
    """Print pytest's output for outcomes that are not `wanted`, and return them."""
    wrong = [one for one in outcomes if one.verdict != wanted]
    for one in wrong:
        print(f"\n{one.verdict}: {one.mutant.name} ({one.mutant.function})\n{one.said}")
    return wrong


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
