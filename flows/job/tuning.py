"""Tuning before the rounds: the candidate settings of an algorithm, compared on resamples of the rows.

The resamples are those of the bootstrap: random halves of each silo's rows (`algorithms/resampling/bootstrap.py`).
Every candidate learns from the same halves, with one of two criteria:

- held-out, for numbers without empty cells: the likelihood of the other halves under the structure and the parameters
  of a half. Two more exchanges sum the second moments of the halves and of all rows, and the difference gives the
  second moments of the other halves. The candidate with the greatest mean likelihood is chosen. In comparisons, the
  rule of choosing the sparsest candidate within one standard error of the best gave graphs further from the truth.
- stars, for all data: the instability of the edges, which is the mean over pairs of 2θ(1 − θ), where θ is the share of
  halves that join a pair. The densest candidate is chosen such that its instability, and the instability of every
  sparser candidate, is at most β = .05 (Liu, Roeder & Wasserman 2010, "Stability approach to regularization
  selection").

A candidate takes the replies to the requests of an earlier candidate if it sends the same requests and both have the
same values of the settings that silos use. What leaves a silo: for each resample and each candidate without such
replies, the same as in a run of the learner, masked if the run is. With held-out, also the second moments of the halves
and of all rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

import numpy as np

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.choose import AUTO
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import Algorithm, Federation, Replies, Sparse, SumServer, Traffic, rounds
from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.core.spec import SERIES, AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.algorithms.graphs.cpdag import dag_extension
from fedbnsl.algorithms.graphs.edges import edge_count
from fedbnsl.algorithms.graphs.strengths import edge_strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.resampling.bootstrap import Bootstrap, resampled_schema, structures
from fedbnsl.algorithms.resampling.held_out import MomentSum, mean_log_likelihood
from fedbnsl.algorithms.statistics.packing import from_triangle
from fedbnsl.tracking.result import TunedCandidate, Tuning

from ..options.learn import LearnOptions
from .follow_up import resample_spec, resampling_refusal
from .job import Job, Session, extra_exchange
from .preparation import with_knowledge

RESAMPLES = 20
"""number of halves of the rows on which candidates are compared"""
MAX_CANDIDATES = 100
MAX_INSTABILITY = 0.05
"""β of StARS"""


def candidate_specs(options: LearnOptions) -> list[tuple[dict[str, str], AlgorithmSpec]]:
    """For each candidate of `options.tune`: the values of the tuned settings, and the algorithm with these values.

    Raises `BadInput` if the algorithm is `auto`, unless there are 2 to `MAX_CANDIDATES` candidates, and for a setting
    that is invalid, repeated or also fixed.
    """
    if options.algorithm == AUTO:
        raise BadInput("--tune compares settings of one algorithm: name it with --algorithm")
    grid: dict[str, list[str]] = {}
    for part in filter(None, (one.strip() for one in options.tune.split(";"))):
        name, sign, values = (one.strip() for one in part.partition("="))
        listed = [value.strip() for value in values.split(",")]
        if not (name and sign and all(listed)) or name in grid:
            raise BadInput(f"--tune {quoted(part)}: give each setting once, with its values: 'alpha=.001,.01,.05'")
        if name in options.params:
            raise BadInput(f"--tune: {name} has candidates and a fixed value: give one of them")
        repeated = next((value for value in listed if listed.count(value) > 1), None)
        if repeated is not None:
            raise BadInput(f"--tune: {name} has the value {quoted(repeated)} twice")
        grid[name] = listed
    chosen = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    if not 2 <= len(chosen) <= MAX_CANDIDATES:
        raise BadInput(f"--tune has {len(chosen)} candidates: give 2 to {MAX_CANDIDATES}")
    return [(one, options.specify(options.algorithm, one)) for one in chosen]


def tuning_refusal(job: Job, schema: Schema) -> str:
    """The reason why the settings cannot be tuned in this run; empty if they can.

    Raises `BadInput` for invalid candidates.
    """
    name, specs = job.spec.name, candidate_specs(job.settings)
    if any(registry.build(spec).private is not None for _, spec in specs):
        return "every candidate would be another release, which ε does not cover: tune on public data"
    if reason := resampling_refusal(job, schema):
        return f"candidates are compared on resamples of the rows: {reason}"
    if registry.entry(name).lags_before and schema.kind in SERIES:
        return f"{name} chooses its lags before it learns from series: compare whole runs instead"
    if job.settings.tune_by == "held-out" and not has_moments(job, schema):
        return "--tune-by held-out is for numbers without empty cells: use stars"
    return ""


def has_moments(job: Job, schema: Schema) -> bool:
    """Whether second moments determine the likelihood of held-out rows: for numbers without empty cells."""
    return schema.kind == "continuous" and not schema.gaps and job.settings.outliers == "keep"


class SharedExchanges:
    """A federation that stores the replies to a candidate's requests, and gives them to later candidates."""

    def __init__(self, federation: Federation, known: dict[tuple[int, bytes], Replies[Any]], *, may_ask: bool) -> None:
        """With `may_ask`, send requests to the silos and store the replies in `known`.

        Without it, take replies only from `known`, and raise `KeyError` for an unknown request.
        """
        self.federation, self.known, self.may_ask, self.exchanges = federation, known, may_ask, 0

    @property
    def schema(self) -> Schema:
        """The public schema."""
        return self.federation.schema

    def exchange(
        self, algorithm: Algorithm, number: int, broadcast: Any, sparse: Sparse | None = None
    ) -> tuple[Replies[Any], Traffic]:
        """The replies to `broadcast`, as the federation returns them."""
        key = number, wire.encode(broadcast)
        if not self.may_ask:
            return self.known[key], Traffic()
        replies, traffic = self.federation.exchange(algorithm, number, broadcast, sparse)
        self.known[key] = replies
        self.exchanges += 1
        return replies, traffic

    def charges(self, run: str | None = None) -> dict[str, Any]:
        """The charges in each silo's privacy ledger."""
        return self.federation.charges(run)

    def releases(self, run: str) -> dict[str, Any]:
        """What each silo has sent."""
        return self.federation.releases(run)


