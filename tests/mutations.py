"""Mutate the modules that have changed, one operator at a time, with cosmic-ray; print the mutations that survive.

    python tests/mutations.py [--since COMMIT] [--tests PATH...] [MODULE...]

By default, the modules that differ from `--since` (the last commit) are mutated, and each is tested by the tests of the
folder of the same name. Mutations are made in a copy of the package, which the tests import in place of the checkout. A
survivor is not always a fault: read it, and write a test if the code does something that no test notices. uv installs
cosmic-ray in an environment of its own, because the tests do not import it.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

if __package__:
    from .mutants import ROOMS, ROOT, Copy
else:
    from mutants import ROOMS, ROOT, Copy

TOOL = ("tool", "run", "--from", "cosmic-ray==8.7.0")
SECONDS = 120.0
CONFIG = """
[cosmic-ray]
module-path = "{module}"
timeout = {seconds}
excluded-modules = []
test-command = "{command}"
[cosmic-ray.distributor]
name = "local"
"""


def changed(since: str) -> list[str]:
    """The modules of the package that differ from the commit `since`."""
    command = ["git", "diff", "--name-only", "--diff-filter=d", since, "--", *ROOMS]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [name for name in listed if name.endswith(".py")]


def mutate(module: str, tests: list[str], folder: Path) -> str:
    """The report of all mutations of `module` in a copy of the package in `folder`."""
    Copy(folder)
    words = " ".join(tests or [str(Path("tests", module).parent)])
    python = f"env PYTHONPATH={folder} PYTHONSAFEPATH=1 {sys.executable}"
    config, session = folder / "config.toml", folder / "session.sqlite"
    config.write_text(
        CONFIG.format(
            module=folder / "fedbnsl" / module,
            seconds=SECONDS,
            command=f"{python} -m pytest -x -q -n 0 -p no:cacheprovider -m 'not slow' {words}",
        )
    )
    uv = str(Path(sys.executable).with_name("uv"))
    for step in (["cosmic-ray", "init", config, session], ["cosmic-ray", "exec", config, session]):
        subprocess.run([uv, *TOOL, *map(str, step)], cwd=ROOT, check=True)
    report = [uv, *TOOL, "cr-report", "--surviving-only", "--show-diff", str(session)]
    return subprocess.run(report, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main(arguments: list[str]) -> None:
    """Print the surviving mutations of the modules that `arguments` select."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("modules", nargs="*", help="such as tasks/silo/gate.py; those that have changed by default")
    parser.add_argument("--since", default="HEAD~1", help="the commit since which modules have changed")
    parser.add_argument(
        "--tests", nargs="+", default=[], help="the tests to run; those of the module's folder by default"
    )
    asked = parser.parse_args(arguments)
    for module in asked.modules or changed(asked.since):
        with tempfile.TemporaryDirectory(prefix="fedbnsl-mutations-") as folder:
            print(f"== {module}\n{mutate(module, asked.tests, Path(folder))}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
