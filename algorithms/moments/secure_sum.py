"""`secure-sum` and `dp-covariance`: learning from one sum of second moments instead of many rounds.

`secure-sum` (ours): the silos' second moments in one masked sum. What leaves a silo: its masked part, of which only the
sum over the silos is visible. Without noise, the result is the same as from pooled rows. With noise "shares", every
silo adds a share of noise. Even after dropouts, some number of shares is certain to be in the sum. Without the shares
of `colluders`, who know their own noise, the rest of these suffices for (ε, δ). So P silos together add about the noise
of one private release. If each silo made its own part private, the variance of the noise would be P times as large.

`dp-covariance`, DP-Fed-BNSL (Fassy El Fehri et al., §6.3; Wang 2018): each silo releases its own private covariance,
and the rest is post-processing. What leaves a silo: bucket counts and second moments, each private by itself; no party
needs to be trusted. The paper's further rounds of notears-admm would give the server no new information. The objective
Σ_p L(B; S_p) depends on the S_p only through their mean, so the server minimises it alone, with the same settings and
without further messages. The standard deviation of the noise in the mean of P private covariances is √P times the
standard deviation of the noise in `secure-sum`.
"""

from dataclasses import dataclass, replace
from typing import Literal

from ..core.protocol import FederatedAlgorithm, Summand
from ..core.schema import Schema
from ..core.settings import CountOrNone, NonNegative, Positive
from ..errors import BadInput
from ..privacy.zcdp import Shares, guaranteed_shares
from .pooled import Learner
from .summed import Broadcast, Server, Silo, SummedMoments, summed_moments


@dataclass(frozen=True)
class SecureSum(SummedMoments):
    """Settings of `secure-sum`."""

    noise: Literal["auto", "none", "shares"] = "auto"
    """shares: every silo adds a share of private noise; auto: shares if an ε is given"""
    colluders: CountOrNone = 1
    """number of silos that may collude and subtract their own noise from the sum; the noise of the other silos suffices
    for ε; 0: no protection against silos, but slightly less noise"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise == "none" and self.epsilon > 0:
            raise BadInput(f"parameter epsilon is {self.epsilon}, but noise is none: nothing would be private")


def build(settings: SecureSum) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The algorithm: one exchange without noise or with a known scale, else two.

    Raises `BadInput` for noise shares without an ε.
    """
    if settings.noise == "shares" and settings.epsilon == 0:
        raise BadInput("parameter noise is shares: set epsilon")
    return replace(
        summed_moments(settings, (lambda schema: secure_sum_plan(settings, schema)) if settings.epsilon else None),
        needs_secure_sum=True,
    )


def secure_sum_plan(settings: SecureSum, schema: Schema) -> Shares:
    """Each silo's share of the noise; raises `BadInput` if no honest silo's share is certain."""
    certain_shares, protects = guaranteed_shares(len(schema.rows), settings.colluders)
    return settings.shares(schema, certain_shares, protects)


@dataclass(frozen=True)
class DpCovariance(SummedMoments):
    """Settings of `dp-covariance`."""

    learner: Learner = "notears-admm"
    l1: NonNegative = 0.1
    epsilon: Positive = 1.0


def build_dp_covariance(settings: DpCovariance) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The algorithm: two exchanges, or one if the scale is known."""
    return summed_moments(settings, lambda schema: dp_covariance_plan(settings, schema))


def dp_covariance_plan(settings: DpCovariance, schema: Schema) -> Shares:
    """The noise that makes a silo's release private by itself."""
    return settings.shares(schema, 1, "from everyone but the silo that holds the record")
