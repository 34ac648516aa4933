"""What a silo minimises: its own loss, plus what draws its parameters towards the consensus.

Consensus ADMM needs no more of a silo's rows than a `Problem` that can be solved, and no more of a model than to know
which graph its parameters stand for. So other models than the linear one fit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from ..statistics.moments import SecondMoments, products


@dataclass(frozen=True)
class Pull:
    """⟨linear, B⟩ + ½Σ r_i B_ij² + Σ λ_i|B_ij| over the `allowed` entries of B, and where to start from."""

    linear: FloatArray
    r: FloatArray
    l1: FloatArray
    allowed: NDArray[np.bool_]
    start: FloatArray


class Problem(Protocol):
    """A silo's part of the objective: made of its rows, which it keeps to itself."""

    def solve(self, pull: Pull) -> FloatArray:
        """Return the parameters that minimise this silo's loss plus `pull`, or come near enough to it."""
        ...


class Model(Protocol):
    """What is learned: its parameters are an array of one shape, which silos and server pass to and fro."""

    def problem(self, table: FloatArray, schema: Schema) -> Problem:
        """Return the problem of the silo whose rows are `table` `[n_rows, d]`."""
        ...

    def to_adjacency(self, parameters: FloatArray) -> FloatArray:
        """Return the weighted graph `[d, d]` that `parameters` stand for: on it h acts, and it is what is learned."""
        ...


@dataclass(frozen=True)
class Lasso(Pull):
    """The linear silo's problem in one round: ½tr((I − B)ᵀS(I − B)) plus the pull."""

    S: FloatArray


LassoSolver = Callable[[Lasso], FloatArray]
"""minimises a lasso, exactly or as far as its steps go, over the allowed entries: B `[d, d]`"""
MomentsOf = Callable[[FloatArray, Schema], SecondMoments]
"""(table, schema) -> what a linear problem knows of the table"""


@dataclass(frozen=True)
class LinearProblem:
    """A linear structural equation model: its parameters are the weights B `[d, d]` themselves."""

    moments: SecondMoments
    solver: LassoSolver

    def solve(self, pull: Pull) -> FloatArray:
        """Return B for this round's `pull` (see `Problem`)."""
        return self.solver(Lasso(pull.linear, pull.r, pull.l1, pull.allowed, pull.start, self.moments.S))

    @property
    def invertible(self) -> FloatArray:
        """S with (d/n_p)² of its own diagonal on top: nothing where rows are many, invertible where they are few."""
        S = self.moments.S
        return np.asarray(S + (len(S) / self.moments.rows) ** 2 * np.diag(np.diag(S)))


@dataclass(frozen=True)
class LinearModel:
    """Linear structural equation models, whose silos solve their lasso with `solver`."""

    solver: LassoSolver
    moments_of: MomentsOf

    def problem(self, table: FloatArray, schema: Schema) -> LinearProblem:
        """Return the problem of the silo whose rows are `table` (see `Model`)."""
        return LinearProblem(self.moments_of(table, schema), self.solver)

    def to_adjacency(self, parameters: FloatArray) -> FloatArray:
        """Return the weights, which are the graph."""
        return parameters


def weighted_moments(table: FloatArray, schema: Schema, center: bool) -> SecondMoments:
    """Return XᵀX of the rows in `table` `[n_rows, d]` over the silos' mean number of rows.

    Weighted like this, every row of the federation counts the same.
    """
    mean_rows = sum(schema.rows.values()) / len(schema.rows)
    return SecondMoments(products(table, center=center) / mean_rows, len(table))
