"""Secure sums of many silos: the sum, what a coalition learns over a run, and what a silo refuses."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure import masks, sparse
from fedbnsl.algorithms.secure.exchange import answer, secure_sum
from fedbnsl.algorithms.secure.masks import Aborted, Refused, RunKey, SecureSession, default_threshold, mask_threshold


def session_of(silos, threshold: int, attempt: int = 1, round: int = 1) -> SecureSession:
    return SecureSession("run", round, attempt, tuple(silos), threshold)


def test_the_sum_is_exact_and_every_silo_sends_it_masked(lab) -> None:
    silos = lab.silos(lab.vectors(40))
    found = secure_sum(session_of(lab.names(40), mask_threshold(40)), silos)
    assert found.total.tolist() == lab.exact_sum(silos.vectors, lab.names(40))
    assert found.survivors == lab.names(40)
    assert [phase for phase, *_ in silos.transcript[::40]] == ["advertise", "mask", "unmask"]
    for silo, masked in silos.said("mask").items():
        assert not np.any(wire.decode(np.ndarray, masked) == silos.vectors[silo])


def test_the_names_of_many_silos_cost_little(lab) -> None:
    """Sent to each silo in every phase, they would be over half of the bytes."""
    names = [f"hospital of the university of town {k:02}" for k in range(100)]
    silos = lab.silos(dict(zip(names, lab.vectors(100).values(), strict=True)))
    found = secure_sum(session_of(names, mask_threshold(100)), silos)
    assert found.bytes_down / 100 < mask_threshold(100) * (sparse.ADVERTISED_BYTES + 8) + 1000


@pytest.mark.parametrize("phase", ["advertise", "mask", "unmask"])
def test_a_silo_that_falls_silent_ends_the_sum(lab, phase) -> None:
    silos = lab.silos(lab.vectors(16), {phase: {"silo 05"}})
    wanted = sparse.SumLost if phase == "unmask" else Aborted
    with pytest.raises(wanted, match=f"phase {phase}: 15 of 16 silos answered, all have to .silent: silo 05") as found:
        secure_sum(session_of(lab.names(16), 6), silos)
    assert isinstance(found.value, sparse.SumLost) == (phase == "unmask")


@pytest.mark.parametrize("silos", [33, 34, 35, 64, 100, 255, 256])
def test_more_than_a_quarter_may_collude_and_the_graph_stays_connected(lab, silos) -> None:
    k = mask_threshold(silos)
    assert (k - 1) / silos > 0.25
    for present in (silos, default_threshold(silos)):
        session = session_of((f"silo {i:03}" for i in range(present)), k)
        assert session.sparse
        assert session.required == present
        graph = {silo: sparse.neighbours(session, silo) for silo in session.silos}
        assert all(len(near) == k and silo not in near for silo, near in graph.items())
        assert all(silo in graph[peer] for silo, near in graph.items() for peer in near)
        # The least cuts of a Harary graph are two runs of k/2 silos: any k - 1 of them do not cut it.
        ring = session.silos
        for other in range(1, present):
            cut = {ring[(start + i) % present] for start in (0, other) for i in range(k // 2)}
            kept = sorted(cut)[:-1]
            assert len(components(set(ring) - set(kept[: k - 1]), graph)) == 1


def test_up_to_32_silos_all_share_masks_with_all() -> None:
    for silos in range(2, 33):
        assert mask_threshold(silos) == default_threshold(silos)
        assert not session_of((f"{i:02}" for i in range(silos)), mask_threshold(silos)).sparse


@pytest.mark.parametrize(("silos", "threshold"), [(11, 4), (12, 5), (12, 2), (16, 4), (40, 8)])
def test_a_graph_with_too_few_neighbours_is_refused(silos, threshold) -> None:
    with pytest.raises(BadInput, match="the threshold of a secure sum"):
        session_of((f"{i:02}" for i in range(silos)), threshold)


def components(silos, graph):
    """The connected components of `graph` among `silos`."""
    left, found = set(silos), []
    while left:
        reached = frontier = {min(left)}
        while frontier:
            frontier = {peer for silo in frontier for peer in graph[silo] if peer in silos} - reached
            reached = reached | frontier
        found.append(frozenset(reached))
        left -= reached
    return found


class Run:
    """A run with a lying coordinator and the silos `corrupt`, and the equations that the coordinator receives.

    Each masked vector of an honest silo is one row: its own vector, and the masks whose keys the coalition cannot
    derive. What it can compute are the combinations of rows in which no such mask is left.
    """

    def __init__(self, names, corrupt) -> None:
        self.keys = {silo: RunKey(hashlib.sha256(f"run key of {silo}".encode()).digest()) for silo in names}
        self.corrupt, self.rows, self.known, self.closed = set(corrupt), [], set(), {}
        self.states = {}

    def attempt(self, round, sessions, rng) -> None:
        """The coordinator sends each silo one of `sessions`, forwards messages, and withholds some answers."""
        chosen = {silo: sessions[rng.integers(len(sessions))] for silo in self.keys}
        chosen = {silo: session for silo, session in chosen.items() if silo in session.silos}
        said = {}
        for silo, session in chosen.items():
            self.states[silo], said[silo] = answer(
                None, "advertise", wire.encode(session), silo=silo, key=self.keys[silo], entropy=rng.bytes(32)
            )
        for silo, session in chosen.items():
            near = sparse.neighbours(session, silo)
            if set(near) - set(said) or (rng.random() < 0.05):
                continue  # an honest silo refuses fewer keys, as `test_a_silo_refuses` shows
            keys = {peer: said[peer] for peer in near}
            before = self.states[silo]
            self.states[silo], _ = answer(
                before,
                "mask",
                wire.encode(tuple(keys.values())),
                silo=silo,
                key=self.keys[silo],
                vector=lambda: np.zeros(1, np.uint64),
            )
            if silo in self.corrupt:
                continue
            seed = sparse._seed(before)
            own = masks.self_key(seed, session, silo)
            row = {own: 1}
            for peer in near:
                shared = masks.mask_key(self.keys[silo], session, silo, said[silo], peer, said[peer])
                row[shared] = 1 if masks.adds_mask(silo, peer) else -1
                if peer in self.corrupt:
                    self.known.add(shared)
            self.rows.append((round, silo, row))
            # A silo's journal answers for one set of silos in a round (`tasks/silo/secure_sums.py`).
            if rng.random() < 0.9 and self.closed.setdefault((round, silo), session.silos) == session.silos:
                self.states[silo], revealed = answer(
                    self.states[silo], "unmask", wire.encode(session.silos), silo=silo, key=self.keys[silo]
                )
                found = wire.decode(dict, revealed)[silo]
                self.known.add(masks.self_key(found, session, silo))

    def learned(self) -> tuple[np.ndarray, list[tuple[int, str]]]:
        """A basis of what the coalition computes, as combinations of the vectors of honest silos by round."""
        unknown = sorted({key for *_, row in self.rows for key in row} - self.known)
        vectors = sorted({(round, silo) for round, silo, _ in self.rows})
        matrix = np.array([[row.get(key, 0) for key in unknown] for *_, row in self.rows], float)
        left, values, _ = np.linalg.svd(matrix) if matrix.size else (np.eye(len(self.rows)), np.zeros(0), 0)
        free = left[:, (values > 1e-9).sum() :].T
        to_vector = np.array([[float((round, silo) == one) for one in vectors] for round, silo, _ in self.rows])
        return free @ to_vector, vectors


def case(seed: int) -> tuple[int, int]:
    """The sums that are learned over a random run, and the dimension of everything that is learned."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(14, 20))
    k = int(rng.choice([even for even in range(2, n // 2) if even % 2 == 0 and 2 * even <= n - 2 and n < 4 * even]))
    names = [f"silo {i:02}" for i in range(n)]
    start = int(rng.integers(n))
    together = [names[(start + i + (n // 2 if i % 2 else 0)) % n] for i in range(n)]
    corrupt = rng.permutation(names)[: k - 1] if rng.random() < 0.5 else together[: k - 1]
    run = Run(names, map(str, corrupt))
    for round in (1, 2):
        for attempt in range(int(rng.integers(1, 4))):
            lost = rng.permutation(names)[:2]
            sets = [names, [one for one in names if one not in lost]]
            split = int(rng.integers(1, 3))
            sessions = [session_of(one, k, attempt, round) for one in sets[:split]]
            run.attempt(round, sessions if rng.random() < 0.7 else sessions[-1:], rng)
    basis, vectors = run.learned()
    dimension = int(np.linalg.matrix_rank(basis, tol=1e-9)) if basis.size else 0
    sums = []
    for round in {one for one, _ in vectors}:
        for silos in {closed for (one, _), closed in run.closed.items() if one == round}:
            honest = set(silos) - run.corrupt
            row = np.array([float(one == round and silo in honest) for one, silo in vectors])
            grown = np.linalg.matrix_rank(np.vstack((basis, row)), tol=1e-9) if basis.size else 1
            sums += [row] if grown == dimension and row.sum() == len(honest) else []
    return len(sums), dimension


def a_coalition_learns_sums_only() -> None:
    learned = 0
    for seed in range(40):
        sums, dimension = case(seed)
        assert sums == dimension, seed
        assert sums <= 2, seed
        learned += sums
    assert learned > 5


def test_a_coalition_of_fewer_than_k_learns_one_sum_a_round_and_nothing_else_over_a_run() -> None:
    a_coalition_learns_sums_only()


def fewer_neighbours(patch) -> None:
    honest = sparse.neighbours
    patch.setattr(sparse, "neighbours", lambda session, silo: honest(replace(session, threshold=2), silo))
    patch.setattr(SecureSession, "__post_init__", lambda self: None)


def masks_of_the_run(patch) -> None:
    patch.setattr(masks, "mask_key", lambda key, session, silo, own, peer, theirs: key.agree(theirs[:32]))


@pytest.mark.parametrize("defect", [fewer_neighbours, masks_of_the_run])
def test_the_law_finds_the_defect(monkeypatch, defect) -> None:
    defect(monkeypatch)
    with pytest.raises(AssertionError):
        a_coalition_learns_sums_only()


def opened(lab, n=16, k=6):
    session = session_of(lab.names(n), k)
    found = {
        silo: answer(
            None, "advertise", wire.encode(session), silo=silo, key=lab.key(silo), entropy=silo.ljust(32).encode()
        )
        for silo in session.silos
    }
    return session, found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda keys: dict(list(keys.items())[:-1]), "the keys of its 6 neighbours and no others"),
        (lambda keys: {**keys, "silo 08": next(iter(keys.values()))}, "the keys of its 6 neighbours and no others"),
        (lambda keys: dict.fromkeys(keys, next(iter(keys.values()))), "the same keys"),
        (lambda keys: {silo: key[:47] for silo, key in keys.items()}, "keys of another length"),
        (lambda keys: {silo: bytes(32) + key[32:] for silo, key in keys.items()}, "no usable key"),
    ],
)
def test_a_silo_refuses(lab, change, reason) -> None:
    session, found = opened(lab)
    keys = {peer: found[peer][1] for peer in sparse.neighbours(session, "silo 00")}
    state, key, changed = found["silo 00"][0], lab.key("silo 00"), wire.encode(tuple(change(keys).values()))
    with pytest.raises(Refused, match=reason):
        answer(state, "mask", changed, silo="silo 00", key=key, vector=lambda: np.zeros(3, np.uint64))


def test_a_silo_unmasks_the_sum_over_its_session_only_and_masks_once(lab) -> None:
    session, found = opened(lab)
    keys = {peer: found[peer][1] for peer in sparse.neighbours(session, "silo 00")}
    given = {"silo": "silo 00", "key": lab.key("silo 00"), "vector": lambda: np.zeros(3, np.uint64)}
    state, _ = answer(found["silo 00"][0], "mask", wire.encode(tuple(keys.values())), **given)
    with pytest.raises(Refused, match="refuses to mask: the last phase that it answered is mask"):
        answer(state, "mask", wire.encode(tuple(keys.values())), **given)
    with pytest.raises(Refused, match="refuses to share"):
        answer(state, "share", wire.encode(tuple(keys.values())), **given)
    with pytest.raises(Refused, match="for the sum over all silos of this session"):
        answer(state, "unmask", wire.encode(session.silos[:-1]), **given)
    state, _ = answer(state, "unmask", wire.encode(session.silos), **given)
    assert not state.shares
    assert not state.entropy
    with pytest.raises(Refused, match="refuses to unmask: the last phase that it answered is unmask"):
        answer(state, "unmask", wire.encode(session.silos), **given)


def test_a_seed_that_was_not_advertised_is_found(lab) -> None:
    class Lying(lab.silos):
        def ask(self, phase, messages):
            answers = super().ask(phase, messages)
            return answers | ({"silo 03": wire.encode({"silo 03": bytes(32)})} if phase == "unmask" else {})

    with pytest.raises(Aborted, match="the seed of silo 03 does not match"):
        secure_sum(session_of(lab.names(16), 6), Lying(lab.vectors(16)))


def test_an_empty_request_to_unmask_means_all_silos_of_a_sparse_session(lab) -> None:
    session, found = opened(lab)
    keys = {peer: found[peer][1] for peer in sparse.neighbours(session, "silo 00")}
    given = {"silo": "silo 00", "key": lab.key("silo 00"), "vector": lambda: np.zeros(3, np.uint64)}
    state, _ = answer(found["silo 00"][0], "mask", wire.encode(tuple(keys.values())), **given)
    named, unnamed = (answer(state, "unmask", message, **given) for message in (wire.encode(session.silos), b""))
    assert named == unnamed
    few = SecureSession("run", 1, 1, ("a", "b", "c"), 2)
    meshed, _ = answer(None, "advertise", wire.encode(few), silo="a", key=lab.key("a"), entropy=bytes(32))
    with pytest.raises(Refused, match="not asked for the sum of any silos"):
        answer(meshed, "unmask", b"", **given)
