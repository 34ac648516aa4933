"""A reconstruction attack: a silo's second moments from one unmasked reply B_p of NOTEARS-ADMM.

Source: Fassy El Fehri et al., A.1. The attack is exact: it solves the local update B = (S + ρ₂I)⁻¹(ρ₂W − β + S) for S.
In round 1, W = β = 0. Later rounds disclose S as well, since the coordinator can compute β from the replies and its own
W.
"""

import numpy as np

from ..core.schema import FloatArray


def reconstruct_from_first_reply(B: FloatArray, rho2: float) -> FloatArray:
    """The second moments S `[d, d]` of the silo that replied `B` in round 1: ρ₂((I − B)⁻¹ − I).

    Source: Fassy El Fehri et al., A.1.
    """
    one = np.eye(len(B))
    return np.asarray(rho2 * (np.linalg.inv(one - B) - one))


def relative_error(guess: FloatArray, S: FloatArray) -> float:
    """‖guess − S‖_F / ‖S‖_F: 0 means an exact reconstruction of the silo's second moments."""
    return float(np.linalg.norm(guess - S) / np.linalg.norm(S))
