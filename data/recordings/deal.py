"""A recording, dealt to silos: series whole, or, of a single one, consecutive pieces."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.algorithms.graphs.structure import Structure

from ..federated import LEAST_ROWS, FederatedData, silo_names, time_series
from ..folder.check import check_silo_name, check_table
from ..folder.recording import Recording
from ..folder.series import Cut, cut

Pieces = Mapping[str, Sequence[NDArray[np.intp]]]
"""by silo, the rows of each of its unbroken stretches"""


def deal_series(
    recording: Recording, silos: int | None, truth: Structure | None, about: Mapping[str, Any]
) -> FederatedData:
    """Deal the series of `recording` to silos, whole: in their order to `silos` of them, or a silo each.

    A single series is cut into `silos` consecutive pieces instead. Where the rows have an owner, each owner is a silo.
    Raises `BadInput` as `cut` does, for a silo without two consecutive rows or with a constant column, and for fewer
    series than silos.
    """
    found = cut(recording)
    if recording.keys.owner is not None:
        pieces = _by_owner(recording, found)
    elif silos is not None and len(recording.names) == 1:
        pieces = _cut_up(recording, found, silos)
    else:
        pieces = _whole(recording, found, silos)
    tables, stretches = {}, {}
    for silo, rows in pieces.items():
        place = f"{recording.path}: silo {shown(silo)}"
        tables[silo] = recording.values[np.concatenate(rows)] if rows else recording.values[:0]
        stretches[silo] = tuple(map(len, rows))
        if max(stretches[silo], default=0) < LEAST_ROWS:
            raise BadInput(f"{place}: no two consecutive complete rows")
        check_table(place, recording.variables, tables[silo])
    schema = time_series(tables, stretches, recording.variables)
    return FederatedData(schema, tables, truth, {}, {"kind": "time-series", **about})


def _stretches(recording: Recording, found: Cut) -> list[NDArray[np.intp]]:
    return np.split(found.rows, np.cumsum(found.lengths)[:-1])


def _by_owner(recording: Recording, found: Cut) -> Pieces:
    pieces: dict[str, list[NDArray[np.intp]]] = {owner: [] for owner in sorted(set(recording.owners))}
    for owner in pieces:
        check_silo_name(f"{recording.path}: column {shown(recording.keys.owner or '')}", owner)
    for rows in _stretches(recording, found):
        pieces[recording.owners[recording.series[rows[0]]]].append(rows)
    return pieces


def _cut_up(recording: Recording, found: Cut, silos: int) -> Pieces:
    if len(found.rows) < LEAST_ROWS * silos:
        raise BadInput(f"silos: {recording.path} has one series of {len(found.rows)} rows, too few for {silos} silos")
    places = np.array_split(np.arange(len(found.rows)), silos)
    begins = np.cumsum((0, *found.lengths))
    pieces = {}
    for silo, part in zip(silo_names(silos), places, strict=True):
        inside = [int(begin) - int(part[0]) for begin in begins if part[0] < begin <= part[-1]]
        pieces[silo] = np.split(found.rows[part], inside)
    return pieces


def _whole(recording: Recording, found: Cut, silos: int | None) -> Pieces:
    series, count = len(recording.names), silos or len(recording.names)
    if count > series:
        raise BadInput(f"silos: {recording.path} has {series} series, too few for {count} silos")
    owner = np.repeat(np.arange(count), [len(part) for part in np.array_split(np.arange(series), count)])
    names = silo_names(count)
    pieces: dict[str, list[NDArray[np.intp]]] = {name: [] for name in names}
    for rows in _stretches(recording, found):
        pieces[names[owner[recording.series[rows[0]]]]].append(rows)
    return pieces
