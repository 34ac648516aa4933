"""What a run is pinned to when it begins: its silos, how many rows each has, and the seals of these rows.

A seal is the silo's own (`tasks/silo/seal.py`): the coordinator can tell whether it is the same as before, no more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedbnsl.algorithms.errors import BadInput


@dataclass(frozen=True)
class Pin:
    """What a silo was when the run began."""

    rows: int
    seal: str


@dataclass(frozen=True)
class Interrupted:
    """How the silos of an interrupted run stand: what they were, and which had been given up, with the reason."""

    pins: Mapping[str, Pin]
    gone: Mapping[str, str] = field(default_factory=dict)


def check_pins(began: Mapping[str, Pin], now: Mapping[str, Pin]) -> None:
    """Raise `BadInput` naming a silo that is missing or new, or whose rows are not those with which the run began."""
    for silo, pin in began.items():
        if silo not in now:
            raise BadInput(f"silo {silo} took part when the run began, and is not there")
        if now[silo].rows != pin.rows:
            raise BadInput(
                f"silo {silo} had {pin.rows} rows when the run began and has {now[silo].rows}: begin a new run"
            )
        if now[silo].seal != pin.seal:
            raise BadInput(f"silo {silo} has other rows than when the run began, as many as before: begin a new run")
    new = sorted(set(now) - set(began))
    if new:
        raise BadInput(f"silo {new[0]} did not take part when the run began: begin a new run")
