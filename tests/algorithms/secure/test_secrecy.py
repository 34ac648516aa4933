"""Properties that hide rows from the coordinator, and planted defects that show that each test works."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.secure import masks, messages, participant, recovery, secret_sharing
from fedbnsl.algorithms.secure.exchange import secure_sum
from fedbnsl.algorithms.secure.masks import Aborted, Refused, SecureSession
from fedbnsl.algorithms.secure.messages import Revealed
from tests.algorithms.secure.coalition import CoalitionView


def looks_uniform(vector) -> bool:
    counts = np.bincount(vector.view(np.uint8), minlength=256)
    by_place = [np.bincount(vector.view(np.uint8)[place::8], minlength=256) for place in range(8)]
    return all(stats.chisquare(count).pvalue > 1e-6 for count in (counts, *by_place))


def masked_by(silos, silo):
    return messages.read_vector(silos.said("mask")[silo], silo)


def sum_is_exact(lab) -> None:
    for ring in masks.RINGS:
        silos = lab.silos(lab.vectors(6, ring=ring), {"share": {"silo 00"}, "mask": {"silo 02"}})
        result = secure_sum(lab.session(6, 4), silos)
        assert result.total.tolist() == lab.exact_sum(silos.vectors, result.survivors)


def one_share_of_a_peer_is_revealed(lab) -> None:
    silos = lab.silos(lab.vectors(5), {"mask": {"silo 02"}})
    aborted = None
    try:
        secure_sum(lab.session(5, 3), silos)
    except Aborted as reason:
        aborted = reason
    for answer in silos.said("unmask").values():
        revealed = wire.decode(Revealed, answer)
        assert not set(revealed.self_masks) & set(revealed.escrow_keys)
    assert aborted is None


def one_set_of_survivors_is_answered(lab) -> None:
    """Two different answers would reveal both shares of a peer."""
    silos = lab.silos(lab.vectors(5))
    secure_sum(lab.session(5, 3), silos)
    for state in silos.states.values():
        try:
            participant.unmask(state, (*[s for s in state.session.silos if s != state.silo][:3], state.silo))
        except Refused:
            continue
        raise AssertionError(f"{state.silo} answered twice")


def masked_vectors_are_uniform(lab) -> None:
    for ring in masks.RINGS:
        silos = lab.silos({silo: np.zeros(20_000, ring) for silo in lab.names(3)})
        secure_sum(lab.session(3), silos)
        for silo in lab.names(3):
            assert looks_uniform(masked_by(silos, silo))


def sessions_are_unrelated(lab) -> None:
    """Masks and keys do not repeat in three sessions, even with the same vectors and the same entropy."""
    vectors = lab.vectors(3, 20_000)
    seen = []
    for round, attempt in ((1, 1), (2, 1), (1, 2)):
        silos = lab.silos(vectors)
        secure_sum(lab.session(3, round=round, attempt=attempt), silos)
        seen.append(silos)
    for i, one in enumerate(seen):
        for other in seen[:i]:
            for silo in lab.names(3):
                assert one.said("advertise")[silo][32:] != other.said("advertise")[silo][32:]
                assert looks_uniform(masked_by(one, silo) - masked_by(other, silo))
                assert abs(np.corrcoef(masked_by(one, silo) / 2**64, masked_by(other, silo) / 2**64)[0, 1]) < 0.05


def seals_hide_the_shares(lab) -> None:
    session, silos = up_to_phase_three(lab)
    seen = b"".join(question + answer for _, _, question, answer in silos.transcript)
    for receiver, state in silos.states.items():
        for sender in set(session.silos) - {receiver}:
            assert state.shares[sender][:33] not in seen
            assert state.shares[sender][33:] not in seen


def seals_have_a_direction(lab) -> None:
    """A message that a silo sealed for a peer and that is sent back to it is not accepted as the peer's message."""
    opened = {
        silo: participant.advertise(lab.session(3), silo, silo.encode().ljust(32), lab.key(silo))
        for silo in lab.names(3)
    }
    keys = {silo: packed for silo, (_, packed) in opened.items()}
    state, sealed = participant.share(opened["silo 00"][0], keys, lab.key("silo 00"))
    try:
        participant.mask(state, {peer: sealed[peer] for peer in keys if peer != "silo 00"}, np.zeros(1, np.uint64))
    except Refused:
        return
    raise AssertionError("a silo took its own shares for its peers'")


def up_to_phase_three(lab):
    session = lab.session(4)
    silos = lab.silos(lab.vectors(4), {"unmask": set(session.silos)})
    with pytest.raises(Aborted):
        secure_sum(session, silos)
    return session, silos


