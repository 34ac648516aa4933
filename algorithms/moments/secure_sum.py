"""One secure sum instead of many rounds: the silos' second moments, added up behind masks, then learned from (ours).

What leaves a silo: its part of the sum, masked; nobody sees it except within the sum. Without noise the result is that
of the pooled rows. With noise "shares" every silo adds a share of noise, such that the shares of the silos that are
certain to be in the sum, minus those of the `colluders`, who know their own, suffice for (ε, δ): P silos together hide
one record with about the noise of one release, where silos that each hide their own add P times as much variance.
"""

from dataclasses import dataclass, replace
from typing import Literal

from ..core.protocol import FederatedAlgorithm
from ..core.schema import Schema
from ..errors import BadInput, require
from ..privacy.shares import Shares, sure_shares
from .parts import Broadcast, Reply, Silo
from .summed import Server, summed_moments
from .summed_settings import SummedMoments


@dataclass(frozen=True)
class SecureSum(SummedMoments):
    """Settings of `secure-sum`."""

    noise: Literal["auto", "none", "shares"] = "auto"
    """shares: every silo adds a share of private noise; auto: shares if an ε is given"""
    colluders: int = 1
    """silos that may look at what is released with the noise in mind that they know, their own: that of the others
    suffices; 0: nothing is promised against a silo, and a little less noise needed"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        require(self.colluders >= 0, "colluders", self.colluders, "0 or more")
        if self.noise == "none" and self.epsilon > 0:
            raise BadInput(f"parameter epsilon is {self.epsilon}, but noise is none: nothing would be private")


def build(settings: SecureSum) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Return the algorithm: one exchange without noise or with a known scale, else two.

    Raises `BadInput` for noise shares without an ε.
    """
    if settings.noise == "shares" and settings.epsilon == 0:
        raise BadInput("parameter noise is shares: give the epsilon that they are to keep")
    return replace(
        summed_moments(settings, (lambda schema: plan(settings, schema)) if settings.epsilon else None),
        needs_secure_sum=True,
    )


def plan(settings: SecureSum, schema: Schema) -> Shares:
    """Return every silo's share of the noise; raises `BadInput` if no honest silo's share is certain."""
    sure, protects = sure_shares(len(schema.rows), settings.colluders)
    return settings.shares(schema, sure, protects)
