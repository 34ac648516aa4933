"""The spec of a benchmark: data sets, learners and seeds, from a YAML file or from Python.

    data:
      - study                                       # a folder with truth.csv
      - {prepare: homogeneous, variables: 20, silos: 5, rows: 500}
      - {prepare: homogeneous, variables: 20, sweep: {rows: [50, 100, 500]}}
      - {generator: "python draw.py {folder} {seed}", name: drawn}
    algorithms:
      - fed-sparse
      - {algorithm: fed-pc, name: "FedPC, α = .001", alpha: .001}
      - {algorithm: dp-fed-sparse, sweep: {epsilon: [1, 2, 4]}}
      - {program: "python peer.py {rows} {edges}", name: peer}
    seeds: 10                                       # 0 to 9, or a list
    options: {secure: true}                         # of learn, for all algorithms
    repeats: "Ng & Zhang 2022: Figure 1"            # a table or figure of a paper, if it is one

A `preset` may differ by data set: `preset: {small: paper, large: paper-large}`, with the names of the data sets. Each
seed is the seed of the prepared data and of the learner. The data of a folder are the same for all seeds. An external
program reads the rows of all silos from the CSV file {rows}. The program writes the edges that it finds to the CSV file
{edges}, with the columns source and target, and type if some edges are undirected. {seed} is the seed. A generator
writes a federated data set with a truth.csv to the new folder {folder}, once for each seed. A `sweep` of an option
stands for one data set or algorithm for each of its values; pictures then show lines over this option.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import AUTO
from fedbnsl.algorithms.errors import BadInput, choices_text, quoted
from fedbnsl.algorithms.statistics.moments import chunks
from fedbnsl.data.federated import FederatedData

from ..api.evaluation import as_structure
from ..api.tables import IN_MEMORY, tables_in_memory
from ..options.learn import LearnOptions
from ..options.prepare import recipe

KEYS = ("name", "repeats", "data", "algorithms", "seeds", "options", "timeout")
TIMEOUT = 3600.0
"""seconds after which an external program is stopped"""


@dataclass(frozen=True)
class Sweep:
    """One value of an option that a spec sweeps over, and the name of the data set or algorithm without it."""

    of: str
    option: str
    value: float


@dataclass(frozen=True)
class DataSource:
    """A folder, a data set to prepare or to generate for each seed, or a data set in memory."""

    name: str
    folder: str = ""
    prepare: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    generator: str = ""
    """the command of a program that writes the data set of a seed to a folder"""
    timeout: float = TIMEOUT
    sweep: Sweep | None = None
    data: FederatedData | None = field(default=None, compare=False, repr=False)
    """a data set in memory, instead of a folder"""
    digest: str = ""
    """a digest of the data set in memory"""


@dataclass(frozen=True)
class Learner:
    """An algorithm with its settings and options of `learn`, or the command line of another program."""

    name: str
    algorithm: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    program: str = ""
    timeout: float = TIMEOUT
    sweep: Sweep | None = None


@dataclass(frozen=True)
class Cell:
    """One run of a benchmark."""

    source: DataSource
    learner: Learner
    seed: int

    @property
    def key(self) -> str:
        """A digest of everything that determines the run, so that a resumed benchmark can skip finished runs."""
        described = asdict(replace(self, source=replace(self.source, data=None)))
        # What a spec does not use does not change the keys of its runs.
        unused = {"data": None, "digest": "", "generator": "", "sweep": None}
        if not self.source.generator:
            described["source"].pop("timeout")
        for part in ("source", "learner"):
            own = described[part].items()
            described[part] = {key: one for key, one in own if key not in unused or one != unused[key]}
        return sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Spec:
    """Data sets, learners and seeds; a benchmark runs all combinations."""

    name: str
    sources: tuple[DataSource, ...]
    learners: tuple[Learner, ...]
    seeds: tuple[int, ...]
    repeats: str = ""
    """the paper and its table or figure, if the benchmark repeats one, as `algorithms/published.py` names it"""

    def cells(self) -> Iterator[Cell]:
        """The runs, ordered by seed first, so that an interrupted benchmark has runs of each data set and learner."""
        for seed in self.seeds:
            for source in self.sources:
                for learner in self.learners:
                    yield Cell(source, _on(learner, source), seed)


def _on(learner: Learner, source: DataSource) -> Learner:
    """`learner` with its preset for the data set `source`; raises `BadInput` if its presets leave that one out."""
    presets = learner.params.get("preset")
    if not isinstance(presets, Mapping):
        return learner
    if source.name not in presets:
        raise BadInput(f"algorithms: {learner.name}: no preset for the data set {quoted(source.name)}")
    return replace(learner, params={**learner.params, "preset": presets[source.name]})


def read_spec(path: Path) -> Spec:
    """The spec in the YAML file at `path`; raises `BadInput` for an invalid file. Folders are relative to the file."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not a YAML file: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise BadInput(f"{path}: a spec is a mapping with the keys {', '.join(KEYS)}")
    try:
        for key in content:
            if key not in KEYS:
                raise BadInput(f"unknown key {quoted(str(key))}: {choices_text(str(key), KEYS)}")
        return spec_of(
            content.get("data"),
            content.get("algorithms"),
            content.get("seeds", 1),
            content.get("options"),
            name=str(content.get("name", path.stem)),
            repeats=str(content.get("repeats", "")),
            timeout=content.get("timeout", TIMEOUT),
            beside=path.parent,
        )
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def spec_of(
    data: Any,
    algorithms: Any,
    seeds: Any = 1,
    options: Mapping[str, Any] | None = None,
    *,
    name: str = "benchmark",
    repeats: str = "",
    timeout: float = TIMEOUT,
    beside: Path = Path(),
) -> Spec:
    """The spec of these data sets, algorithms and seeds, whose forms are those of the YAML file or of `benchmark`.

    Raises `BadInput` for an invalid form.
    """
    common = dict(options or {})
    sources = tuple(
        replace(_source(one, beside, timeout), sweep=sweep)
        for given in _listed(data, "data")
        for one, sweep in _swept(given, "data")
    )
    learners = tuple(
        replace(_learner(one, common, timeout), sweep=sweep)
        for given in _listed(algorithms, "algorithms")
        for one, sweep in _swept(given, "algorithms")
    )
    for kind, names in (("data", [one.name for one in sources]), ("algorithms", [one.name for one in learners])):
        twice = next((one for one in names if names.count(one) > 1), None)
        if twice is not None:
            raise BadInput(f"{kind}: two are called {quoted(twice)}: give them a name each")
    for source, learner in product(sources, learners):
        _on(learner, source)
    return Spec(name, sources, learners, _seeds(seeds), repeats)