def late_vector_stays_hidden(lab) -> None:
    """If a vector arrives after its silo was declared lost, its pairwise masks are known, but its self-mask is not."""
    late, session = "silo 03", lab.session(4)

    class Late(lab.silos):
        def ask(self, phase, questions):
            answers = super().ask(phase, questions)
            return {silo: packed for silo, packed in answers.items() if (phase, silo) != ("mask", late)}

    silos = Late(lab.vectors(4))
    assert late not in secure_sum(session, silos).survivors
    answers = {silo: wire.decode(Revealed, packed) for silo, packed in silos.said("unmask").items()}
    key = secret_sharing.combine({session.point(silo): answer.escrow_keys[late] for silo, answer in answers.items()})
    vector = masked_by(silos, late)
    escrowed = recovery._escrowed(session, late, key, list(answers), silos.said("share")[late])
    for peer in answers:
        (masks.subtract if masks.adds_mask(late, peer) else masks.add)(vector, escrowed[peer])
    assert not np.any(vector == silos.vectors[late])


def too_few_silos_know_no_secret(lab) -> None:
    """The shares of t - 1 silos together do not determine either secret of another silo."""
    session, silos = up_to_phase_three(lab)
    victim, colluding = "silo 03", session.silos[: session.threshold - 1]
    public = messages.public_keys(silos.said("advertise")[victim], victim)
    for fewer in range(1, len(colluding) + 1):
        held = {session.point(silo): silos.states[silo].shares[victim] for silo in colluding[:fewer]}
        assert commitment_of({point: both[:33] for point, both in held.items()}, session, victim) != public.seed
        escrow = commitment_of({point: both[33:] for point, both in held.items()}, session, victim, "escrow")
        assert escrow != public.escrow


def commitment_of(shares, session, silo, purpose="self mask"):
    try:
        return masks.commitment(secret_sharing.combine(shares), session, silo, purpose)
    except ValueError:
        return None


