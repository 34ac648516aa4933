"""The results of a benchmark: one tidy CSV file, tables in Markdown and LaTeX, and pictures of scores and costs.

A cell of a table has the mean over the seeds and the standard deviation. The best mean of each data set is bold. Means
that differ from the best mean by at most the standard error of the difference are bold, too.
"""

import math
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedbnsl.algorithms.core.schema import escape_formulas
from fedbnsl.tracking.metrics import METRICS, shown_in
from fedbnsl.tracking.pictures.picture import as_png

from .cells import NOT_APPLICABLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-9
"""spread of values, relative to the largest, that is only rounding"""
LATEX = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}", "ε": r"$\varepsilon$"}
LATEX |= {"α": r"$\alpha$", "λ": r"$\lambda$", "±": r"$\pm$", "–": "--", "~": r"\textasciitilde{}"}
LATEX |= {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}"}


@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation and number of the values of one cell, and whether it is among the best."""

    mean: float
    sd: float
    count: int
    best: bool = False

    @property
    def text(self) -> str:
        """The mean with its standard deviation, if there are several values."""
        return f"{_number(self.mean)} ± {_number(self.sd)}" if self.count > 1 else _number(self.mean)


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def files_of(rows: pd.DataFrame, name: str) -> dict[str, bytes]:
    """The files of a benchmark by name: `results.csv`, `tables.md`, `tables.tex` and a picture for each metric."""
    rows = with_megabytes(rows)
    found = {"results.csv": _csv(rows), "tables.md": markdown(rows, name), "tables.tex": latex(rows, name)}
    pictures = {
        f"{one.name}.png": as_png(drawn(rows, one.name)) for one in shown_in("picture") if _known(rows, one.name)
    }
    return {file: text.encode() for file, text in found.items()} | pictures


def with_megabytes(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` with the bytes of both directions in MB."""
    if not _known(rows, "bytes_up") or not _known(rows, "bytes_down"):
        return rows
    return rows.assign(megabytes=(rows["bytes_up"] + rows["bytes_down"]) / 1e6)


def _known(rows: pd.DataFrame, metric: str) -> bool:
    return metric in rows and bool(rows[metric].notna().any())


def _csv(rows: pd.DataFrame) -> str:
    buffer = StringIO()
    escape_formulas(rows).to_csv(buffer, index=False, lineterminator="\n")
    return buffer.getvalue()


def summaries(rows: pd.DataFrame, metric: str) -> dict[tuple[str, str], Summary]:
    """The summary of `metric` for each data set and algorithm that has values."""
    found: dict[tuple[str, str], Summary] = {}
    for (data, algorithm), values in rows.groupby(["data", "algorithm"], sort=False)[metric]:
        known = values.dropna().astype(float)
        if len(known):
            spread = float(known.std(ddof=1)) if float(np.ptp(known)) > ROUNDING * known.abs().max() else 0.0
            found[str(data), str(algorithm)] = Summary(float(known.mean()), spread, len(known))
    if METRICS[metric].best is None:
        return found
    sign = 1.0 if METRICS[metric].best == "least" else -1.0
    for data in dict.fromkeys(data for data, _ in found):
        own = {key: one for key, one in found.items() if key[0] == data}
        best = min(own.values(), key=lambda one: sign * one.mean)
        for key, one in own.items():
            error = math.sqrt(one.sd**2 / one.count + best.sd**2 / best.count)
            good = sign * (one.mean - best.mean) <= error
            found[key] = Summary(one.mean, one.sd, one.count, best=good)
    return found


def _tables(rows: pd.DataFrame) -> dict[str, tuple[list[str], list[list[Summary | str]]]]:
    """For each metric, by the title of its table: the header, and a row for each data set."""
    algorithms = list(dict.fromkeys(rows["algorithm"]))
    tables: dict[str, tuple[list[str], list[list[Summary | str]]]] = {}
    for metric in shown_in("benchmark"):
        if not _known(rows, metric.name):
            continue
        found = summaries(rows, metric.name)
        lines: list[list[Summary | str]] = [
            [data, *(found.get((data, one), "–") for one in algorithms)] for data in dict.fromkeys(rows["data"])
        ]
        tables[metric.heading] = (["data", *algorithms], lines)
    return tables


def _without_scores(rows: pd.DataFrame) -> dict[str, list[str]]:
    """By title, the runs without scores: those that failed, and algorithms that do not learn from the data, once."""
    failed, other = (rows[rows["status"] == status] for status in ("failed", NOT_APPLICABLE))
    other = other.drop_duplicates(["data", "algorithm"])
    return {
        f"{len(failed)} of {len(rows)} runs failed": [
            f"{one.data}, {one.algorithm}, seed {one.seed}: {one.reason}" for one in failed.itertuples()
        ],
        "Not applicable": [f"{one.data}, {one.algorithm}: {one.reason}" for one in other.itertuples()],
    }


def markdown(rows: pd.DataFrame, name: str) -> str:
    """All tables in Markdown, and the runs without scores."""
    parts = [f"# {name}", f"Mean ± standard deviation over {_seeds(rows)}; the best, up to a standard error, in bold."]
    for title, (header, lines) in _tables(rows).items():
        cells = [[_cell(one, "**{}**").replace("|", r"\|") for one in line] for line in lines]
        ruled = [header, ["---"] * len(header), *cells]
        parts.append("\n".join([f"## {title}", "", *(f"| {' | '.join(line)} |" for line in ruled)]))
    for title, runs in _without_scores(rows).items():
        if runs:
            parts.append("\n".join([f"## {title}", "", *(f"- {one}" for one in runs)]))
    return "\n\n".join(parts) + "\n"