@dataclass(frozen=True)
class CandidateRun:
    """The structures that a candidate learned from the halves, and its exchanges and bytes."""

    structures: list[Structure]
    exchanges: int
    bytes_sent: int


def with_tuning(job: Job, session: Session) -> tuple[Job, Tuning | None]:
    """`job` with the best of its candidate settings, and the comparison; without candidates, the unchanged `job`.

    The exchanges run under the run ids `<run id>-tuning-<n>`, and for held-out likelihoods `<run id>-halves` and
    `<run id>-whole`. Raises `BadInput` if a silo is lost meanwhile.
    """
    if not job.settings.tune:
        return job, None
    specs, by = candidate_specs(job.settings), job.settings.tune_by
    by = by if by != "auto" else "held-out" if has_moments(job, session.schema) else "stars"
    known: dict[frozenset[tuple[str, Any]], dict[tuple[int, bytes], Replies[Any]]] = {}
    found = [_learn(job, session, spec, number, known) for number, (_, spec) in enumerate(specs, 1)]
    exchanges, sent = sum(one.exchanges for one in found), sum(one.bytes_sent for one in found)
    likelihoods = np.zeros((len(specs), RESAMPLES))
    if by == "held-out":
        likelihoods, more, bytes_sent = _held_out(job, session, found)
        exchanges, sent = exchanges + more, sent + bytes_sent
    edges = np.array([np.mean([edge_count(one) for one in each.structures]) for each in found])
    unstable = np.array([instability(each.structures) for each in found])
    best = choose_by_likelihood(likelihoods, edges) if by == "held-out" else choose_by_stability(unstable, edges)
    scores = [float(one.mean()) if by == "held-out" else None for one in likelihoods]
    candidates = tuple(
        TunedCandidate(params, float(edges[k]), float(unstable[k]), scores[k]) for k, (params, _) in enumerate(specs)
    )
    return replace(job, spec=specs[best][1]), Tuning(by, candidates, best, exchanges, sent)


