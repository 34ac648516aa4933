"""The survival outcomes of a run: after its rounds, one exchange for each selects its parents and fits its node.

The learner sees only the other columns. A survival outcome is a sink of the graph: its column of times is no cause of
anything, and what happened until then is in other columns. So the graph of the other variables does not depend on it,
and its parents are selected from all of them (`algorithms/parameters/survival.py`). The exchanges have the run ids
`<run id>-survival-<outcome number>`, are masked, and read rows that are complete in all candidates. If cells are empty,
the node is fitted again to the rows that are complete in its parents.
"""

from collections.abc import Sequence
from dataclasses import replace

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Round
from fedbnsl.algorithms.core.schema import NO_IMPUTATION, Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters import survival
from fedbnsl.algorithms.parameters.survival_node import SurvivalNode
from fedbnsl.tracking.result import SurvivalOutcome

from .job import Job, Session, extra_exchange, unless_refused
from .preparation import with_units

SPEC = AlgorithmSpec("survival", survival.Survival())


def check_survival(job: Job, schema: Schema) -> None:
    """Raise `BadInput` if the data have survival outcomes that the learner of `job` or its knowledge cannot have."""
    if not schema.survival:
        return
    named, algorithm = ", ".join(schema.survival), registry.build(job.spec)
    remedy = f"leave its columns out with --ignore {','.join(schema.survival_columns)}"
    if algorithm.private is not None:
        raise BadInput(f"survival outcome {named}: the run's ε does not cover its sums: {remedy}")
    if registry.entry(job.spec.name).pooled or algorithm.local_structures is not None:
        raise BadInput(f"survival outcome {named}: {job.spec.name} does not learn one graph over the silos: {remedy}")
    if schema.streamed:
        raise BadInput(
            f"survival outcome {named}: silo {quoted(schema.streamed[0])} reads its rows in passes: {remedy}"
        )
    for name in schema.survival:
        if name in schema.variables:
            raise BadInput(f"survival outcome {quoted(name)} has the name of another column")
        if effects := [target for source, target in job.knowledge.required if source == name]:
            raise BadInput(f"background knowledge: {name} is a survival outcome and cannot cause {effects[0]}")


def survival_outcomes(job: Job, session: Session, last: Round[object]) -> tuple[SurvivalOutcome, ...]:
    """The outcomes of the run, each with its node or the reason why it has none.

    Raises nothing if a silo is lost or an owner's policy refuses: the run loses only the node.
    """
    schema = session.schema
    if last.broken_off:
        return tuple(SurvivalOutcome(name, *pair, why=last.broken_off) for name, pair in schema.survival.items())
    own = survival_job(job)

    def outcome(number: int, name: str) -> SurvivalOutcome:
        return unless_refused(
            lambda: fitted_outcome(own, session, number, name),
            lambda refusal: SurvivalOutcome(name, *schema.survival[name], why=refusal),
        )

    return tuple(outcome(number, name) for number, name in enumerate(schema.survival, start=1))


def fitted_outcome(job: Job, session: Session, number: int, name: str) -> SurvivalOutcome:
    """The outcome `name` with its selected parents and its node, or the reason why it has none."""
    possible, pair = job.knowledge.possible(session.schema.nodes), session.schema.survival[name]
    place = {node: v for v, node in enumerate(session.schema.nodes)}
    candidates = [one for one in session.schema.variables if possible[place[one], place[name]]]
    required = [source for source, target in job.knowledge.required if target == name]
    found, sent = fitted_node(job, session, f"survival-{number}", name, candidates, required)
    if isinstance(found, SurvivalNode) and session.schema.gaps and len(found.parents) < len(candidates):
        found, more = fitted_node(job, session, f"survival-{number}-parents", name, found.parents, None)
        sent += more
    if isinstance(found, str):
        return SurvivalOutcome(name, *pair, why=found, bytes_sent=sent)
    return SurvivalOutcome(name, *pair, node=found, candidates=len(candidates), bytes_sent=sent)


def survival_job(job: Job) -> Job:
    """The job of the exchanges on survival outcomes of the run of `job`."""
    return replace(job, spec=SPEC, reads_survival=True, units=(), imputation_model=NO_IMPUTATION)


def fitted_node(
    job: Job, session: Session, step: str, name: str, candidates: Sequence[str], required: Sequence[str] | None
) -> tuple[SurvivalNode | str, int]:
    """The node of the outcome `name` from one exchange or the reason why there is none, and the bytes sent.

    The arguments are those of `survival.start`; `job` is a `survival_job`, and `step` the end of the run id.
    """
    whole = replace(session, schema=session.schema.with_survival_columns())
    job = with_units(job, whole, f"{step}-units")
    start = survival.start(whole.schema, name, session.schema.survival[name], candidates, required)
    found = extra_exchange(job, session, SPEC, step, replace(start, schema=job.run_schema(session.schema)))
    if found.lost:
        return f"too few silos responded when {name} was fitted", found.bytes_sent
    return survival.node(found.last.server), found.bytes_sent


def with_survival(structure: Structure, outcomes: Sequence[SurvivalOutcome]) -> Structure:
    """The graph with the outcomes as sinks; the weight of an edge is the largest log hazard ratio of its terms."""
    for one in outcomes:
        terms = one.node.terms if one.node else ()
        largest = {
            parent: max((term.coefficient for term in terms if term.variable == parent), key=abs, default=0.0) or 1.0
            for parent in (one.node.parents if one.node else ())
        }
        structure = structure.with_sink(one.name, largest)
    return structure
