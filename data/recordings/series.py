"""`prepare series`: files of recorded time series as federated data sets.

The formats are long tables, the files of the DREAM4 challenge (tabs between columns, blank lines between series), and
the simulated fMRI recordings of NetSim (Smith et al. 2011). A NetSim file is a MATLAB file. Its array `ts` [n_subjects
· n_times, n_nodes] has the times of one subject after another. Its array `net` [n_subjects, n_nodes, n_nodes] has the
subjects' networks, with i → j at [s, i, j] and the decay of activity on the diagonal.

`deal_series` gives silos whole series, or consecutive pieces of a single series. `standardise_series` removes levels
and units that carry no information, as in functional MRI. `read_summary` reads a true graph: a file like `truth.csv`,
or JSON with nodes and edges.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import check_names
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.algorithms.graphs.structure import Structure

from ..federated import MIN_SILO_ROWS, FederatedData, silo_names, time_series
from ..folder.batches import Column
from ..folder.cells import cell_fault
from ..folder.check import check_silo_name, check_table
from ..folder.series import SERIES, TIME, Cut, Keys, Recording, cut, find_column, read_recording, recording_of
from ..folder.sources import open_source
from ..folder.truth import read_truth
from ..generators.random_graphs import variable_names


def read_challenge(path: Path) -> Recording:
    """Read a header with a column `Time`, then rows of numbers; a blank line or a decreasing time ends a series.

    Raises `BadInput` naming file, line, column and value.
    """
    header, rows, series = _rows(path)
    time = find_column(path, header, TIME)
    if time is None:
        raise BadInput(f"{path}: line 1: column 'Time' is missing; available: {', '.join(header[:8])}")
    if not rows:
        raise BadInput(f"{path}: no rows")
    named = zip(header, zip(*rows, strict=True), strict=True)
    columns = [Column(name, np.arange(len(rows)), list(cells)) for name, cells in named]
    clock = np.array(columns[header.index(time)].cells, dtype=np.float64)
    blocks = np.array(series)
    decreasing = np.concatenate([[False], (np.diff(clock) <= 0) & (np.diff(blocks) == 0)])
    return recording_of(
        open_source(path), [_series_column(blocks + np.cumsum(decreasing)), *columns], Keys(SERIES, time)
    )


def _series_column(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Column:
    distinct, codes = np.unique(numbers, return_inverse=True)
    return Column(SERIES, codes, [str(number) for number in range(1, len(distinct) + 1)])


def _rows(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """The header, the rows of cells, and the number of blank lines before each row; raises as `read_challenge`."""
    if not path.exists():
        raise BadInput(f"{path}: no such file")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (UnicodeDecodeError, OSError) as error:
        raise BadInput(f"{path}: cannot be read as UTF-8 text: {error}") from None
    header: list[str] = []
    rows: list[list[str]] = []
    series: list[int] = []
    blank = 0
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter="\t"), [])]
        if not any(cells):
            blank += 1
        elif not header:
            header = cells
            check_names(f"{path}: line {number}", header)
        else:
            _check_cells(f"{path}: line {number}", cells, header)
            rows.append(cells)
            series.append(blank)
    if not header:
        raise BadInput(f"{path}: the file is empty")
    return header, rows, series


def _check_cells(place: str, cells: list[str], header: list[str]) -> None:
    if len(cells) != len(header):
        raise BadInput(f"{place}: {len(cells)} cells, but the header names {len(header)} columns")
    for name, cell in zip(header, cells, strict=True):
        fault = cell_fault(cell)
        if fault:
            raise BadInput(f"{place}, column {quoted(name)}: {fault}")


Pieces = Mapping[str, Sequence[NDArray[np.intp]]]
"""by silo, the rows of each of its unbroken stretches"""


def deal_series(
    recording: Recording, silos: int | None, truth: Structure | None, about: Mapping[str, Any]
) -> FederatedData:
    """Deal the whole series of `recording` in their order to `silos` silos; by default each series becomes a silo.

    A single series is divided into `silos` consecutive pieces instead. If rows have owners, each owner becomes a silo.
    Raises `BadInput` as `cut` does, for a silo without two consecutive rows or with a constant column, and for fewer
    series than silos.
    """
    complete = cut(recording)
    if recording.keys.owner is not None:
        pieces = _owner_pieces(recording, complete)
    elif silos is not None and len(recording.names) == 1:
        pieces = _consecutive_pieces(recording, complete, silos)
    else:
        pieces = _series_pieces(recording, complete, silos)
    tables, stretches = {}, {}
    for silo, rows in pieces.items():
        place = f"{recording.path}: silo {quoted(silo)}"
        tables[silo] = recording.values[np.concatenate(rows)] if rows else recording.values[:0]
        stretches[silo] = tuple(map(len, rows))
        if max(stretches[silo], default=0) < MIN_SILO_ROWS:
            raise BadInput(f"{place}: no two consecutive complete rows")
        check_table(place, recording.variables, tables[silo])
    schema = time_series(tables, stretches, recording.variables)
    return FederatedData(schema, tables, truth, {}, {"kind": "time-series", **about})


def _stretch_rows(recording: Recording, found: Cut) -> list[NDArray[np.intp]]:
    return np.split(found.rows, np.cumsum(found.lengths)[:-1])


def _owner_pieces(recording: Recording, found: Cut) -> Pieces:
    pieces: dict[str, list[NDArray[np.intp]]] = {owner: [] for owner in sorted(set(recording.owners))}
    for owner in pieces:
        check_silo_name(f"{recording.path}: column {quoted(recording.keys.owner or '')}", owner)
    for rows in _stretch_rows(recording, found):
        pieces[recording.owners[recording.series[rows[0]]]].append(rows)
    return pieces


def _consecutive_pieces(recording: Recording, found: Cut, silos: int) -> Pieces:
    if len(found.rows) < MIN_SILO_ROWS * silos:
        raise BadInput(f"silos: {recording.path} has one series of {len(found.rows)} rows, too few for {silos} silos")
    places = np.array_split(np.arange(len(found.rows)), silos)
    starts = np.cumsum((0, *found.lengths))
    pieces = {}
    for silo, part in zip(silo_names(silos), places, strict=True):
        inside = [int(start) - int(part[0]) for start in starts if part[0] < start <= part[-1]]
        pieces[silo] = np.split(found.rows[part], inside)
    return pieces


def _series_pieces(recording: Recording, found: Cut, silos: int | None) -> Pieces:
    series, count = len(recording.names), silos or len(recording.names)
    if count > series:
        raise BadInput(f"silos: {recording.path} has {series} series, too few for {count} silos")
    owner = np.repeat(np.arange(count), [len(part) for part in np.array_split(np.arange(series), count)])
    names = silo_names(count)
    pieces: dict[str, list[NDArray[np.intp]]] = {name: [] for name in names}
    for rows in _stretch_rows(recording, found):
        pieces[names[owner[recording.series[rows[0]]]]].append(rows)
    return pieces


def read_netsim(path: Path) -> tuple[Recording, Structure | None]:
    """The subjects' series, and the mean of their networks as the truth; the truth is None without networks.

    This truth does not specify lags, and may have cycles. Raises `BadInput` naming file and array for a file that does
    not exist or is not a MATLAB file up to version 7, and for a missing array or an array of another shape.
    """
    held = _load_matlab(path)
    ts = _matlab_array(path, held, "ts", 2)
    subjects, times = _matlab_count(path, held, "Nsubjects"), _matlab_count(path, held, "Ntimepoints")
    if len(ts) != subjects * times:
        raise BadInput(f"{path}: array 'ts': {len(ts)} rows, not {subjects} subjects of {times} times")
    if np.isinf(ts).any():
        row, column = np.argwhere(np.isinf(ts))[0]
        raise BadInput(f"{path}: array 'ts': row {row + 1}, column {column + 1}: {ts[row, column]} is not finite")
    names = variable_names(ts.shape[1])
    clock = np.tile(np.arange(times, dtype=np.float64), subjects)
    recording = Recording(
        path,
        Keys(),
        names,
        ts,
        tuple(str(number) for number in range(1, subjects + 1)),
        ("",) * subjects,
        np.repeat(np.arange(subjects), times),
        clock,
        clock.astype(object),
        np.arange(len(ts)),
        lambda row: f"{path}: row {row + 1}",
    )
    if "net" not in held:
        return recording, None
    net = _matlab_array(path, held, "net", 3)
    d = len(names)
    if net.shape != (subjects, d, d) or not np.isfinite(net).all():
        raise BadInput(f"{path}: array 'net': {net.shape} numbers, not {(subjects, d, d)} that are finite")
    return recording, Structure(names, np.where(np.eye(d, dtype=bool), 0.0, net.mean(axis=0)))


def _load_matlab(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    if not path.exists():
        raise BadInput(f"{path}: no such file")
    try:
        held: dict[str, Any] = loadmat(path)
    except NotImplementedError:
        raise BadInput(f"{path}: a MATLAB file of version 7.3; save it with -v7") from None
    except Exception as error:  # scipy raises various errors for broken files
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{path}: not a readable MATLAB file: {reason}") from error
    return held


def _matlab_array(path: Path, held: dict[str, Any], name: str, dimensions: int) -> Any:
    if name not in held:
        raise BadInput(f"{path}: array {name!r} is missing; available: {', '.join(k for k in held if k[0] != '_')}")
    found = np.asarray(held[name])
    if found.ndim != dimensions or not np.issubdtype(found.dtype, np.number) or np.iscomplexobj(found):
        raise BadInput(f"{path}: array {name!r}: {found.dtype} of shape {found.shape}, not {dimensions}-D real numbers")
    return found.astype(np.float64)


def _matlab_count(path: Path, held: dict[str, Any], name: str) -> int:
    found = _matlab_array(path, held, name, 2)
    if found.size != 1 or found.item() < 1 or not found.item().is_integer():
        raise BadInput(f"{path}: array {name!r}: not an integer of 1 or more")
    return int(found.item())


MIN_RELATIVE_SPREAD = 1e-12
"""minimum standard deviation of a series as a fraction of its maximum; smaller values are rounding errors"""


def standardise_series(recording: Recording) -> Recording:
    """`recording` with every variable of every series at mean 0 and standard deviation 1.

    A variable that is constant in a series becomes 0 there; empty cells stay empty. Differences between the levels of
    series and between the scales of variables are lost.
    """
    values = pd.DataFrame(recording.values)
    by_series = values.groupby(recording.series)
    spread = by_series.transform("std", ddof=0)
    largest = values.abs().groupby(recording.series).transform("max")
    scaled = (values - by_series.transform("mean")) / spread.where(spread > MIN_RELATIVE_SPREAD * largest, np.inf)
    return replace(recording, values=scaled.to_numpy())


def read_summary(path: Path, variables: tuple[str, ...]) -> Structure:
    """The graph in `path` over `variables`: a .json file is `{"edges": [[source, target], ...]}`.

    Such a graph has effects at unspecified lags, and may have cycles. Raises `BadInput` naming file, edge and variable,
    or as `read_truth` does.
    """
    if path.suffix.lower() != ".json":
        return read_truth(path, variables)[0]
    place = {name: number for number, name in enumerate(variables)}
    weights = np.zeros((len(variables), len(variables)))
    for number, edge in enumerate(_edges(path), start=1):
        if not isinstance(edge, list) or len(edge) != 2 or not all(isinstance(name, str) for name in edge):
            raise BadInput(f"{path}: edge {number}: {quoted(str(edge))} is not a pair of names")
        for name in edge:
            if name not in place:
                raise BadInput(f"{path}: edge {number}: {quoted(name)} is not a column of the data")
        source, target = edge
        if source == target:
            raise BadInput(f"{path}: edge {number}: an edge from {quoted(source)} to itself")
        weights[place[source], place[target]] = 1.0
    return Structure(variables, weights)


def _edges(path: Path) -> list[Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise BadInput(f"{path}: not JSON: {error}") from None
    edges = content.get("edges") if isinstance(content, dict) else None
    if not isinstance(edges, list):
        raise BadInput(f"{path}: not a JSON object with a list of 'edges'")
    return edges


def series(
    table: Path,
    series: str | None = None,
    time: str | None = None,
    silos: int | None = None,
    by: str | None = None,
    truth: Path | None = None,
    standardise: bool = False,
) -> FederatedData:
    """Deal the time series in `table` to silos: whole series, or consecutive pieces of a single one (`deal_series`).

    A .csv, .csv.gz or .parquet file is a long table with the columns `series` and `time`; with a column `by`, each of
    its values becomes a silo. A .mat file is a file of NetSim, which has its own truth, and a .tsv file is a file of
    the DREAM4 challenge; these files have no key columns to choose. `truth` is a file of the true graph, .csv or .json.
    `standardise` removes the levels and units of every series. Raises `BadInput` naming file, line, column and value
    for unusable data.
    """
    if silos is not None and (silos < 1 or by is not None):
        raise BadInput("silos: give a number of 1 or more, or by, not both")
    recording, graph = _read(table, series, time, by)
    if truth is not None:
        graph = read_summary(truth, recording.variables)
    choices = {"series": recording.keys.series, "time": recording.keys.time, "silos": silos, "by": by}
    given: dict[str, object] = {name: value for name, value in choices.items() if value is not None}
    if standardise:
        recording, given = standardise_series(recording), given | {"standardise": True}
    return deal_series(recording, silos, graph, {"generator": "series", "parameters": {"table": table.name} | given})


def _read(table: Path, series: str | None, time: str | None, by: str | None) -> tuple[Recording, Structure | None]:
    ending = table.suffix.lower()
    if ending not in (".mat", ".tsv"):
        return read_recording(table, series, time, by), None
    for name, value in (("series", series), ("time", time), ("by", by)):
        if value is not None:
            raise BadInput(f"{name}: {table} is a {ending} file, whose series and times have no columns to choose")
    return read_netsim(table) if ending == ".mat" else (read_challenge(table), None)