def _learn(
    job: Job,
    session: Session,
    spec: AlgorithmSpec,
    number: int,
    known: dict[frozenset[tuple[str, Any]], dict[tuple[int, bytes], Replies[Any]]],
) -> CandidateRun:
    """The structures that `spec` learns from the halves, with the replies to an earlier candidate if possible."""
    learner = resample_spec(spec, 0, RESAMPLES)
    wrapped = learner.wrapped("bootstrap", Bootstrap(RESAMPLES))
    agreeing = with_knowledge(registry.build(learner), job.run_schema(session.schema))
    # Only settings that no silo uses may differ between candidates that share answers.
    server_only = registry.entry(spec.name).server_settings
    shared = frozenset(
        (one.name, getattr(spec.settings, one.name)) for one in fields(spec.settings) if one.name not in server_only
    )
    federation = session.connect(job, wrapped, f"{job.run_id}-tuning-{number}")
    for may_ask in (False, True) if shared in known else (True,):
        exchanges = SharedExchanges(federation, known.setdefault(shared, {}), may_ask=may_ask)
        try:
            *_, last = every = list(rounds(session.wrap(registry.build(wrapped), federation), exchanges))
        except KeyError:
            continue
        last.require_silos("while candidates were compared")
        sent = sum(one.traffic.total for one in every)
        return CandidateRun(structures(agreeing, last.server), exchanges.exchanges, sent)
    raise AssertionError("a federation that may ask has every answer")


def _held_out(job: Job, session: Session, found: Sequence[CandidateRun]) -> tuple[FloatArray, int, int]:
    """The mean held-out log-likelihood of a row, `[candidates, halves]`, and the exchanges and bytes of the moments."""
    masked = registry.build(job.spec).needs_secure_sum
    moments = AlgorithmSpec("moment-sum", MomentSum(masked))
    sampling = Bootstrap(RESAMPLES)
    halves = extra_exchange(job, session, moments.wrapped("bootstrap", sampling), "halves")
    whole = extra_exchange(job, session, moments, "whole")
    if halves.lost or whole.lost:
        raise BadInput("too few silos responded while candidates were compared")
    n = sum(session.schema.rows.values())
    n_half = sum(resampled_schema(session.schema, sampling.sampling).rows.values())
    every = n * from_triangle(whole.last.server.total[1:])
    scores = np.zeros((len(found), RESAMPLES))
    for k, state in enumerate(halves.last.server.states):
        total = wire.decode(SumServer, state).total
        S = from_triangle(total[1:]) / total[0]
        rest = (every - n_half * from_triangle(total[1:])) / (n - n_half)
        for c, candidate in enumerate(found):
            dag = dag_extension(candidate.structures[k]).dag
            if dag is None:
                raise BadInput("--tune-by held-out needs graphs with a model, and a candidate has none: use stars")
            scores[c, k] = mean_log_likelihood(S, rest, dag)
    return scores, halves.last.number + whole.last.number, halves.bytes_sent + whole.bytes_sent


def instability(found: Sequence[Structure]) -> float:
    """The mean of 2θ(1 − θ) over pairs of variables and lagged edges, each in a share θ of the structures.

    Source: Liu et al. 2010.
    """
    strengths = edge_strengths(found)
    pairs = np.triu_indices(len(strengths.variables), 1)
    shares = [strengths.strength[pairs], *(one.ravel() for one in strengths.lagged)]
    theta = np.concatenate(shares)
    return float((2 * theta * (1 - theta)).mean()) if len(theta) else 0.0


def choose_by_stability(unstable: FloatArray, edges: FloatArray) -> int:
    """The densest candidate such that it and all sparser candidates are stable; the sparsest candidate if none is."""
    order = np.lexsort((unstable, edges))
    stable = np.maximum.accumulate(unstable[order]) <= MAX_INSTABILITY
    return int(order[max(int(stable.sum()) - 1, 0)])


def choose_by_likelihood(likelihoods: FloatArray, edges: FloatArray) -> int:
    """The candidate with the greatest mean held-out likelihood `[candidates, halves]`; the sparsest among equals."""
    return int(np.lexsort((edges, -likelihoods.mean(axis=1)))[0])
