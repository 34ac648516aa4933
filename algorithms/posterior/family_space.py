"""The families that a sampled graph may have, with their scores in tables that the sampler looks up.

The parents of a variable are a subset of its candidates and at most one further variable (Kuipers, Suter & Moffa 2022,
"Efficient sampling and structure learning of Bayesian networks", §4.2). So the families of a variable are numbered by a
mask, which has a bit for each candidate, and a slot: slot 0 has no further variable, and slot s the s-th one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.schema import FloatArray
from ..errors import BadInput

MAX_CANDIDATES = 10
"""maximum number of candidate parents of a variable"""
MAX_FAMILIES = 1 << 23
"""maximum number of families of all variables together, 64 MB of scores"""
NOBODY = -1
"""the padding of lists of variables, and the bit of a variable that is no candidate"""


@dataclass(frozen=True)
class FamilySpace:
    """The candidates and further parents of d variables."""

    candidates: NDArray[np.int64]
    """the candidates of each variable, `[d, k]`, padded with -1"""
    outside: NDArray[np.int64]
    """the further variables that may be a parent of each variable, `[d, m]`, padded with -1"""
    bit: NDArray[np.int64]
    """the bit of candidate u in the masks of v, `[v, u]`; -1 if u is no candidate of v"""
    slot: NDArray[np.int64]
    """the slot of a further variable u of v, `[v, u]`; 0 if u is none"""

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of a table of all families: variables, masks, slots."""
        d, k = self.candidates.shape
        return d, 1 << k, 1 + self.outside.shape[1]

    def parents(self, child: int, mask: int, slot: int) -> tuple[int, ...]:
        """The parents in a family of `child`, ascending; empty for a family that does not exist."""
        members = [int(u) for at, u in enumerate(self.candidates[child]) if mask >> at & 1]
        members += [int(self.outside[child, slot - 1])] if slot else []
        return () if NOBODY in members else tuple(sorted(members))

    def small_families(self, max_candidates: int) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
        """Child, mask, slot and parents of every family with at most this number of candidates."""
        d, masks, slots = self.shape
        for child in range(d):
            for mask in range(masks):
                if mask.bit_count() > max_candidates:
                    continue
                for slot in range(slots):
                    parents = self.parents(child, mask, slot)
                    if len(parents) == mask.bit_count() + (slot > 0):
                        yield child, mask, slot, parents


def family_space(
    neighbours: NDArray[np.bool_], strength: FloatArray, prior: Prior, max_candidates: int = MAX_CANDIDATES
) -> FamilySpace:
    """The candidates of each variable: required parents, `neighbours` `[d, d]`, then the greatest `strength` `[d, d]`.

    `neighbours` has the pairs that a search joined; `strength[u, v]` is how strongly v depends on u alone. Parents that
    background knowledge excludes are left out. There are fewer than `max_candidates` candidates if the table of all
    families would be too large.
    """
    d = len(neighbours)
    width = min(max_candidates, d - 1)
    while width > 1 and d * (d - width) << width > MAX_FAMILIES:
        width -= 1
    candidates = np.full((d, width), NOBODY)
    outside = np.full((d, d - 1 - width), NOBODY)
    bit, slot = np.full((d, d), NOBODY), np.zeros((d, d), np.int64)
    for v in range(d):
        possible = prior.possible[:, v] & (np.arange(d) != v)
        rank = np.lexsort((-strength[:, v], ~neighbours[:, v], ~prior.required[:, v]))
        ranked = [int(u) for u in rank if possible[u]]
        own, others = sorted(ranked[:width]), sorted(ranked[width:])
        candidates[v, : len(own)], outside[v, : len(others)] = own, others
        bit[v, own], slot[v, others] = np.arange(len(own)), 1 + np.arange(len(others))
    return FamilySpace(candidates, outside, bit, slot)


def structure_prices(d: int) -> FloatArray:
    """The logarithm of the prior of one family, by its number of parents, `[d]`: −ln C(d − 1, p).

    All numbers of parents are equally probable before the data, and so are all families with the same number (Friedman
    & Koller 2003, §2.2). A uniform prior over graphs would expect half of all pairs to be joined.
    """
    return np.array([-math.log(math.comb(d - 1, p)) for p in range(d)])


def with_prior(scores: FloatArray, space: FamilySpace, prior: Prior) -> FloatArray:
    """The `scores` of all families with −∞ for those that do not exist, or lack a parent that `prior` requires.

    Raises `BadInput` if a variable has no family left, because more parents are required than a family may have.
    """
    allowed = scores.copy()
    masks = np.arange(space.shape[1])
    for v in range(len(allowed)):
        missing = space.candidates[v] == NOBODY
        allowed[v, (masks[:, None] >> np.flatnonzero(missing) & 1).any(axis=1)] = -np.inf
        allowed[v, :, 1:][:, space.outside[v] == NOBODY] = -np.inf
        for u in np.flatnonzero(prior.required[:, v]):
            without = (masks >> space.bit[v, u] & 1) == 0 if space.bit[v, u] >= 0 else np.ones(len(masks), np.bool_)
            kept = allowed[v, without, space.slot[v, u]].copy()
            allowed[v, without] = -np.inf
            if space.slot[v, u]:
                allowed[v, without, space.slot[v, u]] = kept
        if not np.isfinite(allowed[v]).any():
            required = int(prior.required[:, v].sum())
            raise BadInput(
                f"background knowledge requires {required} parents of one variable, too many for a posterior"
            )
    return allowed
