"""Pictures of the reports of ten kinds of runs, for a visual check.

    python benchmarks/reports.py                  # docs/pictures/reports/*.png, and what a browser measures
    python benchmarks/reports.py DIR KIND...      # also whole pages, at 1,200 and 390 pixels, and as PDF, into DIR

This needs Chromium and the extra `dev`. "Overflow" is the number of pixels by which the page is wider than the screen;
it must be 0.
"""

import io
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image

from fedbnsl import learn, prepare

PICTURES = Path(__file__).parents[1] / "docs" / "pictures" / "reports"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
COLOURS = 24
"""of a committed picture"""


def numbers(data: Path, out: Path) -> None:
    """Numbers, with resamples."""
    prepare("homogeneous", data, variables=8, silos=4, rows=400, seed=3)
    (data / "truth.csv").unlink()
    learn(data, bootstrap=40, out=out)


def labels(data: Path, out: Path) -> None:
    """Labels of a published network."""
    prepare("network", data, network="asia", silos=3, rows=1500, seed=2)
    (data / "truth.csv").unlink()
    learn(data, bootstrap=40, out=out)


def mixed(data: Path, out: Path) -> None:
    """Numbers and labels."""
    prepare("mixed", data, variables=8, silos=3, rows=800, seed=2)
    (data / "truth.csv").unlink()
    learn(data, bootstrap=40, out=out)


def series(data: Path, out: Path) -> None:
    """Time series."""
    prepare("dynamic", data, variables=6, silos=3, rows=300, seed=2)
    (data / "truth.csv").unlink()
    learn(data, out=out)


def events(data: Path, out: Path) -> None:
    """Sequences of events."""
    prepare("events", data, seed=2)
    (data / "truth.csv").unlink()
    learn(data, out=out)


def experiments(data: Path, out: Path) -> None:
    """Silos in which experiments set variables."""
    prepare("interventions", data, variables=7, silos=4, targeted_silos=3, rows=500, seed=2)
    (data / "truth.csv").unlink()
    learn(data, out=out)


def pag(data: Path, out: Path) -> None:
    """A PAG, which allows for unmeasured causes."""
    prepare("discrete", data, variables=9, silos=3, rows=1500, latent=1, seed=5)
    (data / "truth.csv").unlink()
    learn(data, "fed-fci", out=out)


def personalised(data: Path, out: Path) -> None:
    """A graph for each silo, of time series."""
    prepare("dynamic", data, variables=5, silos=3, rows=200, own_structures=True, seed=2)
    (data / "truth.csv").unlink()
    learn(data, "pfdbnl", lags=1, out=out)


def private(data: Path, out: Path) -> None:
    """A run with an ε, compared with the true graph."""
    prepare("homogeneous", data, variables=8, silos=4, rows=2000, seed=3)
    learn(data, "secure-sum", epsilon=2.0, delta=1e-6, out=out)


def missing(data: Path, out: Path) -> None:
    """Numbers with empty cells."""
    with tempfile.TemporaryDirectory() as folder:
        prepare("homogeneous", Path(folder) / "whole", variables=8, silos=3, rows=500, seed=4)
        prepare("amputate", data, source=str(Path(folder) / "whole"), mechanism="mar", share=0.15, seed=1)
    (data / "truth.csv").unlink(missing_ok=True)
    learn(data, out=out)


KINDS: dict[str, Callable[[Path, Path], None]] = {
    make.__name__: make
    for make in (numbers, labels, mixed, series, events, experiments, pag, personalised, private, missing)
}


def small(picture: bytes) -> Image.Image:
    """The PNG in a few colours."""
    return Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS)


def photograph(browser: Any, name: str, report: Path, whole: Path | None) -> dict[str, Any]:
    """Write the picture of a report, and its whole pages into the folder `whole`; return what the browser measures."""
    measured: dict[str, Any] = {"run": name, "KB": report.stat().st_size // 1024}
    for width in (1200, 390):
        page = browser.new_page(viewport={"width": width, "height": 1500 if width > 1000 else 844})
        page.goto(report.as_uri())
        page.wait_for_timeout(500)
        inner = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        measured[f"overflow at {width}"] = inner
        if width > 1000:
            small(page.screenshot()).save(PICTURES / f"{name}.png", optimize=True)
        if whole:
            small(page.screenshot(full_page=True)).save(whole / f"{name}-{width}.png", optimize=True)
        if width > 1000:
            pdf = page.pdf(format="A4")
            measured["pages of the PDF"] = len(re.findall(rb"/Type\s*/Page[^s]", pdf))
            if whole:
                (whole / f"{name}.pdf").write_bytes(pdf)
        page.close()
    return measured


def main() -> None:
    """Make the runs, and their pictures."""
    from playwright.sync_api import sync_playwright

    whole = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    PICTURES.mkdir(parents=True, exist_ok=True)
    if whole:
        whole.mkdir(parents=True, exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        for name in sys.argv[2:] or KINDS:
            out = Path(folder) / f"{name}-run"
            KINDS[name](Path(folder) / name, out)
            rows.append(photograph(browser, name, out / "report.html", whole))
            print(rows[-1], flush=True)
        browser.close()
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    main()
