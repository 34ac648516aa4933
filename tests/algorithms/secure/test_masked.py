"""What a silo adds to a sum must leave room for all the others', and its two keys are two."""

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.moments.summed import Reply
from fedbnsl.algorithms.secure import participant
from fedbnsl.algorithms.secure.masked import to_ring
from fedbnsl.algorithms.secure.masks import SecureSession
from fedbnsl.algorithms.secure.messages import public_keys


class TestRange:
    @pytest.mark.parametrize(("epsilon", "value"), [(0.0, 2.0**30), (1.0, 2**62)])
    def test_is_that_of_one_summand_among_all(self, epsilon, value):
        """Fixed-point numbers reach 2³¹ in all, whole numbers 2⁶³: half of that is too much for each of three."""
        algorithm = registry.build(registry.specify("secure-sum", {"epsilon": epsilon} if epsilon else {}))
        reply = Reply(np.array([value], np.int64 if epsilon else np.float64))
        assert len(to_ring(algorithm, reply, None, 1)) == 1
        with pytest.raises(BadInput, match="so that a sum of 3 cannot overflow"):
            to_ring(algorithm, reply, None, 3)


class TestKeys:
    def test_sealing_and_masking_have_one_each(self):
        """What is revealed of one after a drop-out, the shares of the mask key, must not open what was sealed."""
        session = SecureSession("run", 1, 1, ("a", "b", "c"), 2)
        _, answer = participant.advertise(session, "a", bytes(range(32)))
        keys = public_keys(answer, "a")
        assert keys.cipher != keys.mask
        assert len({keys.cipher, keys.mask, keys.commitment}) == 3
