"""A run against an earlier one: edges gained, lost and turned, and how far the parameters have drifted."""

from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.changes import Fate, StructureChanges, changes_of, texts
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
"""figures of a comparison, each the number of edges of one fate"""


@dataclass(frozen=True)
class PastRun:
    """What is known of a finished run: its name, its structure, and its model if it has one that can be read back."""

    name: str
    structure: Structure
    network: Network | None = None


@dataclass(frozen=True)
class Comparison:
    """What has changed since the run `earlier`; without `drift`, `no_drift` says why it is not known."""

    earlier: str
    structure: StructureChanges
    weighted: bool
    """whether the edges of either run have weights"""
    drift: Drift | None = None
    no_drift: str = ""

    @property
    def edges_changed(self) -> int:
        """How many edges were gained, lost, turned or are marked otherwise."""
        return len(self.structure.changed)

    @property
    def metrics(self) -> dict[str, Any]:
        """The figures, for `metrics.json`, MLflow and hooks: counts of edges, and the drift in nats a row."""
        counts: dict[str, Any] = {name: self.structure.count(fate) for name, fate in COUNTED.items()}
        drift = {"parameter_drift": self.drift.total} if self.drift else {}
        return {"compared_with": self.earlier, **counts, "edges_changed": self.edges_changed, **drift}

    @property
    def said(self) -> str:
        """The comparison in one sentence."""
        counts = ", ".join(
            f"{self.structure.count(fate)} {fate}" for fate in COUNTED.values() if self.structure.count(fate)
        )
        drift = f"; parameter drift {max(self.drift.total, 0.0):.3g} nats a row" if self.drift else ""
        return f"edges since {self.earlier}: {counts or 'none then and none now'}{drift}"


def compared(before: PastRun, after: PastRun) -> Comparison:
    """Return what has changed from the run `before` to the run `after`."""
    changes = changes_of(before.structure, after.structure)
    has_weights = weighted(before.structure) or weighted(after.structure)
    if before.network is None or after.network is None:
        which = before.name if before.network is None else after.name
        return Comparison(before.name, changes, has_weights, no_drift=f"{which} has no model to compare")
    try:
        return Comparison(before.name, changes, has_weights, drift_of(before.network, after.network))
    except BadInput as error:
        return Comparison(before.name, changes, has_weights, no_drift=str(error))


def named_changes(comparison: Comparison) -> dict[str, list[str]]:
    """Return the edges that have changed, in words, by what became of them."""
    changed = comparison.structure.changed
    return {fate: texts(changed, fate) for fate in COUNTED.values() if fate != "kept"}
