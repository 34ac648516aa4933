"""Anderson acceleration of a fixed-point iteration over covariances (Walker, Ni 2011), such as EM.

The iteration F maps a point S to its image F(S). Plain EM continues from the image, and needs two to ten times as
many steps. Here the next point is a mixture of the last images. Its weights minimise the mixture of the residuals
F(S) − S. Residuals are measured in the units of the last image: L⁻¹ (F(S) − S) L⁻ᵀ with F(S) = L Lᵀ for the last S.
So the scales of columns and collinearity have no influence. If the mixture is not a covariance close to the last
image, the step is plain. Steps are also plain far from the fixed point, where mixtures are unreliable: until a step
changes the variance in every direction by at most `RESTART_CHANGE`.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from ..core.schema import FloatArray

MIXTURE_SIZE = 4
"""number of points in a mixture"""
RESTART_CHANGE = 0.3
"""mixtures are used if the last step changed no variance, in any direction, by a larger share"""
FIXED_POINT_CHANGE = 1e-12
"""maximum relative change of a variance at a fixed point; without empty cells, the first step reaches it"""
MAX_MIXTURE_FACTOR = 10.0
"""maximum ratio of variances between a mixture and the last image, in any direction"""
RIDGE = 1e-10
"""ridge on the products of residuals, as a share of their trace, for residuals that are linearly dependent"""


@dataclass(frozen=True)
class Iteration:
    """The next point to evaluate `[D, D]`, the last points and their images, and the change of the last step."""

    point: FloatArray
    points: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))
    images: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))
    change: float = np.inf
    """the greatest relative change of a variance in the last step, in any direction"""


def anderson_step(iteration: Iteration, image: FloatArray) -> Iteration:
    """The iteration after a step, from the `image` `[D, D]` of its point; the image must be positive definite."""
    before = np.linalg.inv(np.linalg.cholesky(iteration.point))
    change = float(np.abs(np.linalg.eigvalsh(before @ image @ before.T) - 1).max())
    if not FIXED_POINT_CHANGE < change <= RESTART_CHANGE:
        return Iteration(image, change=change)
    points, images = (
        np.concatenate([old.reshape(-1, *image.shape), new[None]])[-MIXTURE_SIZE:]
        for old, new in ((iteration.points, iteration.point), (iteration.images, image))
    )
    return replace(iteration, point=_mixture(points, images), points=points, images=images, change=change)


def _mixture(points: FloatArray, images: FloatArray) -> FloatArray:
    """The mixture of `images` whose residuals cancel best, or the last image if the mixture is too far from it."""
    last = images[-1]
    units = np.linalg.inv(np.linalg.cholesky(last))
    residuals = (units @ (images - points) @ units.T).reshape(len(points), -1)
    gram = residuals @ residuals.T
    gram += RIDGE * max(np.trace(gram), 1e-300) * np.eye(len(gram))
    shares = np.linalg.solve(gram, np.ones(len(gram)))
    mixture = np.tensordot(shares / shares.sum(), images, axes=1)
    ratios = np.linalg.eigvalsh(units @ mixture @ units.T)
    return np.asarray(mixture if ratios[0] > 1 / MAX_MIXTURE_FACTOR and ratios[-1] < MAX_MIXTURE_FACTOR else last)