def latex(rows: pd.DataFrame, name: str) -> str:
    """All tables in LaTeX, for the package `booktabs`."""
    parts = [f"% {name}: mean and standard deviation over {_seeds(rows)}; needs \\usepackage{{booktabs}}"]
    for title, (header, lines) in _tables(rows).items():
        body = [" & ".join(_cell(one, r"\textbf{{{}}}", escape=True) for one in line) + r" \\" for line in lines]
        head = " & ".join(map(_escaped, header)) + r" \\"
        columns = "l" + "r" * (len(header) - 1)
        frame = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
        caption = rf"\caption{{{_escaped(title)}}}"
        parts.append("\n".join([r"\begin{table}", r"\centering", *frame, r"\end{tabular}", caption, r"\end{table}"]))
    return "\n\n".join(parts) + "\n"


def _seeds(rows: pd.DataFrame) -> str:
    count = rows["seed"].nunique()
    return f"{count} seed{'s' * (count != 1)}"


def _cell(one: Summary | str, bold: str, *, escape: bool = False) -> str:
    text = one if isinstance(one, str) else one.text
    text = _escaped(text) if escape else text
    return bold.format(text) if isinstance(one, Summary) and one.best else text


def _escaped(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def drawn(rows: pd.DataFrame, metric: str) -> "Figure":
    """The picture of `metric`: lines over the option of a sweep, if the spec has one, and else means by data set."""
    known = rows.dropna(subset=[metric])
    if "swept_data" in rows and rows["swept_data"].notna().all():
        return _drawn_over(known.assign(panel=known["swept_data"], line=known["algorithm"]), metric, "data")
    if "swept_algorithm" in rows:
        line = known["swept_algorithm"].fillna(known["algorithm"])
        return _drawn_over(known.assign(panel=known["data"], line=line), metric, "algorithm")
    return _drawn_by_data(rows, metric)


def _drawn_over(rows: pd.DataFrame, metric: str, part: str) -> "Figure":
    """Lines over the swept option of the data sets or algorithms (`part`): means with standard deviations over seeds.

    Each `panel` of the rows has axes of its own, with lines by `line`. What has no value of the option is a dashed
    horizontal line.
    """
    from matplotlib.figure import Figure

    panels = list(rows.groupby("panel", sort=False))
    figure = Figure(figsize=(max(4.2 * len(panels), 4.8), 3.6), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    colours = {name: f"C{k % 10}" for k, name in enumerate(dict.fromkeys(rows["line"]))}
    for axes, (title, own) in zip(grid, panels, strict=True):
        for name, line in own.groupby("line", sort=False):
            points = line.groupby(f"{part}_value")[metric].agg(["mean", "std"]).fillna(0.0)
            if len(points):
                style = {"fmt": "o-", "markersize": 4, "capsize": 2, "color": colours[name], "label": name}
                axes.errorbar(points.index, points["mean"], points["std"], **style)
            else:
                axes.axhline(line[metric].mean(), linestyle="--", color=colours[name], label=name)
        values = own[f"{part}_value"].dropna()
        if (values > 0).all() and values.max() >= 10 * values.min():
            axes.set_xscale("log")
        axes.set(title=title, xlabel=", ".join(own[f"{part}_option"].dropna().unique()))
        axes.grid(alpha=0.3)
    grid[0].set_ylabel(METRICS[metric].heading)
    by_name = {name: one for axes in grid for one, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(by_name.values(), by_name, loc="outside upper center", ncols=min(len(by_name), 4), frameon=False)
    return figure


def _drawn_by_data(rows: pd.DataFrame, metric: str) -> "Figure":
    """The values of `metric` by data set and algorithm: means with standard deviations, and a dot for each seed."""
    from matplotlib.figure import Figure

    data, algorithms = list(dict.fromkeys(rows["data"])), list(dict.fromkeys(rows["algorithm"]))
    found = summaries(rows, metric)
    figure = Figure(figsize=(7.2, 0.7 + (0.28 * len(algorithms) + 0.3) * len(data)), layout="constrained")
    axes = figure.add_subplot()
    step, ticks = 0.8 / len(algorithms), []
    for k, algorithm in enumerate(algorithms):
        colour = f"C{k % 10}"
        places = [at + 0.4 - (k + 0.5) * step for at in range(len(data) - 1, -1, -1)]
        for place, name in zip(places, data, strict=True):
            own = rows[(rows["data"] == name) & (rows["algorithm"] == algorithm)][metric].dropna()
            axes.plot(own, [place] * len(own), ".", color=colour, alpha=0.35, markersize=4)
        means = [
            (found[name, algorithm], place)
            for name, place in zip(data, places, strict=True)
            if (name, algorithm) in found
        ]
        axes.errorbar(
            [one.mean for one, _ in means],
            [place for _, place in means],
            xerr=[one.sd for one, _ in means],
            fmt="o",
            color=colour,
            label=algorithm,
        )
    ticks = list(range(len(data) - 1, -1, -1))
    axes.set_yticks(ticks, data)
    values = rows[metric].dropna()
    if metric in ("seconds", "megabytes") and (values > 0).all() and values.max() > 100 * values.min():
        axes.set_xscale("log")
    axes.set(xlabel=METRICS[metric].heading)
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=min(len(algorithms), 4), frameon=False)
    return figure