def a_run_stays_hidden(lab) -> None:
    """Over a whole run, a coalition computes one sum of each exchange at most, and no other combination of vectors.

    Honest silos drop out at random; the coordinator declares silos lost that answered, and repeats sessions. Up to
    t - 1 silos give it all that they have; if it sends two lists of survivors, fewer than 2t - P. A mask that two
    exchanges share would cancel in their difference.
    """
    revealed = 0
    for case in range(24):
        rng = np.random.default_rng(case)
        n, two_lists = int(rng.integers(4, 8)), case % 3 == 2
        threshold = masks.default_threshold(n)
        colluders = int(rng.integers(0, 2 * threshold - n if two_lists else threshold))
        run = CoalitionView(lab, {str(silo) for silo in rng.choice(lab.names(n), colluders, replace=False)})
        for k in range(int(rng.integers(2, 5))):
            run.exchange(lab.session(n, threshold, round=1 + k // 2), rng, two_lists)
        known, sums = run.combinations(), run.revealed_sums()
        assert len(known) == len(sums) == len({min(summands)[0] for summands in run.sums}), case
        assert len(sums) == 0 or np.linalg.matrix_rank(np.vstack((known, sums)), tol=1e-9) == len(sums), case
        revealed += len(sums)
    assert revealed > 24


def transcript_holds_no_vector(lab) -> None:
    """The coordinator sees no entry of a vector, and subtracting a known self-mask reveals none."""
    session, silos = lab.session(4, 3), lab.silos(lab.vectors(4), {"mask": {"silo 01"}})
    secure_sum(session, silos)
    seen = b"".join(question + answer for *_, question, answer in silos.transcript)
    answers = {silo: wire.decode(Revealed, packed) for silo, packed in silos.said("unmask").items()}
    for silo, vector in silos.vectors.items():
        assert not any(entry.tobytes() in seen for entry in vector)
        if silo in silos.said("mask"):
            seed = secret_sharing.combine(
                {session.point(who): answer.self_masks[silo] for who, answer in answers.items()}
            )
            own = np.concatenate(list(masks.keystream(masks.self_key(seed, session, silo), len(vector))))
            assert not np.any(masked_by(silos, silo) - own == vector)


LAWS = (
    sum_is_exact,
    one_share_of_a_peer_is_revealed,
    one_set_of_survivors_is_answered,
    masked_vectors_are_uniform,
    sessions_are_unrelated,
    seals_hide_the_shares,
    seals_have_a_direction,
    late_vector_stays_hidden,
    too_few_silos_know_no_secret,
    transcript_holds_no_vector,
    a_run_stays_hidden,
)


@pytest.mark.parametrize("law", LAWS)
def test_it_holds_that(lab, law) -> None:
    law(lab)


def reveals_both_shares(patch) -> None:
    patch.setattr(
        participant,
        "reveal",
        lambda shares, survivors: Revealed(
            {peer: both[:33] for peer, both in shares.items()}, {peer: both[33:] for peer, both in shares.items()}
        ),
    )


def answers_any_survivors(patch) -> None:
    honest = participant.unmask
    patch.setattr(participant, "unmask", lambda state, survivors: (state, honest(state, survivors)[1]))


def one_silo_has_the_wrong_sign(patch) -> None:
    patch.setattr(masks, "adds_mask", lambda silo, peer: (silo < peer) != (silo == "silo 03"))


def the_pair_adds_on_both_sides(patch) -> None:
    patch.setattr(masks, "adds_mask", lambda silo, peer: True)


def keys_are_not_bound_to_the_session(patch) -> None:
    patch.setattr(SecureSession, "digest", b"always the same")


def keys_are_bound_to_the_round_but_not_to_the_attempt(patch) -> None:
    patch.setattr(SecureSession, "digest", property(lambda session: str((session.run, session.round)).encode()))


def the_polynomial_has_too_low_a_degree(patch) -> None:
    honest = secret_sharing.split
    patch.setattr(participant, "split", lambda secret, t, n, random: honest(secret, t - 1, n, random[:-64]))


def the_polynomial_is_constant(patch) -> None:
    patch.setattr(participant, "split", lambda secret, t, n, random: (b"\0" + secret,) * n)


def the_self_mask_is_missing(patch) -> None:
    no_mask_for(patch, "self_key")


def the_pairwise_masks_are_missing(patch) -> None:
    honest = masks.pair_keys
    patch.setattr(masks, "pair_keys", lambda *given: replace(honest(*given), mask=b"none" * 8))
    no_mask_for(patch)


def the_masks_of_a_pair_are_those_of_the_run(patch) -> None:
    honest = masks.pair_keys

    def pair_keys(key, session, silo, own, peer, theirs):
        return replace(honest(key, session, silo, own, peer, theirs), mask=key.agree(theirs[:32]))

    patch.setattr(masks, "pair_keys", pair_keys)


def the_masks_of_a_pair_are_bound_to_the_terms_alone(patch) -> None:
    honest = masks.pair_keys

    def pair_keys(key, session, silo, own, peer, theirs):
        return honest(key, session, silo, own[:32], peer, theirs[:32])

    patch.setattr(masks, "pair_keys", pair_keys)


def the_escrow_is_not_encrypted(patch) -> None:
    honest_seal, honest_unseal = participant.seal, participant.unseal
    patch.setattr(participant, "seal", lambda k, s, a, b, c: c if a == b else honest_seal(k, s, a, b, c))
    for side in (participant, recovery):
        patch.setattr(side, "unseal", lambda k, s, a, b, c: c if a == b else honest_unseal(k, s, a, b, c))


def no_mask_for(patch, name=None) -> None:
    honest = masks.keystream
    if name:
        patch.setattr(masks, name, lambda *_: b"none" * 8)

    def keystream(key, n, ring=masks.RINGS[-1]):
        return [np.zeros(n, ring)] if key == b"none" * 8 else honest(key, n, ring)

    patch.setattr(masks, "keystream", keystream)


def masks_have_half_the_bits(patch) -> None:
    honest = masks.keystream
    patch.setattr(masks, "keystream", lambda key, n, ring: (one >> (4 * one.itemsize) for one in honest(key, n, ring)))


def shares_are_not_sealed(patch) -> None:
    patch.setattr(participant, "seal", lambda key, session, sender, receiver, content: content)
    for side in (participant, recovery):
        patch.setattr(side, "unseal", lambda key, session, sender, receiver, sealed: sealed)


def seals_know_no_direction(patch) -> None:
    honest = masks.pair_keys

    def pair_keys(*given):
        keys = honest(*given)
        return replace(keys, sealing=keys.mask, unsealing=keys.mask)

    patch.setattr(masks, "pair_keys", pair_keys)
    patch.setattr(masks, "_bound_to", lambda session, sender, receiver: b"")


MUTANTS = [
    (reveals_both_shares, one_share_of_a_peer_is_revealed),
    (answers_any_survivors, one_set_of_survivors_is_answered),
    (one_silo_has_the_wrong_sign, sum_is_exact),
    (the_pair_adds_on_both_sides, sum_is_exact),
    (keys_are_not_bound_to_the_session, sessions_are_unrelated),
    (keys_are_bound_to_the_round_but_not_to_the_attempt, sessions_are_unrelated),
    (the_polynomial_has_too_low_a_degree, too_few_silos_know_no_secret),
    (the_polynomial_is_constant, too_few_silos_know_no_secret),
    (the_self_mask_is_missing, late_vector_stays_hidden),
    (the_pairwise_masks_are_missing, transcript_holds_no_vector),
    (masks_have_half_the_bits, masked_vectors_are_uniform),
    (shares_are_not_sealed, seals_hide_the_shares),
    (seals_know_no_direction, seals_have_a_direction),
    (the_masks_of_a_pair_are_those_of_the_run, a_run_stays_hidden),
    (the_masks_of_a_pair_are_bound_to_the_terms_alone, a_run_stays_hidden),
    (the_escrow_is_not_encrypted, a_run_stays_hidden),
]


@pytest.mark.parametrize(("mutant", "law"), MUTANTS)
def test_the_law_finds_the_defect(lab, monkeypatch, mutant, law) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        law(lab)


def test_the_coordinator_too_refuses_both_shares_of_a_peer(lab, monkeypatch) -> None:
    reveals_both_shares(monkeypatch)
    with pytest.raises(Aborted, match="silo 00 revealed other shares than requested"):
        secure_sum(lab.session(3), lab.silos(lab.vectors(3)))
