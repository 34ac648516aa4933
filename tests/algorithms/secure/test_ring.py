from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure import masks


@given(st.data(), st.integers(1, 64), st.integers(0, 62))
def test_a_sum_of_encoded_floats_is_off_by_half_a_step_a_summand(data: st.DataObject, silos: int, bits: int) -> None:
    most = np.nextafter(2.0 ** (63 - bits) / silos, 0)
    values = data.draw(arrays(np.float64, (silos, 3), elements=st.floats(-most, most)))
    total = sum(masks.encode_fixed(row, silos, bits).astype(object) for row in values) % 2**64
    decoded = masks.decode_fixed(np.array(total, dtype=np.uint64), bits)
    for column, found in zip(values.T, decoded, strict=True):
        exact = sum(map(Fraction, column))
        rounding = Fraction(2) ** -(bits + 1)
        assert abs(Fraction(found) - exact) <= silos * rounding + abs(Fraction(found)) * Fraction(2) ** -53


@given(st.data(), st.integers(1, 64))
def test_a_sum_of_encoded_integers_is_exact_up_to_the_limit(data: st.DataObject, silos: int) -> None:
    most = (2**63 - 1) // silos
    values = data.draw(arrays(np.int64, (silos, 3), elements=st.integers(-most, most)))
    total = np.zeros(3, np.uint64)
    for row in values:
        total += masks.encode_integers(row, silos)
    assert masks.decode_integers(total).tolist() == values.astype(object).sum(axis=0).tolist()


@given(st.data(), st.integers(1, 6), st.sampled_from([255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**53]))
def test_a_sum_of_counts_is_exact_up_to_its_bound(data: st.DataObject, silos: int, greatest: int) -> None:
    """The sum of counts of any type reaches the bound; the ring is the smallest that holds it."""
    kind = data.draw(st.sampled_from([np.float64, np.int64, np.uint64]))
    most = greatest // silos
    values = data.draw(arrays(np.int64, (silos, 3), elements=st.integers(0, most))).astype(kind)
    values[:, 0] = most
    values[0, 0] += greatest - silos * most
    encoded = [masks.encode_counts(row, greatest) for row in values]
    total = sum(encoded[1:], encoded[0])
    assert total.dtype == np.min_scalar_type(greatest)
    assert masks.decode_integers(total).tolist() == values.astype(object).sum(axis=0).tolist()


@pytest.mark.parametrize("value", [-1.0, 256.0, np.nan, np.inf])
def test_what_is_no_count_is_named_and_not_shown(value: float) -> None:
    with pytest.raises(BadInput, match=r"entry 1 is out of range: a count must be from 0 to 255$"):
        masks.encode_counts(np.array([3.0, value]), 255)


@pytest.mark.parametrize("silos", [1, 2, 3, 7, 8, 33, 63, 64])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_first_float_too_large_for_so_many_summands_is_refused(silos: int, sign: int) -> None:
    limit = 2.0**63 / silos
    largest = np.nextafter(limit, 0)
    assert int(largest) * silos < 2**63 <= int(np.nextafter(limit, np.inf)) * silos
    assert masks.decode_fixed(masks.encode_fixed(np.array([sign * largest]), silos, 0), 0) == sign * largest
    for value in (limit, np.nextafter(limit, np.inf)):
        with pytest.raises(BadInput, match="entry 1 is out of range"):
            masks.encode_fixed(np.array([0.0, sign * value]), silos, 0)


@pytest.mark.parametrize("silos", [1, 2, 3, 7, 8, 33, 63, 64])
def test_the_first_integer_too_large_for_so_many_summands_is_refused(silos: int) -> None:
    most = (2**63 - 1) // silos
    masks.encode_integers(np.array([most, -most]), silos)
    for value in [most + 1] * (silos > 1) + [-most - 1]:
        with pytest.raises(BadInput, match=f"out of range: its absolute value must be at most {most}, .* {silos} c"):
            masks.encode_integers(np.array([value]), silos)
    with pytest.raises(BadInput, match="entry 0 is out of range"):
        masks.encode_integers(np.array([2**64 - 1], dtype=np.uint64), silos)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e19])
def test_what_is_no_number_of_the_range_is_named_by_its_label_and_not_by_its_value(value: float) -> None:
    """The message reaches the coordinator, which must not learn the value."""
    with pytest.raises(BadInput) as refusal:
        masks.encode_fixed(np.array([0.0, 1.0, value]), 8, labels=["a", "b", "Raf→Mek"])
    assert str(refusal.value) == (
        "entry 2 (Raf→Mek) is out of range: its absolute value must be below 2.68435e+08, "
        "so that a sum of 8 cannot overflow"
    )


def test_numbers_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(TypeError, match="float64"):
        masks.encode_integers(np.array([1.5]), 2)
    with pytest.raises(BadInput, match="fraction_bits is 63"):
        masks.encode_fixed(np.zeros(1), 2, 63)
    with pytest.raises(BadInput, match="summands is 0"):
        masks.encode_fixed(np.zeros(1), 0)


@given(st.integers(1, 40), st.integers(0, 10_000))
def test_gathering_and_scattering_on_public_positions_are_inverse(length: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    positions = np.flatnonzero(rng.random(length) < 0.5)
    dense = np.zeros(length)
    dense[positions] = rng.normal(size=len(positions))
    sent = masks.gather(dense, positions)
    assert len(sent) == len(positions)
    np.testing.assert_array_equal(masks.scatter(sent, positions, length), dense)


@pytest.mark.parametrize("value", [0.0, 0.5, -1e-300, np.nan])
def test_an_entry_outside_the_public_positions_decides_nothing(value: float) -> None:
    """Otherwise a coordinator could ask position by position where a silo has a 0."""
    np.testing.assert_array_equal(masks.gather(np.array([1.0, 0.0, value, 2.0]), np.array([0, 3])), [1.0, 2.0])


@pytest.mark.parametrize("positions", [[1, 1], [2, 1], [-1, 0], [0, 4]])
def test_positions_must_be_rising_and_within_the_vector(positions: list[int]) -> None:
    with pytest.raises(BadInput, match="increase, from 0 or more to below 4"):
        masks.gather(np.zeros(4), np.array(positions))
    with pytest.raises(BadInput, match="increase"):
        masks.scatter(np.zeros(2), np.array(positions), 4)


def test_as_many_entries_as_positions() -> None:
    with pytest.raises(BadInput, match="3 entries were sent for 2"):
        masks.scatter(np.zeros(3), np.array([0, 1]), 4)
