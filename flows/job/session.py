"""An engine, ready to run: how a job reaches the silos, and how the coordinator carries out its steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms.core.protocol import Federation
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import Algorithm, AlgorithmSpec

from .job import Job

Work = Callable[[], Any]


@dataclass(frozen=True)
class Session:
    """An engine ready to run: its silos answer, and nothing has been asked of them yet."""

    schema: Schema
    connect: Callable[[Job, AlgorithmSpec, str], Federation]
    """(job, what to run, run id) -> a federation whose silos run that, as secure as the job asks"""
    wrap: Callable[[Algorithm, Federation], Algorithm] = lambda algorithm, federation: algorithm
    """how the coordinator carries out its steps"""
    evaluate: Callable[[Work], Any] = lambda work: work()
    """how it carries out the evaluation"""
    notes: tuple[str, ...] = ()
    """what is to be known about how the silos' tables were read"""
