"""Attacks on results: recovery of single rows by readers, and the defences.

Three demonstrations on the user's own folder, in this process; each runs twice, without and with a protection:

- `smallest_cell` undoes the smoothing of a model's published tables and so obtains counts. A count of 1 is one
  person. The rule of `algorithms/privacy/disclosure_control.py` hides counts of 1 and 2.
- `difference` takes two masked sums: over all rows, and over all rows but one. Their difference gives this row. The
  rule of `tasks/silo/publications.py` refuses the second sum.
- `membership` guesses whether a row was used for learning, by its likelihood under the published model (a
  likelihood-ratio attack: Homer et al. 2008; Yeom et al. 2018 for the advantage). An ε bounds the advantage of any
  attack by (e^ε − 1 + 2δ)/(e^ε + 1) (Humphries et al. 2023).

Nothing leaves this machine, so no ledger is charged and no record is written to the folder.
"""

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import dag_extension
from fedbnsl.algorithms.parameters import mixed_families, regressions, tables
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.algorithms.privacy.disclosure_control import MIN_COUNT, estimated_counts
from fedbnsl.algorithms.statistics.coding import coding_of
from fedbnsl.algorithms.statistics.moments import Units, pooled_packing, units_of
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.folder import silo_files, write_folder
from fedbnsl.tasks.silo.guard import LOCAL, Guard
from fedbnsl.tasks.silo.publications import FewRowsChanged
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.federation import SiloFederation
from fedbnsl.tasks.transport.in_process import InProcessFederation, InProcessTransport, in_process_roster

from .engines.inline import job_inline, run_inline
from .options.learn import LearnSettings

SMOOTHING = 1.0
"""the equivalent sample size of the prior of the attacked tables, which is public"""


@dataclass(frozen=True)
class Demonstration:
    """One attack under one `protection`: its finding, in a sentence, and whether it succeeded."""

    protection: str
    finding: str
    succeeded: bool


@dataclass(frozen=True)
class SmallCell:
    """A count that an attacker recovers: of `total` rows with these `conditions`, `count` have `variable` = `level`."""

    variable: str
    level: str
    conditions: Mapping[str, str]
    count: int
    total: int

    @property
    def text(self) -> str:
        """The cell in words, such as "the only row with ward=3 has outcome=died"."""
        values = ", ".join(f"{name}={level}" for name, level in self.conditions.items())
        outcome = f"has {self.variable}={self.level}" if self.count == 1 else f"have {self.variable}={self.level}"
        if self.count == self.total:
            rows = "the only row" if self.total == 1 else f"the only {self.total} rows"
            return f"{rows} with {values} {outcome}"
        rows = "exactly 1" if self.count == 1 else f"exactly {self.count}"
        return f"{rows} of the {self.total} rows{f' with {values}' * bool(values)} {outcome}"


def smallest_cell(data: FederatedData, algorithm: str = "auto", seed: int = 0) -> tuple[Demonstration, ...]:
    """Recover the smallest counts from the exact tables of a model, and from its tables with hidden small cells.

    Raises `BadInput` for data without labels.
    """
    if data.schema.kind not in ("discrete", "mixed"):
        raise BadInput(f"the attack needs tables of probabilities, so columns with labels, not {data.schema.kind} data")
    options = LearnSettings(data="folder", algorithm=algorithm, parameters=False, diagnose=False, seed=seed)
    chosen = dag_extension(run_inline(job_inline(options, "attack", data), data).structure)
    if chosen.dag is None:
        raise BadInput(f"the learned graph has no tables: {chosen.how}")
    return tuple(
        _smallest_cell(data, fitted_network(data, chosen.dag, blank=blank), protection)
        for blank, protection in (
            (False, "exact tables, --small-cells keep"),
            (True, "published tables, --small-cells blank"),
        )
    )


def _smallest_cell(data: FederatedData, published: Network, protection: str) -> Demonstration:
    cells = recovered_cells(published, data.schema)
    if not cells:
        return Demonstration(protection, f"no cell of fewer than {MIN_COUNT} rows follows from the tables", False)
    right = [cell for cell in cells if true_count(data, cell) == cell.count]
    smallest = min(right or cells, key=lambda cell: (cell.total != cell.count, cell.count, cell.total))
    finding = f"{smallest.text} (of {len(cells)} recovered cells of 1 or 2 rows, {len(right)} are as in the data)"
    return Demonstration(protection, finding, bool(right))