def _swept(given: Any, key: str) -> Iterator[tuple[Any, Sweep | None]]:
    """Yield `given` for each value of its `sweep`, with this value; raises `BadInput` for a sweep of another form."""
    if not isinstance(given, Mapping) or "sweep" not in given:
        yield given, None
        return
    sweep = given["sweep"]
    if not (isinstance(sweep, Mapping) and len(sweep) == 1 and all(isinstance(one, list) for one in sweep.values())):
        raise BadInput(
            f"{key}: sweep is {quoted(str(sweep))}: give one option with a list of numbers: {{rows: [50, 100]}}"
        )
    ((option, values),) = sweep.items()
    if not values or not all(type(one) in (int, float) for one in values):
        raise BadInput(f"{key}: sweep: {option}: give a list of numbers")
    rest = {name: value for name, value in given.items() if name != "sweep"}
    words = " ".join(str(value) for name, value in rest.items() if name in ("prepare", "algorithm"))
    of = str(rest.get("name", words))
    for value in values:
        yield {**rest, "name": f"{of}, {option} {value:g}", str(option): value}, Sweep(of, str(option), float(value))


def _listed(given: Any, key: str) -> list[Any]:
    single = isinstance(given, str | Path | Mapping | FederatedData | pd.DataFrame)
    found = [given] if single else list(() if given is None else given)
    if not found:
        raise BadInput(f"{key}: name at least one")
    return found


def _seeds(given: Any) -> tuple[int, ...]:
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return tuple(range(given))
    if isinstance(given, Sequence) and given and all(type(one) is int and one >= 0 for one in given):
        return tuple(dict.fromkeys(given))
    raise BadInput(f"seeds is {quoted(str(given))}: give their number, or a list of whole numbers from 0")


def _source(given: Any, beside: Path, timeout: float) -> DataSource:
    if isinstance(given, str | Path):
        given = {"folder": str(given)}
    if not isinstance(given, Mapping) or "data" in given or _is_tables(given):
        return _in_memory(given)
    options = {str(key): value for key, value in given.items()}
    name, folder, kind, generator = (options.pop(key, "") for key in ("name", "folder", "prepare", "generator"))
    if sum(map(bool, (folder, kind, generator))) != 1:
        raise BadInput(f"data: {quoted(str(dict(given)))}: give `folder`, `prepare` or `generator`")
    if generator:
        limit = float(options.pop("timeout", timeout))
        _check_command("data", generator, {"{folder}": "the path of a new folder", "{seed}": "the seed"}, options)
        return DataSource(str(name or str(generator).split()[0]), generator=str(generator), timeout=limit)
    if folder:
        return _folder(str(name), str(folder), beside, options)
    if "seed" in options:
        raise BadInput(f"data: {kind}: the seed of prepared data is that of the run: see `seeds`")
    recipe(str(kind), **options, seed=0)
    words = ", ".join(f"{key} {value}" for key, value in options.items())
    return DataSource(str(name or f"{kind}, {words}" if words else name or kind), prepare=str(kind), options=options)


