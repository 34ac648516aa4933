"""What a lying coordinator and colluding silos can compute from the exchanges of a whole run."""

import contextlib
from collections.abc import Mapping

import numpy as np

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.secure import masks, participant, secret_sharing
from fedbnsl.algorithms.secure.exchange import secure_sum
from fedbnsl.algorithms.secure.masks import Aborted, SecureSession
from fedbnsl.algorithms.secure.messages import Revealed


class CoalitionView:
    """The view of the coordinator and the silos `corrupt` over a run, and the sums that they can compute.

    Each masked vector of another silo is an equation: the vector, plus masks. A mask is known if the coalition can
    derive its key: from the keys of its own silos, from shares, from an escrow that the shares open, or because the key
    was sent.
    """

    def __init__(self, lab, corrupt: set[str]) -> None:
        """Start before the first exchange."""
        self._lab, self._corrupt = lab, corrupt
        self._masked: list[tuple[int, str, dict[bytes, int]]] = []
        """(exchange, silo, signs of the masks by key) of each masked vector that arrived"""
        self._known: set[bytes] = set()
        self._seen = b""
        self._exchanges = 0
        self.sums: list[set[tuple[int, str]]] = []
        """the silos of each sum that the protocol reveals"""

    def exchange(self, session: SecureSession, rng: np.random.Generator, two_lists: bool) -> None:
        """One exchange, in which honest silos drop out at random and the coordinator declares others lost.

        With `two_lists`, it sends the silos of phase 4 one of two lists of survivors.
        """
        honest = [silo for silo in session.silos if silo not in self._corrupt]
        away = rng.permutation(honest)[: rng.integers(0, len(session.silos) - session.threshold + 2)]
        when = rng.choice(["advertise", "share", "mask", "unmask", "lost"], len(away))
        silent = {phase: {str(silo) for silo in away[when == phase]} for phase in when}
        lost, lists, states = silent.pop("lost", set()), {}, {}

        def change(phase: str, silo: str, question: bytes) -> bytes:
            if phase != "unmask":
                return question
            lists[silo] = survivors = wire.decode(tuple, question)
            if two_lists and silo in survivors[:-1] and len(survivors) > session.threshold and rng.random() < 0.5:
                lists[silo] = survivors[:-1]
            return wire.encode(lists[silo])

        class Transport(self._lab.silos):  # type: ignore[name-defined]
            def ask(self, phase, messages):
                answers = super().ask(phase, messages)
                states[phase] = dict(self.states)
                return {silo: answer for silo, answer in answers.items() if phase != "mask" or silo not in lost}

        number = self._exchanges
        silos = Transport(self._lab.vectors(len(session.silos), 1), silent, change, fresh=str(number))
        with contextlib.suppress(Aborted):  # the coalition keeps what it has received
            secure_sum(session, silos)
        self._exchanges += 1
        self._seen += b"".join(question + answer for *_, question, answer in silos.transcript)
        self._learn(session, states, silos)
        for silo in silos.said("mask"):
            if silo not in self._corrupt:
                seed = participant._secrets(states["advertise"][silo]).seed
                peers = wire.decode(dict, next(q for p, s, q, _ in silos.transcript if (p, s) == ("mask", silo)))
                signs = {states["share"][silo].pairs[peer][32:]: 1 if silo < peer else -1 for peer in peers}
                self._masked.append((number, silo, {masks.self_key(seed, session, silo): 1, **signs}))
        answered: dict[frozenset[str], set[str]] = {}
        for silo in silos.said("unmask"):  # lists with the same honest silos request the same sum
            answered.setdefault(frozenset(lists[silo]) - self._corrupt, self._corrupt & set(states["mask"])).add(silo)
        for honest_survivors, silos_of_list in answered.items():
            if len(silos_of_list) >= session.threshold and honest_survivors:
                self.sums.append({(number, silo) for silo in honest_survivors})

    def _learn(
        self, session: SecureSession, states: Mapping[str, Mapping[str, participant.Participant]], silos
    ) -> None:
        """Add the keys of masks that follow from one exchange."""
        revealed = {silo: wire.decode(Revealed, packed) for silo, packed in silos.said("unmask").items()}
        for silo, start in states["advertise"].items():
            secrets = participant._secrets(start)
            held = {who: states["mask"][who].shares for who in self._corrupt if who in states.get("mask", ())}
            for secret, part, answers in (
                (secrets.seed, slice(33), {who: answer.self_masks for who, answer in revealed.items()}),
                (secrets.escrow, slice(33, None), {who: answer.escrow_keys for who, answer in revealed.items()}),
            ):
                shares = {session.point(who): both[silo][part] for who, both in held.items() if silo in both}
                shares |= {session.point(who): parts[silo] for who, parts in answers.items() if silo in parts}
                if silo not in self._corrupt and (not shares or not fits(shares, secret)):
                    continue
                if secret is secrets.seed:
                    self._known.add(masks.self_key(secret, session, silo))
                elif silo in silos.said("share"):
                    sealed = wire.decode(dict, silos.said("share")[silo])[silo]
                    content = participant.unseal(secret, session, silo, silo, sealed)
                    self._known |= {content[i : i + 32] for i in range(0, len(content), 32)}

    def combinations(self) -> np.ndarray:
        """A basis of the combinations of honest vectors that the coalition can compute, `[n, len(masked)]`."""
        keys = sorted({key for *_, signs in self._masked for key in signs if not self._is_known(key)})
        matrix = np.array([[signs.get(key, 0) for key in keys] for *_, signs in self._masked], float)
        if not matrix.size:
            return np.eye(len(self._masked))
        left, values, _ = np.linalg.svd(matrix)
        return left[:, (values > 1e-9).sum() :].T

    def revealed_sums(self) -> np.ndarray:
        """The sums that the protocol reveals, as combinations of the same vectors."""
        rows = [[float((number, silo) in summands) for number, silo, _ in self._masked] for summands in self.sums]
        return np.array(rows).reshape(len(rows), len(self._masked))

    def _is_known(self, key: bytes) -> bool:
        return key in self._known or key in self._seen


def fits(shares: Mapping[int, bytes], secret: bytes) -> bool:
    """Whether `shares` determine `secret`."""
    try:
        return secret_sharing.combine(shares) == secret
    except ValueError:
        return False