def true_count(data: FederatedData, cell: SmallCell) -> int:
    """The number of rows of all silos in `cell`."""
    names, rows = data.schema.variables, np.concatenate(list(data.tables.values()))
    values = {**cell.conditions, cell.variable: cell.level}
    inside = [rows[:, names.index(name)] == data.schema.levels[name].index(level) for name, level in values.items()]
    return int(np.all(inside, axis=0).sum())


def fitted_network(data: FederatedData, dag: NDArray[np.bool_], *, blank: bool = False) -> Network:
    """The model of the rows of `data` with the graph `dag`; its tables are exact, or hide small cells if `blank`."""
    if data.schema.kind == "discrete":
        spec, start = AlgorithmSpec("family-tables", tables.FamilyTables(SMOOTHING)), tables.start(data.schema, dag)
        return tables.network(_exchange(spec, data, start), SMOOTHING, blank=blank)
    if data.schema.kind == "mixed":
        families = AlgorithmSpec("mixed-families", mixed_families.MixedFamilies(SMOOTHING))
        found = _exchange(families, data, mixed_families.start(data.schema, dag))
        return mixed_families.network(found, SMOOTHING, blank=blank)
    settings = regressions.Regressions()
    fit = _exchange(AlgorithmSpec("regressions", settings), data, regressions.start(data.schema, dag))
    return regressions.network(fit, settings)


def recovered_cells(network: Network, schema: Schema) -> list[SmallCell]:
    """The cells of 1 or 2 rows that a reader of the published `network` infers from its tables."""
    found, parents = [], network.parents
    counts = estimated_counts(network.tables, SMOOTHING, sum(schema.rows.values()))
    for name, table in counts.items():
        levels = [schema.levels[one] for one in (*parents[name], name)]
        whole = np.isclose(table, np.rint(table), atol=1e-3)
        for place in np.argwhere(whole & (np.rint(table) >= 1) & (np.rint(table) < MIN_COUNT)):
            *at, level = map(int, place)
            conditions = {parent: levels[axis][at[axis]] for axis, parent in enumerate(parents[name])}
            total = int(np.rint(table[tuple(at)].sum()))
            found.append(SmallCell(name, levels[-1][level], conditions, int(np.rint(table[tuple(place)])), total))
    return found


def _exchange(spec: AlgorithmSpec, data: FederatedData, start: Any) -> Any:
    """The server's state after the rounds of `spec` over the silos of `data`, from the state `start`."""
    *_, last = rounds(registry.build(spec), InProcessFederation(data.schema, data.tables), (0, start))
    return last.server


def difference(data: FederatedData, silo: str | None = None, row: int | None = None) -> tuple[Demonstration, ...]:
    """Recover row number `row` of `silo` from two masked sums, over all rows and over all rows but this row.

    The default is the last row of the first silo. Raises `BadInput` for a row that does not exist, for a single silo,
    and for time series.
    """
    if data.schema.kind == "time-series":
        raise BadInput("the attack needs independent rows, not time series")
    if len(data.tables) < 2:
        raise BadInput("a masked sum needs 2 silos or more: give a data set with more silos")
    silo = silo or data.schema.silos[0]
    if silo not in data.tables:
        raise BadInput(f"--silo: there is no silo {silo}; available: {', '.join(data.schema.silos)}")
    number = len(data.tables[silo]) if row is None else row
    if not 1 <= number <= len(data.tables[silo]):
        raise BadInput(f"--row is {row}: silo {silo} has the rows 1 to {len(data.tables[silo])}")
    return tuple(
        _difference(data, silo, number, protection, guard)
        for protection, guard in (
            ("masked sums (--secure)", LOCAL),
            ("masked sums, and the rule of changed rows", Guard(remote=True)),
        )
    )


def _difference(data: FederatedData, silo: str, number: int, protection: str, guard: Guard) -> Demonstration:
    without = _without_row(data, silo, number)
    with tempfile.TemporaryDirectory(prefix="fedbnsl-attack-") as place:
        folder = Path(place) / "study"
        write_folder(folder, data)
        before = masked_sums(folder, data.schema, guard, "before")
        write_folder(Path(place) / "changed", without)
        silo_files(Path(place) / "changed")[silo].replace(silo_files(folder)[silo])
        try:
            after = masked_sums(folder, without.schema, guard, "after")
        except FewRowsChanged as refusal:
            return Demonstration(protection, f"the second sum is refused: {refusal}", succeeded=False)
    found = recovered_row(before, after, data.schema)
    true = _row_text(data.schema, data.tables[silo][number - 1])
    same = found == true
    finding = f"row {number} of silo {silo} was recovered {'exactly' if same else 'as'}: {found}"
    return Demonstration(protection, finding if same else f"{finding}; the true row is: {true}", same)


