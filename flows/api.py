"""The Python API: `from fedbnsl import learn, prepare`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import networkx as nx
import pandas as pd

from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.algorithms.graphs.markov_blanket import MarkovBlanket, markov_blanket
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.check import check_silo_name
from fedbnsl.data.folder.declared import READ_ALL, Reading
from fedbnsl.data.folder.folder import read_folder, silo_files, write_folder
from fedbnsl.tracking.notice import first_line
from fedbnsl.tracking.outputs import write_outputs
from fedbnsl.tracking.result import Metric, RunResult

from .engines.inline import job_inline, run_inline
from .job.check import check
from .job.reading import reading_of, silos_of
from .make import form_of, make
from .options.learn import Columns, LearnOptions, LearnSettings, Missing
from .options.model import one_line
from .options.prepare import recipe
from .servers.environment import prepare_environment
from .start import check_inline, check_out, check_results_fit, learn_with_prefect, precheck

Data = str | Path | FederatedData | Mapping[str, pd.DataFrame]
IN_MEMORY = "data"


@dataclass(frozen=True)
class Learned:
    """What was learned: `result` has everything, the other attributes give it in the usual forms."""

    result: RunResult
    folder: Path | None = None

    @cached_property
    def graph(self) -> "nx.DiGraph[str]":
        """The structure as a directed networkx graph with edge attribute `weight`; a dynamic one is unrolled."""
        return self.result.structure.to_networkx()

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
        from fedbnsl.tracking.model import network_of, pgmpy_model

        network = network_of(self.result)
        return network if isinstance(network, MixedNetwork) else pgmpy_model(self.result)

    @cached_property
    def dynamic(self) -> Any:
        """A structure with edges from one step before as a pgmpy `DynamicBayesianNetwork`, without parameters.

        Raises `ValueError` that says why, if it is none.
        """
        from fedbnsl.tracking.model import pgmpy_dynamic

        return pgmpy_dynamic(self.result.structure)


DEFAULTS = LearnOptions()


def learn(
    data: Data,
    algorithm: str = DEFAULTS.algorithm,
    *,
    seed: int = DEFAULTS.seed,
    engine: str = "inline",
    out: str | Path | None = DEFAULTS.out,
    name: str | None = DEFAULTS.name,
    allow_cyclic_truth: bool = DEFAULTS.allow_cyclic_truth,
    epsilon: float | None = DEFAULTS.epsilon,
    delta: float | None = DEFAULTS.delta,
    budget: float | None = DEFAULTS.budget,
    budget_delta: float | None = DEFAULTS.budget_delta,
    secure: bool = DEFAULTS.secure,
    ignore: Columns = DEFAULTS.ignore,
    only: Columns = DEFAULTS.only,
    missing: Missing = DEFAULTS.missing,
    knowledge: str | None = DEFAULTS.knowledge,
    required_arcs: str | None = DEFAULTS.required_arcs,
    forbidden_arcs: str | None = DEFAULTS.forbidden_arcs,
    tiers: str | None = DEFAULTS.tiers,
    no_parents: str | None = DEFAULTS.no_parents,
    parameters: bool = DEFAULTS.parameters,
    diagnose: bool = DEFAULTS.diagnose,
    smoothing: float = DEFAULTS.smoothing,
    bootstrap: int = DEFAULTS.bootstrap,
    federation: str | None = DEFAULTS.federation,
    silos: Columns = DEFAULTS.silos,
    quorum: int | None = DEFAULTS.quorum,
    silo_patience: float = DEFAULTS.silo_patience,
    **params: Any,
) -> Learned:
    """Learn a structure from `data`: a folder, a `FederatedData`, or a DataFrame a silo by name.

    The options are those of `fedbnsl learn`, which explains them, and `params` are the parameters of the algorithm.
    `engine="prefect"` runs it through Prefect and Dask, with MLflow; the default uses this process alone. With `out`
    the files of a run are written there. A folder's privacy ledgers are kept in it, those of tables end with the call.
    Raises `BadInput` (a ValueError) for anything that cannot be learned from.
    """
    given = locals()
    told = {name: value for name, value in given.items() if name in LearnOptions.model_fields}
    told |= {"data": str(data) if isinstance(data, str | Path) else IN_MEMORY, "out": str(out) if out else None}
    with one_line():
        settings = LearnSettings.model_validate(told)
    return _learned(settings, data, engine)


def prepare(kind: str, out: str | Path | None = None, **options: Any) -> FederatedData:
    """Return a data set of `kind`, written to the folder `out` if given.

    The kinds are the commands of `fedbnsl prepare`, and the options are those of `fedbnsl prepare KIND`. Raises
    `BadInput` for an unknown kind, option or value.
    """
    asked = recipe(kind, **options)
    data = make(asked)
    if out is not None:
        write_folder(Path(out), data, form_of(asked))
    return data


def in_memory(data: Any, reading: Reading = READ_ALL) -> FederatedData:
    """Return `data`, or the data set of one DataFrame a silo; raises `BadInput` as reading a folder does."""
    if isinstance(data, FederatedData):
        if reading.ignore or reading.only or reading.silos or reading.missing != "model":
            raise BadInput(
                "ignore, only, silos and missing are for data that are read: this FederatedData has been already"
            )
        return data
    if not isinstance(data, Mapping) or not data:
        raise BadInput(f"data is a {type(data).__name__}: give a folder, a FederatedData, or a dict of DataFrames")
    # The frames are written and read, so that the rules of a folder apply to them.
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / IN_MEMORY
        folder.mkdir()
        for silo, frame in data.items():
            _write_frame(folder, silo, frame)
        try:
            return read_folder(folder, reading)
        except BadInput as error:
            said = str(error).replace(f"{folder}{os.sep}", "").replace(str(folder), IN_MEMORY)
            raise BadInput(said.replace(".parquet", "")) from None


def _write_frame(folder: Path, silo: Any, frame: Any) -> None:
    """Write the table of one silo; raises `BadInput` for what is none."""
    import pyarrow  # type: ignore[import-untyped]

    if not isinstance(silo, str):
        raise BadInput(f"data: {shown(str(silo))} cannot name a silo: it is a {type(silo).__name__}, not text")
    check_silo_name(IN_MEMORY, silo)
    if not isinstance(frame, pd.DataFrame):
        raise BadInput(f"data: silo {shown(silo)} is a {type(frame).__name__}: give a DataFrame, its columns named")
    try:
        frame.rename(columns=str).to_parquet(folder / f"{silo}.parquet", index=False)
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        raise BadInput(f"data: silo {shown(silo)}: cannot be read as a table: {first_line(error)}") from None


def _learned(settings: LearnSettings, data: Any, engine: str) -> Learned:
    folder = Path(data) if isinstance(data, str | Path) else None
    if engine == "prefect":
        if folder is None:
            raise BadInput("the engine prefect reads a folder: write the data with fedbnsl.data.folder.write_folder")
        return _learn_with_prefect(settings)
    if engine != "inline":
        raise BadInput(f"engine is '{engine}': choose inline or prefect")
    check_inline(settings)
    read = in_memory(data, reading_of(settings)) if folder is None else read_folder(folder, reading_of(settings))
    return _learn_inline(settings, read, folder)


def _learn_inline(settings: LearnSettings, tables: FederatedData, folder: Path | None) -> Learned:
    """Learn from `tables`, read from `folder` if that is given: then the ledgers beside its files are charged."""
    if settings.out is not None:
        check_results_fit(Path(settings.out))
    job = job_inline(settings.named(), str(uuid4()), tables)
    check(job, tables.schema)
    files = silo_files(folder, silos_of(settings)) if folder is not None else None
    result = run_inline(job, tables, files=files)
    if settings.out is None:
        return Learned(result)
    write_outputs(result, Path(settings.out))
    return Learned(result, Path(settings.out))


def _learn_with_prefect(settings: LearnSettings) -> Learned:
    prepare_environment()
    settings = settings.named()
    check_out(Path(str(settings.out)))
    precheck(settings)
    finished = learn_with_prefect(settings)
    return Learned(finished.result, finished.folder)
