"""Families and classes under background knowledge."""

import numpy as np

from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.score.discrete import EXCLUDED_SCORE
from fedbnsl.algorithms.score.families import Batch
from fedbnsl.algorithms.score.knowledge_constraints import (
    MISSING_PARENT_COST,
    apply_knowledge,
    consistent_member,
    drop_impossible,
)

NAMES = ("a", "b", "c")
PRIOR = Knowledge((("a", "b"),), (("c", "b"),)).prior(NAMES)
# b alone, b given a, b given a and c, c given b
BATCH = Batch(np.array([0, 1, 3, 6, 8]), np.array([1, 1, 0, 1, 0, 2, 2, 1], np.uint16))


def test_nobody_is_asked_about_a_family_with_an_impossible_parent():
    asked = drop_impossible(BATCH, PRIOR)
    # c -> b is forbidden, and so b given a and c is asked for as b alone.
    assert [(asked.family(m)[0], asked.family(m)[1].tolist()) for m in range(4)] == [
        (1, []),
        (1, [0]),
        (1, []),
        (2, [1]),
    ]


def test_a_lacking_required_parent_costs_more_than_any_fit_gains():
    scores = apply_knowledge(np.array([-1.0, -2.0, -3.0, -4.0]), BATCH, PRIOR)
    assert scores.tolist() == [-1.0 - MISSING_PARENT_COST, -2.0, EXCLUDED_SCORE, -4.0]


def test_the_member_of_a_class_is_one_that_agrees_and_there_may_be_none():
    line = np.zeros((3, 3), bool)
    line[0, 1] = line[1, 0] = True
    assert np.argwhere(consistent_member(line, PRIOR)).tolist() == [[0, 1]]
    collider = line.copy()
    collider[1, 0] = False
    collider[2, 1] = True
    assert consistent_member(collider, PRIOR) is None
