"""Summands: one description packs them, marks positions that can be nonzero, and unpacks their sum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.secure import masks
from fedbnsl.algorithms.statistics.moments import to_multiples
from fedbnsl.algorithms.statistics.packing import Block, Packing, packing

SHAPES = st.lists(st.sampled_from([(), (0,), (1,), (3,), (2, 2), (2, 3)]), min_size=1, max_size=5)


def drawn(one: Packing, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = {block.name: rng.normal(size=block.shape) for block in one.blocks}
    return {
        block.name: arrays[block.name] + arrays[block.name].T if block.symmetric else arrays[block.name]
        for block in one.blocks
    }


@given(SHAPES, st.integers(0, 99))
def test_a_sum_of_packed_arrays_unpacks_to_the_sums_of_the_arrays(shapes, seed):
    one = Packing(tuple(Block(f"a{k}", shape, shape == (2, 2)) for k, shape in enumerate(shapes)))
    mine, yours = drawn(one, seed), drawn(one, seed + 1)
    packed = one.pack(**mine) + one.pack(**yours)
    assert packed.shape == (one.length,)
    for name, total in one.unpack(packed).items():
        np.testing.assert_array_equal(total, mine[name] + yours[name])


def test_arrays_follow_each_other_in_the_order_of_the_description():
    one = packing(change=(2, 2), gap=(), moves=2)
    np.testing.assert_array_equal(one.pack(change=[[1, 2], [3, 4]], gap=5, moves=[6, 7]), np.arange(1, 8))


def test_what_is_not_given_is_zero():
    assert not packing(scale=3, gap=()).pack(gap=0.0).any()


@given(st.integers(0, 99))
def test_what_is_sent_sparsely_comes_back_whole(seed):
    """The sum goes through the ring as with masks; entries that are known to be zero are not sent."""
    rng = np.random.default_rng(seed)
    free = rng.random((3, 3)) < 0.5
    one = packing(change=(3, 3), scale=3, gap=())
    sparse = one.sparse(change=free, gap=True)
    arrays = {"change": np.where(free, rng.normal(size=(3, 3)), 0.0), "gap": rng.normal()}
    sent = masks.gather(one.pack(**arrays), sparse.positions)
    assert len(sent) == free.sum() + 1
    whole = one.unpack(masks.scatter(sent, sparse.positions, sparse.length))
    np.testing.assert_array_equal(whole["change"], arrays["change"])
    np.testing.assert_array_equal(whole["gap"], arrays["gap"])
    assert not whole["scale"].any()


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"chang": np.zeros((2, 2))}, "there is no block chang"),
        ({"gap": [1.0]}, r"gap has the shape \(1,\), not \(\)"),
    ],
)
def test_another_name_or_shape_is_a_mistake(arrays, said):
    with pytest.raises(ValueError, match=said):
        packing(change=(2, 2), gap=()).pack(**arrays)


def test_a_vector_of_another_length_is_a_mistake():
    with pytest.raises(ValueError, match="a vector of 3 numbers, not of 4"):
        packing(change=(2, 2)).unpack(np.zeros(3))


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20), st.sampled_from([20, 32]))
def test_numbers_on_a_grid_add_up_exactly_in_any_order(values, bits):
    rounded = to_multiples(np.array(values), bits)
    assert np.abs(rounded - values).max() <= 2.0 ** -(bits + 1)
    assert sum(rounded) == sum(rounded[::-1]) == float(np.sum(rounded))
