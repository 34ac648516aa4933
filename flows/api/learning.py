"""`learn` and `prepare` of Python: the options of the command line as keywords, data as a program holds them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Union
from uuid import uuid4

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.declared import NOTHING_DECLARED, declared
from fedbnsl.data.folder.folder import read_folder, silo_files, write_folder
from fedbnsl.tracking.outputs import write_outputs

from ..engines.inline import job_inline, run_inline
from ..job.check import check
from ..job.reading import reading_of, silos_of
from ..job.run import Listener
from ..job.spec import check_words
from ..make import form_of, make
from ..options.learn import Columns, LearnOptions, LearnSettings, Missing
from ..options.model import one_line
from ..options.prepare import recipe
from ..servers.environment import prepare_environment
from ..start import check_inline, check_out, check_results_fit, learn_with_prefect, precheck
from .in_memory import IN_MEMORY, in_memory
from .learned import Learned
from .progress import progress_line
from .settings import asked_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pandas as pd
    from _typeshed import DataclassInstance
    from numpy.typing import NDArray

Table = Union["pd.DataFrame", "NDArray[np.generic]"]
Data = Union[str, Path, FederatedData, "pd.DataFrame", "Mapping[str, Table]", "Sequence[Table]"]

DEFAULTS = LearnOptions()


def learn(
    data: Data,
    algorithm: "str | DataclassInstance" = DEFAULTS.algorithm,
    *,
    by: str | None = None,
    about: "Mapping[str, Any] | None" = None,
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
    progress: bool | None = None,
    **params: Any,
) -> Learned:
    """Learn a structure from `data`: a folder, a `FederatedData`, a dict or a list of tables, one a silo.

    Or one DataFrame, with `by` the column that names the silo of each row. `about` says of tables what `about.json`
    says of a folder. `algorithm` is a name, with its parameters in `params`, or has them itself, as `FedSparse(l1=0.1)`
    of `fedbnsl.settings`. `fedbnsl learn` explains the other options. `engine="prefect"` learns through Prefect, Dask
    and MLflow, the default in this process alone. `progress` is shown in notebooks, anywhere if True. With `out` the
    files of a run are written there. A folder's privacy ledgers are kept in it, those of tables end with the call.
    Raises `BadInput` (a ValueError) for anything that cannot be learned from.
    """
    settings = _settings(locals())
    with progress_line(progress) as listeners:
        return _learned(settings, data, engine, {"by": by, "about": about}, listeners)


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


def _settings(given: "Mapping[str, Any]") -> LearnSettings:
    """Return the settings of the run that a call of `learn` with these arguments asks for."""
    told = {name: value for name, value in given.items() if name in LearnOptions.model_fields}
    told["algorithm"], told["params"] = asked_for(given["algorithm"], given["params"])
    data, out = given["data"], given["out"]
    told |= {"data": str(data) if isinstance(data, str | Path) else IN_MEMORY, "out": str(out) if out else None}
    with one_line():
        return LearnSettings.model_validate(told)


def _learned(
    settings: LearnSettings, data: Any, engine: str, tables: "Mapping[str, Any]", listeners: tuple[Listener, ...]
) -> Learned:
    folder = Path(data) if isinstance(data, str | Path) else None
    for name, given in tables.items():
        if given is not None and folder is not None:
            raise BadInput(
                f"{name} is for tables in memory: the silos of a folder are its files, told by its about.json"
            )
    if engine == "prefect":
        if folder is None:
            raise BadInput("the engine prefect reads a folder: write the data with fedbnsl.data.folder.write_folder")
        return _learn_with_prefect(settings, listeners)
    if engine != "inline":
        raise BadInput(f"engine is '{engine}': choose inline or prefect")
    check_inline(settings)
    check_words(settings)
    reading = reading_of(settings)
    read = in_memory(data, reading, **tables) if folder is None else read_folder(folder, reading)
    return _learn_inline(settings, read, folder, listeners)


def _learn_inline(
    settings: LearnSettings, tables: FederatedData, folder: Path | None, listeners: tuple[Listener, ...]
) -> Learned:
    """Learn from `tables`, read from `folder` if that is given: then the ledgers beside its files are charged."""
    if settings.out is not None:
        check_results_fit(Path(settings.out))
    job = job_inline(settings.named(), str(uuid4()), tables)
    check(job, tables.schema)
    files = silo_files(folder, silos_of(settings)) if folder is not None else None
    said = declared(tables.about, reading_of(settings)) if folder is not None else NOTHING_DECLARED
    result = run_inline(job, tables, listeners, files, said)
    if settings.out is None:
        return Learned(result)
    write_outputs(result, Path(settings.out))
    return Learned(result, Path(settings.out))


def _learn_with_prefect(settings: LearnSettings, listeners: tuple[Listener, ...]) -> Learned:
    prepare_environment()
    settings = settings.named()
    check_out(Path(str(settings.out)))
    precheck(settings)
    finished = learn_with_prefect(settings, *listeners)
    return Learned(finished.result, finished.folder)
