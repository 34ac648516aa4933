"""`prepare series`: a file of recorded time series, whatever program wrote it, as a federated data set."""

from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure

from ..federated import FederatedData
from ..folder.recording import Recording, read_recording
from .challenge import read_challenge
from .deal import deal_series
from .netsim import read_netsim
from .standard import standardised
from .summary import read_summary


def series(
    table: Path,
    series: str | None = None,
    time: str | None = None,
    silos: int | None = None,
    by: str | None = None,
    truth: Path | None = None,
    standardise: bool = False,
) -> FederatedData:
    """Deal the time series in `table` to silos: whole, or consecutive pieces of a single one, as `deal_series` says.

    A .csv, .csv.gz or .parquet file is a long table, with the columns `series` and `time`, and a silo for each value of
    the column `by`. A .mat file is one of NetSim, with its own truth, a .tsv file one of the DREAM4 challenge: they
    have no such columns to choose. `truth` is a file of the true graph, .csv or .json. `standardise` takes the levels
    and units of every series away. Raises `BadInput` naming file, line, column and value for what cannot be read or
    dealt.
    """
    if silos is not None and (silos < 1 or by is not None):
        raise BadInput("silos: give a number from 1 on, or by, not both")
    recording, graph = _read(table, series, time, by)
    if truth is not None:
        graph = read_summary(truth, recording.variables)
    chosen = {"series": recording.keys.series, "time": recording.keys.time, "silos": silos, "by": by}
    how: dict[str, object] = {name: value for name, value in chosen.items() if value is not None}
    if standardise:
        recording, how = standardised(recording), how | {"standardise": True}
    return deal_series(recording, silos, graph, {"generator": "series", "parameters": {"table": table.name} | how})


def _read(table: Path, series: str | None, time: str | None, by: str | None) -> tuple[Recording, Structure | None]:
    form = table.suffix.lower()
    if form not in (".mat", ".tsv"):
        return read_recording(table, series, time, by), None
    for name, value in (("series", series), ("time", time), ("by", by)):
        if value is not None:
            raise BadInput(f"{name}: {table} is a {form} file, whose series and times have no columns to choose")
    return read_netsim(table) if form == ".mat" else (read_challenge(table), None)
