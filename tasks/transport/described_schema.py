"""The public schema of a federation, inferred from the silos' descriptions of their rows."""

from collections.abc import Sequence
from dataclasses import replace

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Declared
from fedbnsl.data.folder.events import DescribedEvents, check_same_times
from fedbnsl.data.folder.profile import Profile
from fedbnsl.data.folder.schema_inference import InferredSchema, infer_events, infer_series, negotiate_schema
from fedbnsl.data.folder.series import DescribedSeries, check_same_step
from fedbnsl.data.folder.targets import with_targets

from ..silo.messages import MethodCall, SiloFailed
from ..silo.rows import AnyDescribed, Described, DescribedPooled
from .federation import Roster


def schema_from_descriptions(roster: Roster, declared: Declared, expected: tuple[str, ...] = ()) -> InferredSchema:
    """The public schema of the silos of `roster` from their descriptions.

    Raises `BadInput` if they disagree or cannot be read, and `SiloLost` if a silo does not respond.

    Each silo describes its columns, including labels if there are few. If an owner withholds everything but names and
    numbers of rows, all silos are read by what `about.json` declares, as in a run with an ε. Declarations in `declared`
    take precedence. The coordinator may declare targets of experiments for all `expected` silos, and a silo's owner for
    that silo.
    """
    first = _described(roster, declared)
    names_only = any(isinstance(part, Described) and part.names_only for part in first)
    if names_only and not declared.reading.private:
        declared = replace(declared, reading=replace(declared.reading, private=True))
        first = _described(roster, declared)
    try:
        inferred = _inferred(roster, declared, first)
    except BadInput:
        raise
    except (
        ValueError,
        LookupError,
        TypeError,
        ArithmeticError,
    ) as fault:  # well-formed parts that disagree
        raise SiloFailed(f"{', '.join(roster.silos)}: a description cannot be used ({type(fault).__name__})") from None
    own = [
        (part.silo, name, targets)
        for part in first
        if isinstance(part, Described)
        for name, targets in (*part.targets_by_condition, *(((part.silo, part.targets),) if part.targets else ()))
    ]
    named, others = _joined_targets(declared, own), None if declared.reading.silos else expected
    condition = None if any(isinstance(part, DescribedPooled) for part in first) else declared.reading.conditions_column
    unknown = declared.reading.finds_targets
    schema = with_targets(inferred.schema, named.all_targets, named.targets_place, others, condition, unknown=unknown)
    levels = {part.silo: part.level for part in first if isinstance(part, Described)}
    return replace(inferred, schema=schema, declared=declared, levels=levels)


def _joined_targets(declared: Declared, described: list[tuple[str, str, tuple[str, ...]]]) -> Declared:
    """The declaration with the targets that silos have `described`, as (silo, its name or a condition, targets).

    Raises `BadInput` if the coordinator or another silo declares other targets for the same silo or condition.
    """
    given, own, owners = declared.all_targets, dict[str, tuple[str, ...]](), dict[str, str]()
    for silo, name, targets in described:
        theirs = own.get(name, given.get(name))
        if theirs is not None and set(theirs) != set(targets):
            of_condition = "" if name == silo else f" of condition {name}"
            other = f"the owner of {owners[name]}" if name in owners else "the coordinator"
            raise BadInput(
                f"silo {silo}: its owner declares the targets {', '.join(targets)}{of_condition}, and {other} "
                f"declares {', '.join(theirs)}: agree on one about.json"
            )
        own[name], owners[name] = targets, silo
    ignored = declared.reading.targets == ()  # --targets none or unknown
    return (
        declared
        if ignored or not own
        else replace(declared, targets={**given, **own}, reading=replace(declared.reading, targets=None))
    )


def _inferred(roster: Roster, declared: Declared, first: list[AnyDescribed]) -> InferredSchema:
    """The schema without targets, from the `first` descriptions."""
    pooled = [part for part in first if isinstance(part, DescribedPooled)]
    if pooled:
        return InferredSchema(_renamed_schema(pooled[0]), pooled[0].notes)
    series = [part for part in first if isinstance(part, DescribedSeries)]
    if series:
        _check_series(series[0], first)
        return infer_series("the silos", series, declared)
    events = [part for part in first if isinstance(part, DescribedEvents)]
    if events:
        check_same_times({f"silo {part.silo}": part.are_dates for part in events})
        return infer_events("the silos", events, declared)
    answers = [first]

    def request_profiles(declaration: Declared) -> dict[str, Profile]:
        parts = answers.pop() if answers else _described(roster, declaration)
        return {part.silo: part.profile for part in parts if isinstance(part, Described)}

    inferred = negotiate_schema("the silos", request_profiles, declared)
    streamed = tuple(sorted(part.silo for part in first if isinstance(part, Described) and part.streamed))
    strangers = tuple(sorted(part.silo for part in first if isinstance(part, Described) and not part.pins_members))
    suppressed = any(isinstance(part, Described) and part.suppresses_cells for part in first)
    schema = replace(inferred.schema, streamed=streamed)
    return replace(inferred, schema=schema, without_members=strangers, suppressed_cells=suppressed)


def _renamed_schema(pooled: DescribedPooled) -> Schema:
    """The schema of pooled rows, under the name of the silo that has them."""
    schema, (own,) = pooled.schema, pooled.schema.rows
    return replace(
        schema,
        rows={pooled.silo: schema.rows[own]},
        stretches={pooled.silo: schema.stretches[own]} if schema.stretches else {},
        empty={pooled.silo: schema.empty[own]} if schema.empty else {},
    )


def _check_series(first: DescribedSeries, parts: Sequence[AnyDescribed]) -> None:
    """Raise `BadInput` if one of `parts` is no series, or has another step or other columns than the `first` series."""
    for part in parts:
        if not isinstance(part, DescribedSeries):
            raise BadInput(
                f"silos {first.silo} and {part.silo} disagree: only the first has a column 'time' with regular times: "
                "declare the kind in about.json"
            )
        check_same_step(f"silo {part.silo}", part.step, first.step, f"silo {first.silo}")
        odd = sorted(set(part.variables) ^ set(first.variables))
        if odd:
            raise BadInput(f"silos {first.silo} and {part.silo} disagree: only one of them has column {odd[0]}")


def _described(roster: Roster, declared: Declared) -> list[AnyDescribed]:
    calls = dict.fromkeys(roster.present, MethodCall("describe", (declared,)))
    return list(roster.ask(calls, tolerates_dropout=False).values())
