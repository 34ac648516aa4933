"""The rows of a finished run, read again in the same way as in the run, for further exchanges.

The folder must be the folder of the run: it has the same silos with the same numbers of rows and, if checksums were
recorded, the same checksums. Columns are selected, and numbers and dates are converted, as in the run.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.effects.linear import WithinMoments
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.regressions import (
    Regressions,
    Server,
    contributing_rows,
    pairs,
    pooled_moments,
    start,
)
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.about import (
    Reading,
    RequestedTransform,
    cluster_column,
    condition_column,
    declarations,
    owner_column,
)
from fedbnsl.data.folder.folder import files_of, read_folder
from fedbnsl.data.folder.harmonise import OTHERS
from fedbnsl.data.folder.targets import named_targets
from fedbnsl.tracking.result import RunResult

from ..engines.inline import inline_session
from ..job.job import Clusters, ExchangeResult, Job, Session, extra_exchange
from ..job.preparation import with_units
from ..job.reading import reading_of
from ..options.learn import LearnOptions

REQUESTED: dict[str, RequestedTransform] = {
    "log": "log",
    "log1p": "log",
    "sqrt": "sqrt",
    "normal-scores": "normal-scores",
    "log-ratio": "log-ratio",
    "bounded": "bounded",
}
"""for each transform, the option that requests it; `anscombe` has no option, because it is the default for counts"""
MOMENTS = AlgorithmSpec("regressions", Regressions(center=True, masked=True))
"""the exchange of masked second moments about the silos' own means"""


@dataclass(frozen=True)
class RunData:
    """A run's folder with its rows, read as in the run."""

    result: RunResult
    folder: Path
    options: LearnOptions
    reading: Reading
    rows: FederatedData

    @property
    def _clusters(self) -> Clusters | None:
        """The design effect of the run, if a column names clusters."""
        schema = self.result.schema
        column = cluster_column(schema.aside)
        return Clusters(column, 1 / schema.independent_share, sum(schema.rows.values()), 0) if column else None

    def restricted(self, silo: str) -> "RunData":
        """The data of the run with only the silo `silo`."""
        schema = replace(self.rows.schema, rows={silo: self.rows.schema.rows[silo]})
        return replace(self, rows=replace(self.rows, schema=schema, tables={silo: self.rows.tables[silo]}))

    @contextmanager
    def session(self, spec: AlgorithmSpec) -> Iterator[tuple[Job, Session]]:
        """Yield a job whose algorithm is `spec`, and a session with the silos."""
        job = Job(
            self.options.with_data(self.folder),
            str(uuid4()),
            "inline",
            spec,
            self.rows.about,
            knowledge=self.result.schema.knowledge,
            clusters=self._clusters,
        )
        declared = declarations(self.rows.about, self.reading)
        files = files_of(self.folder, self.reading)
        with inline_session(job, self.rows, files, declared) as session:
            yield job, session

    def exchanges(self, specs: Sequence[tuple[str, AlgorithmSpec, Any]]) -> list[ExchangeResult]:
        """Run exchanges over the silos, one after the other.

        Each of `specs` has the name of an exchange, its algorithm, and the server's initial state or None.

        Raises `BadInput` if a silo does not respond.
        """
        with self.session(specs[0][1]) as (job, session):
            job = with_units(job, session)
            return [_exchange(job, session, *one) for one in specs]


def has_moments(result: RunResult) -> bool:
    """Whether second moments of the rows suffice for effects: for numbers without empty cells."""
    return result.schema.kind == "continuous" and not result.metrics.get("filling_exchanges")


def read_run_data(result: RunResult, folder: Path) -> RunData:
    """The rows of the run `result` in `folder`; raises `BadInput` if the folder has other rows."""
    schema = result.schema
    options = LearnOptions(
        only=(*schema.variables, *schema.survival_columns),
        missing="complete-rows" if schema.complete_rows else "model",
        dates="days" if schema.dates else "set-aside",
        seed=result.seed,
        by=owner_column(schema.aside),
        small_silos="merge" if OTHERS in schema.rows else "leave-out",
        condition=condition_column(schema.aside),
        cluster=cluster_column(schema.aside),
    )
    own: dict[str, RequestedTransform] = {name: REQUESTED.get(one, "none") for name, one in schema.transforms.items()}
    numbers = [name for name in schema.variables if name not in schema.levels]
    requested = {name: own.get(name, "none") for name in numbers if schema.transforms.get(name) != "anscombe"}
    targets = tuple(named_targets(schema).items())
    reading = replace(reading_of(options), silos=schema.silos, transforms=tuple(requested.items()), targets=targets)
    data = read_folder(folder, reading)
    found = (data.schema.kind, data.schema.levels, data.schema.survival)
    if found != (schema.kind, schema.levels, schema.survival):
        raise BadInput(f"{folder}: not the data of the run, which were {schema.kind}, with other labels or outcomes")
    if data.schema.gaps and has_moments(result):
        raise BadInput(f"{folder}: not the data of the run, which were numbers without empty cells")
    for silo, rows in schema.rows.items():
        if data.schema.rows[silo] != rows:
            raise BadInput(f"{folder}: silo {silo} has {data.schema.rows[silo]:,} rows, and the run had {rows:,}")
    recorded = result.about.get("checksums")
    if recorded and recorded != data.about.get("checksums", recorded):
        raise BadInput(f"{folder}: not the data of the run: its files have other checksums")
    odd = sorted(n for n in schema.variables if schema.transforms.get(n) != data.schema.transforms.get(n))
    if odd:
        raise BadInput(f"{folder}: not the data of the run: column {odd[0]} is on another scale than in the run")
    return RunData(result, folder, options, reading, data)


def within_moments(data: RunData, needed: Sequence[bool]) -> WithinMoments:
    """The second moments about the silos' own means, for pairs of columns that are `needed` `[d]`, and variances.

    Moments of other pairs are zero. The number of rows is that of independent rows.
    """
    clique = np.triu(np.outer(needed, needed), 1).astype(np.bool_)
    (found,) = data.exchanges([("effects", MOMENTS, start(data.rows.schema, clique))])
    moments = moments_of(found.last.server, len(data.rows.schema.silos) - len(found.last.lost))
    return replace(moments, rows=round(moments.rows * data.result.independent_share))


def moments_of(server: Server, silos: int) -> WithinMoments:
    """The moments in the final state of the exchange `MOMENTS` over this number of `silos`."""
    _, covariance = pooled_moments(server.moments, pairs(server.dag), len(server.variables), center=True)
    return WithinMoments(covariance, contributing_rows(server), silos)


def _exchange(job: Job, session: Session, name: str, spec: AlgorithmSpec, initial: Any) -> ExchangeResult:
    return extra_exchange(job, session, spec, name, initial).of_enough_silos(f"in the exchange {name}")
