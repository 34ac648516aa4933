"""Comparison of a run with an earlier run: edges gained, lost and turned, and the drift of the parameters."""

from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.changes import Fate, StructureChanges, change_texts, structure_changes
from fedbnsl.algorithms.graphs.edges import weighted
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.drift import Drift, drift_of
from fedbnsl.algorithms.parameters.networks import Network

COUNTED: dict[str, Fate] = {
    "edges_gained": "gained",
    "edges_lost": "lost",
    "edges_turned": "turned",
    "edges_marked_otherwise": "marked otherwise",
    "edges_kept": "kept",
}
"""metrics of a comparison: the number of edges by kind of change"""


@dataclass(frozen=True)
class PastRun:
    """A finished run: its name, its structure, and its model, which is None if there is no readable model."""

    name: str
    structure: Structure
    network: Network | None = None


@dataclass(frozen=True)
class Comparison:
    """Changes since the run `earlier`; if there is no `drift`, `no_drift` is the reason."""

    earlier: str
    structure: StructureChanges
    weighted: bool
    """whether the edges of either run have weights"""
    drift: Drift | None = None
    no_drift: str = ""

    @property
    def edges_changed(self) -> int:
        """The number of edges that were gained, lost or turned, or whose marks changed."""
        return len(self.structure.changed)

    @property
    def metrics(self) -> dict[str, Any]:
        """The figures, for `metrics.json`, MLflow and hooks: counts of edges, and the drift in nats per row."""
        counts: dict[str, Any] = {name: self.structure.count(fate) for name, fate in COUNTED.items()}
        drift = {"parameter_drift": self.drift.total} if self.drift else {}
        return {"compared_with": self.earlier, **counts, "edges_changed": self.edges_changed, **drift}

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        """The text that a notebook shows, with the comparison in one sentence."""
        return f"Comparison({self.summary})"

    @property
    def summary(self) -> str:
        """The comparison in one sentence."""
        counts = ", ".join(
            f"{self.structure.count(fate)} {fate}" for fate in COUNTED.values() if self.structure.count(fate)
        )
        drift = ""
        if self.drift:
            total = max(self.drift.total, 0.0)
            drift = f"; parameter drift {total:.3g} nats per row" if total else "; the parameters are unchanged"
        return f"edges since {self.earlier}: {counts or 'none in either run'}{drift}"


def compare_runs(before: PastRun, after: PastRun) -> Comparison:
    """The changes from the run `before` to the run `after`."""
    changes = structure_changes(before.structure, after.structure)
    has_weights = weighted(before.structure) or weighted(after.structure)
    if before.network is None or after.network is None:
        which = before.name if before.network is None else after.name
        return Comparison(before.name, changes, has_weights, no_drift=f"{which} has no model to compare")
    try:
        return Comparison(before.name, changes, has_weights, drift_of(before.network, after.network))
    except BadInput as error:
        return Comparison(before.name, changes, has_weights, no_drift=str(error))


def changes_by_fate(comparison: Comparison) -> dict[str, list[str]]:
    """The changed edges as text, by kind of change."""
    changed = comparison.structure.changed
    return {fate: change_texts(changed, fate) for fate in COUNTED.values() if fate != "kept"}