def _without_row(data: FederatedData, silo: str, number: int) -> FederatedData:
    shorter = np.delete(data.tables[silo], number - 1, axis=0)
    schema = replace(data.schema, rows=data.schema.rows | {silo: len(shorter)})
    return FederatedData(schema, data.tables | {silo: shorter})


def masked_sums(folder: Path, schema: Schema, guard: Guard, run: str) -> FloatArray:
    """The masked sums of the rows in `folder` that a coordinator obtains: counts of labels, or sums of coded columns.

    A run requests these sums to estimate the parameters of a graph without edges. For any other graph, a run requests
    further sums in addition.
    """
    services = {silo: SiloService(silo, path, guard=guard) for silo, path in silo_files(folder).items()}
    roster = in_process_roster(InProcessTransport(services), schema.silos)
    empty = np.zeros((len(schema.variables),) * 2, np.bool_)

    def exchange(spec: AlgorithmSpec, step: str, start: Any = None) -> Any:
        terms = RunTerms(f"{run}-{step}", registry.pack(spec), schema, 0, step_of=run)
        federation, algorithm = SiloFederation(roster, terms, secure=True), registry.build(spec)
        federation.ask("admit", terms, True, tolerates_dropout=False)
        *_, last = rounds(algorithm, federation, None if start is None else (0, start))
        return last.server

    try:
        if schema.kind == "discrete":
            counted = exchange(
                AlgorithmSpec("family-tables", tables.FamilyTables()), "tables", tables.start(schema, empty)
            )
            return np.asarray(counted.counts, np.float64)
        units = units_of(exchange(AlgorithmSpec("units", Units()), "units"))
        schema = replace(schema, units=tuple(map(float, units)))
        rows, width = sum(schema.rows.values()), coding_of(schema).size
        if schema.kind == "mixed":
            families = AlgorithmSpec("mixed-families", mixed_families.MixedFamilies())
            mixed = exchange(families, "families", mixed_families.start(schema, empty))
            return np.asarray(pooled_packing(width).unpack(mixed.moments)["sums"] * rows)
        spec = AlgorithmSpec("regressions", regressions.Regressions())
        moments = exchange(spec, "regressions", regressions.start(schema, empty)).moments
        return np.asarray(moments[1 : 1 + width] * rows)
    finally:
        for service in services.values():
            service.close()


def recovered_row(before: FloatArray, after: FloatArray, schema: Schema) -> str:
    """The row by which the sums `before` exceed the sums `after`, as text."""
    gained = before - after
    if schema.kind == "discrete":
        ends = np.cumsum([len(schema.levels[name]) for name in schema.variables])[:-1]
        return _row_text(schema, np.array([int(np.argmax(part)) for part in np.split(gained, ends)]))
    coding = coding_of(schema)
    # A label has an indicator for each level but the first.
    row = [
        np.argmax([0.5, *gained[block]]) if is_label else gained[block[0]]
        for block, is_label in zip(coding.blocks, coding.discrete, strict=True)
    ]
    return _row_text(schema, np.array(row, np.float64))


def _row_text(schema: Schema, row: NDArray[Any]) -> str:
    """The values of a row as text; numbers have at most six digits, the precision of masked sums of rows."""
    values = [
        schema.levels[name][int(value)] if name in schema.levels else f"{round(float(value), 5) + 0.0:.6g}"
        for name, value in zip(schema.variables, row, strict=True)
    ]
    return ", ".join(f"{name}={value}" for name, value in zip(schema.variables, values, strict=True))


@dataclass(frozen=True)
class Membership:
    """The advantage of the attacker over guessing in each trial, or the reason why there is nothing to attack."""

    advantages: tuple[float, ...]
    reason: str = ""

    @property
    def mean(self) -> float:
        """The mean advantage: the true positive rate minus the false positive rate."""
        return float(np.mean(self.advantages))

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return float(np.std(self.advantages, ddof=1) / math.sqrt(len(self.advantages)))


MIN_MEMBERSHIP_ROWS = 12
"""minimum number of rows of a silo: one third for learning, one third held out, and one third as the attacker's
reference"""
MIN_TRIALS = 2


