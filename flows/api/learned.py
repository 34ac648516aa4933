"""What a call of `learn` returns, and `load` brings back: the result in the forms that Python users expect."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import pandas as pd

from fedbnsl.algorithms.graphs.markov_blanket import MarkovBlanket, markov_blanket
from fedbnsl.tracking.outputs import AVERAGED, FURTHER, MODELS, OUTPUTS, write_outputs
from fedbnsl.tracking.result import Metric, RunResult
from fedbnsl.tracking.staging import write_files

from ..start import check_out
from .shown import as_page, drawn, headline, showing_itself

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Learned:
    """What was learned: `result` has everything, the other attributes give it in the usual forms."""

    result: RunResult
    folder: Path | None = None
    """where its files are, if they were written"""

    def __repr__(self) -> str:
        """Return one line: algorithm, data, edges, how well they match the truth, and how the run ended."""
        return f"Learned({headline(self.result)})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the line, the picture, and what to know before trusting it."""
        return as_page(self.result)

    def plot(self) -> "Figure":
        """Return the picture of the structure, held against the truth where that is known, as a matplotlib figure.

        A notebook shows it when it is the last value of a cell; `savefig` writes it to a file.
        """
        return showing_itself(drawn(self.result))

    @cached_property
    def graph(self) -> "nx.DiGraph[str]":
        """The structure as a directed networkx graph with edge attribute `weight`; a dynamic one is unrolled."""
        return self.result.structure.to_networkx()

    def to_networkx(self) -> "nx.DiGraph[str]":
        """Return a copy of `graph`, to change at will."""
        return self.graph.copy()

    @cached_property
    def weights(self) -> pd.DataFrame:
        """The weights: row i, column j is the weight of i → j. Of a dynamic structure those within one time."""
        names = list(self.result.structure.variables)
        return pd.DataFrame(self.result.structure.weights, index=names, columns=names)

    @cached_property
    def lagged(self) -> tuple[pd.DataFrame, ...]:
        """The weights of the edges across time, lag by lag, in the same form; none where the structure has no lags."""
        names = list(self.result.structure.variables)
        lagged = self.result.structure.lagged
        return () if lagged is None else tuple(pd.DataFrame(one, index=names, columns=names) for one in lagged)

    @property
    def metrics(self) -> dict[str, Metric]:
        """The scores and totals, as in `metrics.json`."""
        return self.result.metrics

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """A row per round, as in `rounds.csv`."""
        return pd.DataFrame(list(self.result.rounds))

    def features(self, target: str) -> MarkovBlanket:
        """Return the parents, children, undirected neighbours and spouses of `target`.

        Raises `BadInput` for an unknown target, and for a PAG, which does not tell parents from spouses.
        """
        return markov_blanket(self.result.structure, target)

    @cached_property
    def model(self) -> Any:
        """The structure with its parameters as a pgmpy network, discrete or linear Gaussian.

        That of a dynamic structure is over several times, with nodes such as "x" and "x[t-1]". That of mixed data is a
        `MixedNetwork` of ours, with `sample` and `query`. Raises `ValueError` that says why, if there is none.
        """
        from fedbnsl.algorithms.parameters.mixed_network import MixedNetwork
        from fedbnsl.tracking.model import network_of

        network = network_of(self.result)
        return network if isinstance(network, MixedNetwork) else self.to_pgmpy()

    def to_pgmpy(self) -> Any:
        """Return the structure with its parameters as a new pgmpy network, discrete or linear Gaussian.

        Raises `ValueError` that says why, if there is none: pgmpy has no networks of mixed variables, for which `model`
        is one of ours.
        """
        from fedbnsl.tracking.model import pgmpy_model

        return pgmpy_model(self.result)

    @cached_property
    def dynamic(self) -> Any:
        """A structure with edges from one step before as a pgmpy `DynamicBayesianNetwork`, without parameters.

        Raises `ValueError` that says why, if it is none.
        """
        from fedbnsl.tracking.model import pgmpy_dynamic

        return pgmpy_dynamic(self.result.structure)

    def save(self, folder: str | Path) -> Path:
        """Write the files of the run to the new or empty `folder` and return it: `fedbnsl.load` brings them back.

        They are those of `fedbnsl learn`, among them the report. Those of a run that has a folder are copied. Raises
        `BadInput` for a folder that is in use or cannot be written.
        """
        folder = Path(folder)
        check_out(folder)
        there = [] if self.folder is None else [self.folder / name for name in (*OUTPUTS, *FURTHER, AVERAGED, *MODELS)]
        found = {path.name: path.read_bytes() for path in there if path.is_file()}
        if set(OUTPUTS) <= set(found):
            write_files(folder, found)
        else:
            write_outputs(self.result, folder)
        return folder
