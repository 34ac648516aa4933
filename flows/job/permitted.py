"""What follows a run's rounds, at silos whose owners need not allow it: a refusal costs that part, not the run."""

from collections.abc import Callable
from typing import TypeVar

from fedbnsl.tasks.silo.policy import NotAllowed

T = TypeVar("T")


def permitted(ask: Callable[[], T], otherwise: Callable[[str], T]) -> T:
    """Return what `ask` gives, or, if an owner's policy refuses it, what is to be said `otherwise` of the refusal."""
    try:
        return ask()
    except NotAllowed as refusal:
        return otherwise(str(refusal))