def membership(data: FederatedData, epsilon: float = 1.0, trials: int = 10, seed: int = 0) -> tuple[Demonstration, ...]:
    """Guess the training rows of two published models, learned without an ε and with `epsilon`.

    Each of the `trials` divides every silo's rows into random thirds. The model is learned from the first third. The
    attacker must distinguish the first third from the second, and has the last third as a sample of the same
    population. Raises `BadInput` for silos with too few rows, and for time series.
    """
    if data.schema.kind == "time-series":
        raise BadInput("the attack needs independent rows, not time series")
    if trials < MIN_TRIALS:
        raise BadInput(f"--trials is {trials}: it must be {MIN_TRIALS} or more")
    if not 0 < epsilon < math.inf:
        raise BadInput(f"--epsilon is {epsilon:g}: it must be above 0")
    fewest = min(data.schema.rows, key=lambda silo: data.schema.rows[silo])
    if data.schema.rows[fewest] < MIN_MEMBERSHIP_ROWS:
        raise BadInput(f"silo {fewest} has {data.schema.rows[fewest]} rows: the attack needs {MIN_MEMBERSHIP_ROWS}")
    delta = (data.schema.rows[fewest] // 3) ** -2
    bound = (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)
    plain = membership_advantage(data, None, delta, trials, seed)
    private = membership_advantage(data, epsilon, delta, trials, seed)
    return (
        Demonstration("no ε", _membership_text(plain), _succeeds(plain)),
        Demonstration(
            f"ε = {epsilon:g}",
            f"{_membership_text(private)}; this ε bounds the advantage of every attack by {bound:.3f}",
            _succeeds(private),
        ),
    )


def _membership_text(found: Membership) -> str:
    if found.reason:
        return found.reason
    return f"the attacker's advantage over guessing is {found.mean:.3f} ± {found.error:.3f} (0: none, 1: certainty)"


def _succeeds(found: Membership) -> bool:
    """Whether the advantage is significantly above zero."""
    return not found.reason and found.mean > 2 * found.error


def membership_advantage(
    data: FederatedData, epsilon: float | None, delta: float, trials: int, seed: int
) -> Membership:
    """The advantage of a likelihood-ratio attack on the model of a run with `epsilon`, or without an ε."""
    advantages = []
    for trial in range(trials):
        generator = np.random.default_rng([seed, trial])
        members, others, reference = thirds(data, generator)
        options = LearnSettings(
            data="folder", epsilon=epsilon, delta=None if epsilon is None else delta, diagnose=False, seed=seed
        )
        try:
            result = run_inline(job_inline(options, f"attack-{trial}", members), members)
        except BadInput as refusal:
            return Membership((), f"the run is refused, so nothing is published: {refusal}")
        published = result.parameters.network
        if published is None:
            return Membership((), "the run publishes a graph without parameters, under which rows have no likelihood")
        expected = fitted_network(reference, published.structure.adjacency)
        inside, outside = (_scores(published, expected, part) for part in (members, others))
        advantages.append(advantage(inside, outside, generator))
    return Membership(tuple(advantages))


def thirds(data: FederatedData, generator: np.random.Generator) -> list[FederatedData]:
    """Three disjoint random parts of the rows of every silo; numbers are centred on the means of the last part."""
    parts: list[dict[str, NDArray[Any]]] = [{}, {}, {}]
    for silo, rows in sorted(data.schema.rows.items()):
        order, size = generator.permutation(rows), rows // len(parts)
        for k, part in enumerate(parts):
            part[silo] = data.tables[silo][order[k * size : (k + 1) * size]]
    known = np.concatenate(list(parts[-1].values()))
    shift = np.where(data.schema.discrete, 0, known.mean(axis=0)).astype(known.dtype)
    schema = replace(data.schema, rows={silo: len(table) for silo, table in parts[0].items()})
    about = {"kind": schema.kind, "levels": dict(schema.levels)} if schema.levels else {"kind": schema.kind}
    return [FederatedData(schema, {silo: table - shift for silo, table in part.items()}, about=about) for part in parts]


def _scores(published: Network, expected: Network, data: FederatedData) -> FloatArray:
    """The log-likelihood ratio of each row of all silos between the published and the expected model."""
    rows = np.concatenate([data.tables[silo] for silo in data.schema.silos])
    return np.nan_to_num(published.log_likelihood(rows) - expected.log_likelihood(rows))


def advantage(members: FloatArray, others: FloatArray, generator: np.random.Generator) -> float:
    """The true positive rate minus the false positive rate on half the rows, at the best threshold of the other half.

    The result is the mean over both halves.
    """
    halves = [np.array_split(generator.permutation(scores), 2) for scores in (members, others)]
    found = []
    for chosen in (0, 1):
        inside, outside = halves[0][chosen], halves[1][chosen]
        thresholds = np.unique(np.concatenate([inside, outside]))
        gains = [(inside >= at).mean() - (outside >= at).mean() for at in thresholds]
        best = thresholds[int(np.argmax(gains))]
        found.append((halves[0][1 - chosen] >= best).mean() - (halves[1][1 - chosen] >= best).mean())
    return float(np.mean(found))
