"""Anderson acceleration of a fixed-point iteration over covariances, such as EM's (Walker, Ni 2011).

The next point is that mixture of the last images whose residuals cancel best, if it is a covariance near the last one.
Residuals are measured in the units of the last image, L⁻¹ (F(S) − S) L⁻ᵀ with F(S) = L Lᵀ: so the scale of a column,
and two columns that say nearly the same, make no difference. Far from the fixed point mixtures mislead: plain steps
lead there, until a step changes no direction's variance by more than `NEAR`.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from ..core.schema import FloatArray

MEMORY = 4
"""points that are mixed"""
NEAR = 0.3
"""greatest relative change of a variance, in any direction, for mixtures to begin"""
TRUSTED = 10.0
"""by how much a mixture may differ from the last image, in any direction"""
RIDGE = 1e-10


@dataclass(frozen=True)
class Iteration:
    """The point to evaluate next `[D, D]`, the last points and their images, and how far the last step went."""

    point: FloatArray
    points: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))
    images: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))
    change: float = np.inf
    """greatest relative change of a variance, in any direction"""


def stepped(iteration: Iteration, image: FloatArray) -> Iteration:
    """Return the iteration after the `image` of its point `[D, D]`, positive definite."""
    before = np.linalg.inv(np.linalg.cholesky(iteration.point))
    change = float(np.abs(np.linalg.eigvalsh(before @ image @ before.T) - 1).max())
    if change > NEAR:
        return Iteration(image, change=change)
    points, images = (
        np.concatenate([old.reshape(-1, *image.shape), new[None]])[-MEMORY:]
        for old, new in ((iteration.points, iteration.point), (iteration.images, image))
    )
    return replace(iteration, point=_mixed(points, images), points=points, images=images, change=change)


def _mixed(points: FloatArray, images: FloatArray) -> FloatArray:
    """Return the mixture of `images` whose residuals cancel best, or the last image if that is too far from it."""
    last = images[-1]
    units = np.linalg.inv(np.linalg.cholesky(last))
    residuals = (units @ (images - points) @ units.T).reshape(len(points), -1)
    gram = residuals @ residuals.T
    gram += RIDGE * max(np.trace(gram), 1e-300) * np.eye(len(gram))
    shares = np.linalg.solve(gram, np.ones(len(gram)))
    mixed = np.tensordot(shares / shares.sum(), images, axes=1)
    within = np.linalg.eigvalsh(units @ mixed @ units.T)
    return np.asarray(mixed if within[0] > 1 / TRUSTED and within[-1] < TRUSTED else last)
