"""Scores of a graph that was edited by hand, over the silos of the run that learned it: fit, parameters, diagnoses.

No graph is learned. For the learned graph and for the edited graph, the silos repeat exchanges that follow the rounds
of a run: the diagnosis, the parameters and, for labels, the count tables of the fit. These exchanges are masked if the
run was. Before them, exchanges find the units of masked sums and the imputation model, if the run has these.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from uuid import uuid4

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Round, Traffic
from fedbnsl.algorithms.core.schema import unescape_formula
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.diagnosis.implied import NO_FIT
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.algorithms.graphs.edges import NO_FIGURES, edge_count
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.about import cluster_column, condition_column, declarations, owner_column
from fedbnsl.data.folder.folder import files_of, read_folder, read_structure
from fedbnsl.data.folder.harmonise import OTHERS
from fedbnsl.data.folder.targets import named_targets
from fedbnsl.tracking.metrics import MetricValue
from fedbnsl.tracking.result import Diagnosed, HeldOutScores, Parameters, RunResult

from ..engines.inline import inline_session
from ..job.follow_up import diagnose, not_diagnosed, parameters
from ..job.goodness_of_fit import published_fit
from ..job.job import Job, Session, unless_refused
from ..job.preparation import with_clusters, with_imputation_model, with_units
from ..job.reading import reading_of
from ..job.truth_scores import structure_scores
from ..options.learn import LearnOptions

EDITED = "The edges were edited by hand: no direction rests on the data alone."


@dataclass(frozen=True)
class Rescored:
    """The learned and the edited graph, with figures of both graphs from the same rows."""

    learned: RunResult
    edited: RunResult

    @property
    def rows(self) -> list[tuple[str, MetricValue, MetricValue]]:
        """The numeric figures of both graphs, by name."""
        names = [
            name
            for name, value in (self.learned.metrics | self.edited.metrics).items()
            if isinstance(value, int | float) and not name.endswith("_bytes")
        ]
        return [(name, self.learned.metrics.get(name), self.edited.metrics.get(name)) for name in names]


def rescore(result: RunResult, edges: Path, data: Path) -> Rescored:
    """Compare the graph in the file `edges` with the graph that a run learned from the silos of the folder `data`.

    Raises `BadInput` for an invalid file; for a run with an ε, of time series or of events; and for a folder whose
    kind of data, variables or numbers of rows differ from the run's.
    """
    if result.privacy is not None:
        raise BadInput(f"{result.name}: the run has an ε: another exchange over the rows would be a release")
    if result.schema.kind in ("time-series", "events"):
        raise BadInput(f"{result.name}: a run of {result.schema.kind}: graphs are edited for independent rows")
    edited = edited_structure(edges, result.structure.variables).among(result.schema.variables)
    result = replace(result, structure=result.structure.among(result.schema.variables), survival=())
    settings = registry.entry(result.algorithm).config(**result.params)
    transforms = ",".join(f"{name}={how}" for name, how in result.schema.transforms.items())
    options = LearnOptions(
        algorithm=result.algorithm,
        only=result.structure.variables,
        missing="complete-rows" if result.schema.complete_rows else "model",
        transform=transforms or "none",
        secure=result.secure,
        small_cells="keep" if result.small_cells == "keep" else "blank",
        seed=result.seed,
        by=owner_column(result.schema.aside),
        small_silos="merge" if OTHERS in result.schema.rows else "leave-out",
        condition=condition_column(result.schema.aside),
        cluster=cluster_column(result.schema.aside),
    )
    targets = tuple(named_targets(result.schema).items())
    reading = replace(reading_of(options), silos=result.schema.silos, targets=targets)
    rows = read_folder(data, reading)
    _check_rows(result, rows, data)
    spec = AlgorithmSpec(result.algorithm, settings)
    job = Job(options.with_data(data), str(uuid4()), "inline", spec, rows.about, rows.truth)
    files = files_of(data, reading)
    declared = declarations(rows.about, replace(reading, silos=()))
    with inline_session(job, rows, files, declared) as session:
        job, session = with_clusters(with_units(job, session), session)
        job = with_imputation_model(job, session)
        both = [
            _checked(replace(job, run_id=f"{job.run_id}-{name}"), session, result, structure)
            for name, structure in (("learned", result.structure), ("edited", edited))
        ]
    return Rescored(both[0], replace(both[1], basis=(EDITED,), name=f"{result.name} edited"))


def edited_structure(path: Path, variables: Sequence[str]) -> Structure:
    """The graph in `path`. Raises `BadInput` for an unknown variable, a duplicate edge or a cycle."""
    structure = read_structure(path, variables)
    cycle = structure.cycle
    if cycle:
        arcs = set(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        reader = csv.DictReader(StringIO(path.read_text("utf-8-sig"), newline=""))
        ends = ((reader.line_num, unescape_formula(row["source"]), unescape_formula(row["target"])) for row in reader)
        line, source, target = max(one for one in ends if one[1:] in arcs)
        closed = " → ".join([*cycle, cycle[0]])
        raise BadInput(f"{path}: line {line}: {quoted(source)} → {quoted(target)} closes the cycle {closed}")
    return structure


def _check_rows(result: RunResult, data: FederatedData, folder: Path) -> None:
    """Raise `BadInput` unless the data have the kind, the variables and the numbers of rows of the run."""
    if data.schema.kind != result.schema.kind or set(data.schema.variables) != set(result.structure.variables):
        raise BadInput(f"{folder}: not the data of the run, which learned from {result.schema.kind} data")
    for silo, rows in result.schema.rows.items():
        if data.schema.rows[silo] != rows:
            raise BadInput(f"{folder}: silo {silo} has {data.schema.rows[silo]:,} rows, and the run had {rows:,}")


def _checked(job: Job, session: Session, result: RunResult, structure: Structure) -> RunResult:
    """The result of a run without rounds that ends with `structure`."""
    algorithm, ordered = registry.build(job.spec), structure.reordered(session.schema.variables)
    last = Round(0, None, Traffic(), "converged")
    after = (job, session, algorithm, last, ordered)
    diagnosed: Diagnosed = unless_refused(lambda: diagnose(*after), not_diagnosed)
    model = unless_refused(lambda: parameters(*after, sums=diagnosed.sums), lambda refusal: Parameters(None, refusal))
    checked, figures = published_fit(*after, diagnosed.sums) if job.settings.diagnose else (NO_FIT, NO_FIGURES)
    scores, gate = structure_scores(ordered, job.truth), job.gate(session.schema)
    return replace(
        result,
        structure=ordered,
        truth=job.truth,
        metrics={"edges": edge_count(ordered), **scores, **gate.measures(checked.metrics | diagnosed.metrics)}
        | {"outcome": last.outcome, "parameter_bytes": model.bytes_sent},
        parameters=gate.parameters(model),
        diagnosed=replace(diagnosed, sums=None),
        fit=checked,
        edge_figures=figures,
        held_out=HeldOutScores(),
        tuning=None,
        confidence=None,
        changes=None,
        rounds=(),
        local_structures={},
        silo_scores={},
        refit={},
        bootstrap=0,
    )
