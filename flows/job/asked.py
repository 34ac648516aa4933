"""From what was asked for to the description of the run."""

import math
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.privacy.ledger import Budget

from ..options.learn import LearnSettings
from .job import Job
from .knowledge import knowledge_of
from .spec import spec_of


def job_asked(
    settings: LearnSettings,
    run_id: str,
    engine: str,
    schema: Schema,
    about: dict[str, Any],
    truth: Structure | None,
    silo_weights: dict[str, FloatArray],
) -> Job:
    """Return the job that `settings` ask for on data of `schema`; raises `BadInput` as `spec_of` does."""
    return Job(
        name=settings.name or "",
        run_id=run_id,
        spec=spec_of(settings, schema),
        asked=settings.algorithm,
        knowledge=knowledge_of(settings, schema.variables),
        secure=settings.secure,
        budget=Budget(settings.budget or math.inf, settings.budget_delta or 0.0),
        parameters=settings.parameters,
        diagnose=settings.diagnose,
        smoothing=settings.smoothing,
        bootstrap=settings.bootstrap,
        seed=settings.seed,
        engine=engine,
        dataset=Path(settings.data).absolute().name,
        about=about,
        truth=truth,
        silo_weights=silo_weights,
        allow_cyclic_truth=settings.allow_cyclic_truth,
    )