def _folder(name: str, folder: str, beside: Path, others: Mapping[str, Any]) -> DataSource:
    place = beside / folder
    if others:
        raise BadInput(f"data: {folder}: unknown key {quoted(next(iter(others)))}")
    if not place.is_dir():
        raise BadInput(f"data: {place}: no such folder")
    return DataSource(name or Path(folder).name, folder=str(place.absolute()))


def _is_tables(given: Mapping[Any, Any]) -> bool:
    """Whether `given` has a table for each silo, in a form that `learn` accepts."""
    return bool(given) and not any(isinstance(one, str | int | float | None) for one in given.values())


IN_MEMORY_KEYS = ("data", "by", "about", "truth", "name")


def _in_memory(given: Any) -> DataSource:
    """The data set of tables in a form that `learn` accepts, or of a mapping with tables and `IN_MEMORY_KEYS`."""
    named = given if isinstance(given, Mapping) and "data" in given else {"data": given}
    for key in named:
        if key not in IN_MEMORY_KEYS:
            raise BadInput(f"data: unknown key {quoted(str(key))}: {choices_text(str(key), IN_MEMORY_KEYS)}")
    found = tables_in_memory(named["data"], by=named.get("by"), about=named.get("about"))
    if named.get("truth") is not None:
        found = replace(found, truth=as_structure(named["truth"], found.schema.variables), silo_weights={})
    return DataSource(str(named.get("name") or IN_MEMORY), data=found, digest=_digest(found))


def _digest(data: FederatedData) -> str:
    """A digest of the schema, the rows and the true graph of `data`."""
    digest = sha256(repr((data.schema, data.truth and data.truth.kind)).encode())
    arrays = [rows for silo in data.schema.silos for rows in chunks(data.tables[silo])]
    for array in [*arrays, *([data.truth.weights] if data.truth else [])]:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _learner(given: Any, common: Mapping[str, Any], timeout: float) -> Learner:
    if isinstance(given, str):
        given = {"algorithm": given}
    if not isinstance(given, Mapping):
        raise BadInput(
            f"algorithms: {quoted(str(given))} is neither a name nor a mapping with `algorithm` or `program`"
        )
    params = {str(key): value for key, value in given.items()}
    name, algorithm, program = (str(params.pop(key, "")) for key in ("name", "algorithm", "program"))
    if bool(algorithm) == bool(program):
        raise BadInput(f"algorithms: {quoted(str(dict(given)))}: give `algorithm` or `program`")
    if program:
        return _program(name, program, float(params.pop("timeout", timeout)), params)
    if algorithm not in (*registry.ALGORITHMS, AUTO):
        raise BadInput(f"unknown algorithm {quoted(algorithm)}: {choices_text(algorithm, registry.ALGORITHMS)}")
    own = () if algorithm == AUTO else (*registry.parameter_names(algorithm), "preset")
    known = sorted({*LearnOptions.model_fields, *own})
    for key in (*params, *common):
        if key not in known and (key in params or key not in LearnOptions.model_fields):
            raise BadInput(f"{algorithm}: unknown setting {quoted(key)}: {choices_text(key, known)}")
    words = " ".join(f"{key}={value}" for key, value in params.items())
    return Learner(name or f"{algorithm} {words}".strip(), algorithm, {**common, **params})


def _program(name: str, program: str, timeout: float, others: Mapping[str, Any]) -> Learner:
    wanted = dict.fromkeys(("{rows}", "{edges}"), "the path of a CSV file")
    _check_command("algorithms", program, wanted, others)
    return Learner(name or program.split()[0], program=program, timeout=timeout)


def _check_command(key: str, command: str, wanted: Mapping[str, str], others: Mapping[str, Any]) -> None:
    """Raise `BadInput` for a command without one of the words `wanted`, and for `others`: keys that are not known."""
    if others:
        raise BadInput(f"{key}: {quoted(command)}: unknown key {quoted(next(iter(others)))}")
    for word, meaning in wanted.items():
        if word not in command:
            raise BadInput(f"{key}: {quoted(command)}: the command needs {word}, {meaning}")
