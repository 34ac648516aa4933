"""The reconstruction attack on NOTEARS-ADMM's plain replies (000 A.1): a silo's second moments from one B_p.

Nothing in it is guesswork: the local solve B = (S + ρ₂I)⁻¹(ρ₂W − β + S) is solved for S. In round 1, W = β = 0. Later
rounds need β, which the coordinator can follow by itself from the replies and its own W.
"""

import numpy as np

from ..core.schema import FloatArray


def from_first_reply(B: FloatArray, rho2: float) -> FloatArray:
    """Return the S `[d, d]` of whom replied `B` in round 1: ρ₂((I − B)⁻¹ − I) (000 A.1)."""
    one = np.eye(len(B))
    return np.asarray(rho2 * (np.linalg.inv(one - B) - one))


def from_later_reply(B: FloatArray, W: FloatArray, beta: FloatArray, rho2: float) -> FloatArray:
    """Return the S `[d, d]` of whom replied `B` to `W` with dual `beta`: (ρ₂(W − B) − β)(B − I)⁻¹.

    The inverse stands on the right; 000 A.1 has it on the left.
    """
    return np.asarray(np.linalg.solve((B - np.eye(len(B))).T, (rho2 * (W - B) - beta).T).T)


def relative_error(guess: FloatArray, S: FloatArray) -> float:
    """Return ‖guess − S‖_F / ‖S‖_F: 0 for a silo laid bare."""
    return float(np.linalg.norm(guess - S) / np.linalg.norm(S))
