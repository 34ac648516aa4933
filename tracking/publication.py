"""The publication gate: what is published of the exact figures of a run.

Everything that is written about a run comes from its `RunResult` and, during the run, from the rows of `rounds.csv` and
the structure of each round: files, report, MLflow, Prefect, terminal. All of these pass the `PublicationGate` before
any writer sees them. It decides by the kind of a number:

- a count of events: at least `MIN_COUNT`, rounded by the rules of `disclosure_control.py`, which the tables of models
  also follow
- a rate: a count divided by a public or published number, so the count is rounded to the grid
- a share of rows: a multiple of 1/100 or of three rows, whichever is larger
- a statistic or a p-value: three significant digits; a p-value of exact counts only by its magnitude
- a likelihood of rows: four significant digits
- exact: what depends on public numbers, the graph, or the weights alone

The kind of a measure follows from its name, and an unknown name is a statistic. If the user keeps small cells, counts,
rates and shares are exact, and a p-value of exact counts has three digits. The measures and the model of a run with an
ε are published as they are, because what they are computed from is private already. Models of numbers are published as
they were fitted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.events.hawkes import Intensities
from fedbnsl.algorithms.graphs.edges import EdgeFigures, EdgeKey
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.privacy.disclosure_control import GRID, MIN_COUNT, SMALL_CELL, CountTable, publishable_tables

from .metrics import METRICS, Kind, MetricValue
from .result import Parameters

EXACT_MEASURES = (
    "round",
    "phase",
    "rho1",
    "rows",
    "ordered",
    "resamples_running",
    "conditioning_set_size",
    "formula_bytes",
)
"""measures of a round, besides metrics, that are published as they are: they are public, or follow from the graph"""
KINDS = {name: one.kind for name, one in METRICS.items()} | dict.fromkeys(EXACT_MEASURES, Kind.EXACT)
"""the kinds of measures by name; every other measure that is not a whole number is a statistic"""
MIN_EXPONENT = -300
"""exponent of the smallest power of ten that is published as a bound of a p-value"""

T = TypeVar("T")


@dataclass(frozen=True)
class PublicationGate:
    """The gate of one run."""

    small_cells: str | None
    """`blank`: all rules apply; `keep`: counts, rates and shares are exact; None, for a run with an ε: measures and the
    model are exact"""
    rows: int
    """the public number of rows that shares refer to; of time series, the number of windows"""

    def measures(self, exact: Mapping[str, MetricValue]) -> dict[str, Any]:
        """The published form of measures: floats by their kinds; whole numbers and text are published as they are."""
        return {name: self._measure(name, value) for name, value in exact.items()}

    def _measure(self, name: str, value: MetricValue) -> MetricValue:
        kind = KINDS.get(name, Kind.STATISTIC)
        if not isinstance(value, float) or self.small_cells is None or kind is Kind.EXACT:
            return value
        return float(self.shares(np.array(value))) if kind is Kind.SHARE else rounded(value, kind)

    def shares(self, exact: FloatArray) -> FloatArray:
        """Published shares of rows."""
        if self.small_cells != "blank":
            return exact
        step = max(0.01, GRID / max(self.rows, 1))
        return np.asarray(np.round(step * np.rint(exact / step), 4))

    def edge_figures(
        self, exact: Mapping[EdgeKey, EdgeFigures], largest: Mapping[EdgeKey, float], *, labels: bool
    ) -> dict[EdgeKey, EdgeFigures]:
        """The published figures of edges, with the `largest` p-values of a search by tests.

        A search over `labels` tests exact counts. If small cells are not published, only the magnitude of the p-values
        is published, because more digits would disclose information about single rows.
        """
        bound = _power_of_ten if labels and self.small_cells == "blank" else rounded
        figures = {key: rounded(exact.get(key, EdgeFigures())) for key in {**exact, **largest}}
        return {
            key: replace(one, largest_p_value=bound(largest[key]) if key in largest else None)
            for key, one in figures.items()
        }

    def parameters(self, exact: Parameters) -> Parameters:
        """A model with published forecast errors and intensities."""
        if self.small_cells is None:
            return exact
        forecasts, events = exact.forecasts, exact.intensities
        if forecasts is not None:
            numbers = exact.network.numbers if exact.network else np.bool_(True)
            errors = (np.where(numbers, rounded(one), self.shares(one)) for one in vars(forecasts).values())
            forecasts = type(forecasts)(*errors)
        return replace(exact, forecasts=forecasts, intensities=None if events is None else self.intensities(events))

    def intensities(self, exact: Intensities) -> Intensities:
        """A published Hawkes process: NaN for types of fewer than three events, otherwise rates of rounded counts.

        A rate is a number of events divided by the time of observation, or by the number of causing events. So these
        numbers of events are rounded to the grid. An edge keeps a positive weight: the weight of half an event if it
        stands for less than half the grid or if its effect is rare. A rare cause counts as three events.
        """
        if self.small_cells != "blank":
            return exact
        counts = exact.events.astype(np.int64)
        (table,) = publishable_tables([CountTable((0,), counts, 0)], int(counts.sum()))
        rare = table.counts < table.grid
        caused = exact.excitation * exact.events[:, None]
        on_grid = GRID * np.rint(caused / GRID)
        edges = ~np.eye(len(counts), dtype=np.bool_) & (caused > 0)
        on_grid = np.where(edges & ((on_grid == 0) | rare), SMALL_CELL, on_grid)
        excitation = on_grid / np.where(rare, MIN_COUNT, table.counts)[:, None]
        excitation[np.diag(rare)] = np.nan
        events = np.where(rare, np.nan, table.counts)
        alone = np.minimum(GRID * np.rint(exact.base * exact.time / GRID), events)
        return replace(
            exact,
            base=rounded(alone / exact.time if exact.time > 0 else alone),
            excitation=rounded(excitation),
            delay=rounded(exact.delay),
            events=events,
            background=rounded(alone / events),
            time=rounded(exact.time),
        )

    def structure(self, exact: Structure, intensities: Intensities | None) -> Structure:
        """A structure with the weights of the published `intensities`; without these, the weights are exact."""
        if intensities is None:
            return exact
        return replace(exact, weights=np.where(exact.weights != 0, self.intensities(intensities).excitation, 0.0))


def rounded(exact: T, kind: Kind = Kind.STATISTIC) -> T:
    """`exact` with all its numbers rounded to the digits of `kind`; whole numbers and texts stay.

    `exact` is a number, an array, or a tuple, mapping or dataclass of such values.
    """
    return cast(T, _rounded(exact, kind))


def _rounded(exact: Any, kind: Kind) -> Any:
    if isinstance(exact, float):
        return float(f"{exact:.{kind.value}g}")
    if isinstance(exact, np.ndarray):
        return np.array([_rounded(one, kind) for one in exact.ravel().tolist()]).reshape(exact.shape)
    if isinstance(exact, tuple):
        return tuple(_rounded(one, kind) for one in exact)
    if isinstance(exact, Mapping):
        return {key: _rounded(one, kind) for key, one in exact.items()}
    if is_dataclass(exact) and not isinstance(exact, type):
        return replace(exact, **{one.name: _rounded(getattr(exact, one.name), kind) for one in fields(exact)})
    return exact


def _power_of_ten(p: float) -> float:
    return float(10.0 ** max(math.ceil(math.log10(p) - 1e-9), MIN_EXPONENT)) if p > 0 else 10.0**MIN_EXPONENT
