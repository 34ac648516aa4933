"""What the refined consensus (`refined.py`) sends besides the papers' messages: what the last phase measures.

While moves are judged, and in every round of the fit without λ, the silos say what mean square the consensus leaves of
each variable: d numbers. With W they are the model of the round (`model_order.py`).
"""

from dataclasses import dataclass, field

import numpy as np

from ..core.schema import FloatArray
from ..statistics.packing import Packing, packing
from . import messages
from .messages import NOTHING


@dataclass(frozen=True)
class Broadcast(messages.Broadcast):
    """The papers' broadcast, with what the refined phases add to it."""

    measure: bool = False
    """whether the silos are to say what W leaves of each variable"""
    variances: FloatArray = field(default_factory=lambda: NOTHING)
    """what the last W left of each variable, `[d]`, on average over the silos; empty before the fit without λ"""

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, counting the variances as 8 a number."""
        return super().cost + 8 * len(self.variances)


@dataclass(frozen=True)
class Reply(messages.Reply):
    """The papers' reply, with what the refined phases add to it."""

    variances: FloatArray = field(default_factory=lambda: NOTHING)
    """what W leaves of each variable in this silo, `[d]`: mean squared residuals, where they were asked for"""

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, counting the variances as 8 a number."""
        return super().cost + 8 * len(self.variances)


def reply_packing(shape: tuple[int, int], moves: int, *, measured: bool) -> Packing:
    """Return how a reply is packed, for parameters of this `shape`: with the variances where they are `measured`."""
    blocks = messages.reply_packing(shape, moves).blocks
    return Packing((*blocks, *packing(variances=shape[1] if measured else 0).blocks))


def summand(reply: Reply) -> FloatArray:
    """Return `reply` as one vector to be added up."""
    return np.concatenate([messages.summand(reply), reply.variances])
