"""The public schema of a federation, from what each silo says of its own rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import declared_levels
from fedbnsl.data.folder.levels import joint_schema
from fedbnsl.data.folder.series import check_same_step

from ..silo.method_call import MethodCall
from ..silo.rows import Described, DescribedSeries
from .silo_transport import SiloTransport

READING_SECONDS = 600.0
"""how long a silo may take to read its rows"""


def federated_schema(transport: SiloTransport, silos: tuple[str, ...], about: Mapping[str, Any]) -> Schema:
    """Return the public schema that `silos` describe; raises `BadInput` if they disagree or their rows are bad.

    If `about` does not give the kind of data and some silos hold labels, all silos are read as discrete data. Each then
    says which labels occur in its columns, unless `about` declares the levels.
    """
    parts = _described(transport, silos, about)
    _check_times(parts)
    if len({type(part) for part in parts}) > 1:
        parts = _described(transport, silos, {**about, "kind": "discrete"})
    first = parts[0]
    for part in parts[1:]:
        if set(part.variables) != set(first.variables):
            odd = sorted(set(part.variables) ^ set(first.variables))
            raise BadInput(f"silos {first.silo} and {part.silo} disagree: column {odd[0]} is in one of them only")
    return joint_schema("the silos", [part.schema() for part in parts], declared_levels(about))


def _check_times(parts: Sequence[Described]) -> None:
    """Raise `BadInput` if some silos hold time series and others do not, or if their steps in time differ."""
    series = [part for part in parts if isinstance(part, DescribedSeries)]
    for part in parts if series else ():
        if not isinstance(part, DescribedSeries):
            raise BadInput(
                f"silos {series[0].silo} and {part.silo} disagree: only the first of them has a column 'time'"
            )
        check_same_step(f"silo {part.silo}", part.step, series[0].step, f"silo {series[0].silo}")


def _described(transport: SiloTransport, silos: tuple[str, ...], about: Mapping[str, Any]) -> list[Described]:
    told = {key: about[key] for key in ("kind", "levels", "step") if key in about}
    pending = [transport.submit(silo, MethodCall("describe", (told,))) for silo in silos]
    return [answer.result(READING_SECONDS) for answer in pending]
