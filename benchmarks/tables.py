"""Tables as owners have them: mixed kinds, empty cells, real files, silos larger than memory.

`python benchmarks/tables.py` runs all of them, `--table NAME` those of one script: `mixed.py`, `gaps.py`, `heart.py`,
`large.py`, `labels.py` and `skewed.py` say what each does.
"""

import argparse
import subprocess
import sys
from pathlib import Path

SCRIPTS = ("mixed", "gaps", "heart", "large", "labels", "skewed")


def main() -> None:
    """Run the scripts asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", choices=SCRIPTS, action="append", help="one or more; default: all")
    for name in parser.parse_args().table or SCRIPTS:
        subprocess.run([sys.executable, str(Path(__file__).with_name(f"{name}.py"))], check=True)


if __name__ == "__main__":
    main()
