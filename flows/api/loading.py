"""Loading a finished run from its files, as the result that `learn` returned."""

import csv
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.core.schema import Schema, unescape_formula
from fedbnsl.algorithms.diagnosis.implied import Fit
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.edges import FIGURES, ClassifiedEdges, EdgeFigures, EdgeKey, key_of, known_figures
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.posterior.sampling import Posterior
from fedbnsl.data.folder.folder import read_structure, read_structures
from fedbnsl.tracking.kept_files import format_of, without_format
from fedbnsl.tracking.metrics import MetricValue
from fedbnsl.tracking.result import (
    NO_POSTERIOR,
    Diagnosed,
    FoundTargets,
    GraphPosterior,
    HeldOutScores,
    Parameters,
    PrivacySpent,
    RunDescription,
    RunResult,
    SurvivalOutcome,
    Tuning,
)
from fedbnsl.tracking.staging import first_line

from ..engines.run_comparison import network_in
from .learned import Learned, confidence_in

T = TypeVar("T")


def load(path: str | Path) -> Learned:
    """The result of the finished run whose files are in the folder `path`.

    The result has the content of the files: structure, model, scores, rounds, settings, findings, spent ε, and the
    silos' own structures. These parts of the result of `learn` are not in the files: the true graph, descriptions of
    the rows, and the strengths of edges that are neither in the structure nor in the averaged network. Raises
    `BadInput` for a folder without a finished run, and for a damaged file.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder")
    if not (folder / "metrics.json").is_file():
        resume = f": fedbnsl learn --resume {folder}" if (folder / "started.json").is_file() else ""
        raise BadInput(f"{folder}: no finished run, as it has no metrics.json{resume}")
    with _reading(folder / "config.json"):
        return Learned(_result(folder), folder)


def _result(folder: Path) -> RunResult:
    config, metrics = _json(folder / "config.json"), _json(folder / "metrics.json")
    schema, lags = _schema(config), int(metrics.get("lags") or 0)
    structure = replace(_padded(read_structure(folder / "structure.csv", schema.nodes), lags), kind=config["graph"])
    return RunResult(
        **{one.name: config[one.name] for one in fields(RunDescription) if one.name in config},
        schema=schema,
        structure=structure,
        ended=config.get("ended", ""),
        truth=None,
        outcome=metrics["outcome"],
        lost=tuple(config["lost"]),
        rounds=tuple(_table(folder / "rounds.csv")),
        metrics=metrics,
        local_structures=_local(folder, schema, lags),
        silo_scores={row.pop("silo"): row for row in _table(folder / "silos.csv")},
        parameters=Parameters(network_in(folder), config["parameters"]["how"], metrics.get("parameter_bytes") or 0),
        diagnosed=TypeAdapter(Diagnosed).validate_python(
            {"findings": config["findings"], "bytes_sent": metrics.get("diagnosis_bytes") or 0}
        ),
        fit=TypeAdapter(Fit).validate_python(config["fit"]),
        edge_figures=_edge_figures(folder, structure),
        found_targets=_part(FoundTargets, config.get("found_targets")),
        tuning=_part(Tuning, config["tuning"]),
        held_out=TypeAdapter(HeldOutScores).validate_python(config["held_out"]),
        basis=tuple(config["basis"]),
        privacy=_privacy(config["privacy"]),
        secure=config["secure"],
        confidence=confidence_in(folder, structure.among(schema.variables), metrics),
        graph_posterior=_graph_posterior(folder, schema, config.get("posterior")),
        survival=TypeAdapter(tuple[SurvivalOutcome, ...]).validate_python(config.get("survival", ())),
        notes=tuple(config["notes"]),
        not_identified=tuple((one, other) for one, other in config["not_identified"]),
    )


def _schema(config: dict[str, Any]) -> Schema:
    known = config["knowledge"] or {}
    return Schema(
        variables=tuple(config["variables"]),
        rows=config["rows"],
        kind=config["kind"],
        levels={name: tuple(labels) for name, labels in config["levels"].items()},
        aside=config["aside"],
        complete_rows=config["complete_rows"],
        transforms=config["transforms"],
        counts=tuple(config["counts"]),
        independent_share=config.get("independent_share", 1.0),
        knowledge=Knowledge(**{name: tuple(tuple(arc) for arc in arcs) for name, arcs in known.items()}),
        targets={silo: tuple(map(tuple, own)) for silo, own in config.get("targets", {}).items()},
        stretches={silo: tuple(own.values()) for silo, own in config.get("conditions", {}).items()},
        survival={one["name"]: (one["time"], one["event"]) for one in config.get("survival", ())},
        condition_names={silo: tuple(own) for silo, own in config.get("conditions", {}).items()},
    )


def _padded(structure: Structure, lags: int) -> Structure:
    """`structure` with all lags of the run; the file has lags only up to the last lag with an edge."""
    if not lags:
        return structure
    lagged: NDArray[np.float64] = np.zeros((lags, *structure.weights.shape))
    if structure.lagged is not None:
        lagged[: structure.lags] = structure.lagged
    return replace(structure, lagged=lagged)


def _local(folder: Path, schema: Schema, lags: int) -> dict[str, Structure]:
    path, d = folder / "silo_structures.csv", len(schema.variables)
    if not path.is_file():
        return {}
    empty = Structure(schema.variables, np.zeros((d, d)))
    found = read_structures(path, schema.variables)
    return {silo: _padded(found.get(silo, empty), lags) for silo in schema.silos}


def _graph_posterior(folder: Path, schema: Schema, stated: dict[str, Any] | None) -> GraphPosterior:
    """The posterior that `config.json` states, with the graphs of its own file."""
    if stated is None:
        return NO_POSTERIOR
    own = {name: stated[name] for name in ("why", "how", "bytes_sent")}
    if "graphs" not in stated:
        return GraphPosterior(None, **own)
    d, place = len(schema.variables), {name: v for v, name in enumerate(schema.variables)}
    weights = np.zeros((stated["graphs"], d, d))
    with _reading(folder / "posterior_graphs.csv"), (folder / "posterior_graphs.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            ends = (place[unescape_formula(row[name])] for name in ("source", "target"))
            weights[int(row["graph"]) - 1, *ends] = float(row.get("weight", 1.0))
    return GraphPosterior(
        Posterior(schema.variables, weights, stated["weighted"], _or_infinity(stated["r_hat"]), stated["sweeps"]), **own
    )


def _edge_figures(folder: Path, structure: Structure) -> dict[EdgeKey, EdgeFigures]:
    """The figures of the edges in `structure.csv`, whose lines are in the order of the edges."""
    rows = zip(ClassifiedEdges(structure), _table(folder / "structure.csv"), strict=True)
    found = {key_of(edge): EdgeFigures(**{name: row.get(name) for name in FIGURES}) for edge, row in rows}
    return found if known_figures(found) else {}


def _part(kind: type[T], content: Any) -> T | None:
    """The part of a result that `content`, from JSON, describes; None if the run has no such part."""
    return None if content is None else TypeAdapter(kind).validate_python(content)


def _privacy(config: dict[str, Any] | None) -> PrivacySpent | None:
    if config is None:
        return None
    values = {key: config[key] for key in config if key != "not_covered"}
    for name in ("run", "ever"):
        values[name] = {silo: _or_infinity(spent) for silo, spent in config[name].items()}
    releases = tuple((what, times, _or_infinity(rho)) for what, times, rho in config["releases"])
    by_round = tuple((number, _or_infinity(spent)) for number, spent in config.get("by_round", ()))
    return PrivacySpent(**values | {"releases": releases, "by_round": by_round})


def _or_infinity(spent: float | None) -> float:
    """A number from JSON, where null stands for infinity, the cost of a release without noise."""
    return math.inf if spent is None else spent


def _json(path: Path) -> dict[str, Any]:
    with _reading(path):
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError(f"a {type(content).__name__}")
        return without_format(path, content) if format_of(path) else content


def _table(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV file of numbers, without their empty cells; no rows if there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{key: cell for key, cell in row.items() if cell != ""} for row in csv.DictReader(file)]
    return [
        {key: unescape_formula(cell) if key == "silo" else _value(cell) for key, cell in row.items()} for row in rows
    ]


def _value(cell: str) -> MetricValue:
    """The number or truth value in a cell, or the text of a cell that has neither."""
    words: dict[str, MetricValue] = {"True": True, "False": False}
    if cell in words:
        return words[cell]
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise `BadInput`, naming `path`, if the block finds missing or invalid content."""
    try:
        yield
    except BadInput:
        raise
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        fault = f"{error} is missing" if isinstance(error, KeyError) else f"{type(error).__name__}: {first_line(error)}"
        raise BadInput(f"{path}: not in the format of this version of fedbnsl: {fault}") from None
