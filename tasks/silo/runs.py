"""Runs at a silo: the terms that a coordinator sends, the state of a run in memory, and its secure sums.

`RunTerms` has what the coordinator sends unchanged in every round. Broadcasts and requests for secure sums are
separate. `OpenRun` is the state of a run between two rounds.

`SecureSums` has the keys of the masked sums and refuses requests that would unmask more than these sums. A silo
generates one key per run. It derives the keys of each attempt at a sum from this key and from fresh secrets. Keys are
never written to disk. If a worker dies, its keys are lost, and the coordinator starts another attempt. The journal
records which sum of a round the silo helped to unmask, so that nobody obtains two different sums of the same replies.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import Sparse, silo_generator, unpack_state
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import Algorithm, AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import NO_LIMIT, Budget, binding_digest
from fedbnsl.algorithms.secure.exchange import COORDINATOR, answer, read_survivors, session_of
from fedbnsl.algorithms.secure.masks import PROTOCOL, Phase, Refused, Ring, RunKey, SecureSession
from fedbnsl.algorithms.secure.participant import KEYS_BYTES, Participant, read_by_silo, read_session
from fedbnsl.algorithms.secure.sparse import ADVERTISED_BYTES, pack_keys, read_keys
from fedbnsl.algorithms.statistics.lagged import adjusted_series
from fedbnsl.algorithms.statistics.outliers import screened
from fedbnsl.algorithms.statistics.transforms import require_row_wise, transformed
from fedbnsl.data.folder.about import NO_DECLARATION, Declared

from .journal import Journal, RunState

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec


# The silos whose keys an owner knows, and the signatures of their mask keys.
#
# The masks of a secure sum hide a summand only if the other silos are real: a coordinator that invents silos knows
# their masks. So every silo signs its mask keys, together with the session, with the private key of its certificate. A
# silo refuses mask keys whose signature does not belong to a key that the silo's owner knows.


SIGNED = b"fedbnsl mask keys\0"
"""the prefix of signed content, so that signatures for other purposes are not valid here"""


@dataclass(frozen=True)
class Members:
    """The silos whose keys an owner knows, and the owner's own certificate and key."""

    fingerprints: Mapping[str, str]
    """by silo, the SHA-256 fingerprint of the key of its certificate in hexadecimal"""
    certificate: bytes = field(repr=False, compare=False)
    """the owner's certificate in DER"""
    key: ec.EllipticCurvePrivateKey = field(repr=False, compare=False)

    @classmethod
    def read(cls, fingerprints: Mapping[str, str], certificate: bytes, key: bytes) -> Members:
        """The members, for an owner with this PEM certificate and key; raises `BadInput` if either is unusable."""
        from cryptography import x509  # imported late, here and below: runs on one machine have no certificates
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        try:
            own = x509.load_pem_x509_certificate(certificate)
            private = serialization.load_pem_private_key(key, password=None)
        except (ValueError, TypeError) as error:
            raise BadInput(f"certificate or key cannot be read ({error})") from None
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise BadInput("the key is not one created by `fedbnsl federation init`")
        return cls(dict(fingerprints), own.public_bytes(serialization.Encoding.DER), private)

    @property
    def own_fingerprint(self) -> str:
        """The fingerprint of the owner's own key."""
        from cryptography import x509

        return fingerprint_of(x509.load_der_x509_certificate(self.certificate))

    def attest(self, session: SecureSession, silo: str, keys: bytes) -> bytes:
        """`keys`, which `silo` advertises in `session`, followed by the owner's signature and certificate."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        signature = self.key.sign(_statement(session, silo, keys), ec.ECDSA(hashes.SHA256()))
        return keys + wire.encode((signature, self.certificate))

    def check(self, session: SecureSession, silo: str, peer: str, attested: bytes, size: int) -> bytes:
        """The keys of `peer`, the first `size` bytes of `attested`; raises `Refused` unless `peer` has signed them.

        The key of the signature must have the fingerprint that the owner knows for `peer`.
        """
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        keys, proof = attested[:size], attested[size:]
        try:
            signature, certificate = wire.decode(tuple[bytes, bytes], proof)
            loaded = x509.load_der_x509_certificate(certificate)
            public = loaded.public_key()
            known = fingerprint_of(loaded) == self.fingerprints.get(peer)
            if not known or not isinstance(public, ec.EllipticCurvePublicKey):
                raise Refused(f"{silo} refuses to share: it does not know the key of {peer}")
            public.verify(signature, _statement(session, peer, keys), ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError, TypeError, KeyError):
            raise Refused(f"{silo} refuses to share: the mask keys of {peer} are not signed by {peer}") from None
        return keys


def fingerprint_of(certificate: x509.Certificate) -> str:
    """The SHA-256 fingerprint of the public key of a certificate, in hexadecimal.

    A renewed certificate has the same key, so its holder is still known to the other owners.
    """
    from cryptography.hazmat.primitives import serialization

    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(certificate.public_key().public_bytes(serialization.Encoding.DER, form)).hexdigest()


def _statement(session: SecureSession, silo: str, keys: bytes) -> bytes:
    return SIGNED + wire.encode((session, silo, keys))


@dataclass(frozen=True, eq=False)
class RunTerms:
    """The terms of a run, which the coordinator sends with each request; they do not change from round to round.

    They are compared by identity, so that `terms_digest` can cache the digest of an object. For an equal copy, the
    digest is computed again, which costs only time.
    """

    run_id: str
    spec: bytes
    """the packed specification of the algorithm (`registry.pack`)"""
    schema: Schema
    seed: int
    budget: Budget = NO_LIMIT
    """the limit for all runs on a silo's rows together"""
    declared: Declared = NO_DECLARATION
    """the declaration of the data and of how to read them"""
    step_of: str = ""
    """if this run is a step before or after the rounds of another run, the id of that run; both use the same rows"""
    changed_rows: int = 0
    """without an ε: the minimum number of rows that have changed since an earlier publication, if any row has; the
    larger of this number and the owner's minimum applies"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for the name of a run that cannot be a name."""
        require_run_name(self.run_id)
        if self.step_of:
            require_run_name(self.step_of)

    @cached_property
    def packed(self) -> bytes:
        """The terms as bytes, encoded once for all requests of a run."""
        return wire.encode(self)

    @property
    def pinned_run(self) -> str:
        """The run during which a silo's rows must not change."""
        return self.step_of or self.run_id

    @property
    def part(self) -> str:
        """The part of the pinned run: "round", or the name of an exchange before or after its rounds."""
        return self.run_id.removeprefix(self.pinned_run).removeprefix("-") or "round"

    @cached_property
    def spec_value(self) -> AlgorithmSpec:
        """The specification of the algorithm; raises `BadInput` for a name that is not in the registry."""
        return registry.unpack(self.spec)

    def algorithm(self) -> Algorithm:
        """The algorithm; raises `BadInput` for a name that is not in the registry."""
        return built(self.spec)

    def exchange_digest(self, broadcast: bytes, sparse: Sparse | None) -> bytes:
        """A digest of the content that all silos of one secure sum must have received.

        Each silo's share of the noise suffices only together with the shares of the others. Without this digest, a
        coordinator could send one silo another ε, another number of tables or other scales, and get a sum with too
        little noise.
        """
        return bytes.fromhex(binding_digest(terms_digest(self), broadcast, sparse))


MAX_NAME_LENGTH = 200
"""maximum number of characters in the name of a run"""


def require_run_name(name: str) -> None:
    """Raise `BadInput` unless `name` has from 1 to `MAX_NAME_LENGTH` printable characters.

    A silo keeps records under the names that coordinators choose.
    """
    if not (0 < len(name) <= MAX_NAME_LENGTH and name.isprintable()):
        raise BadInput(f"the name of a run has 1 to {MAX_NAME_LENGTH} printable characters")


@lru_cache(maxsize=8)
def terms_digest(terms: RunTerms) -> str:
    """A digest of the terms that determine an answer; cached, because it takes milliseconds.

    It is not a field of the terms: the coordinator sends the terms, and could send a false digest.
    """
    return binding_digest(terms.spec, terms.schema.in_order(), terms.seed, terms.declared)


@lru_cache(maxsize=32)
def built(spec: bytes) -> Algorithm:
    """The algorithm of a packed specification, built once per process."""
    return registry.build(registry.unpack(spec))


@dataclass(frozen=True)
class OpenRun:
    """A run at this silo after round `number` (0 before the first), with its `state` at that point.

    `reply` is the reply of that round, and `binding` is the digest of its inputs. Both are set only after a round that
    was solved in this process.
    """

    algorithm: Algorithm
    schema: Schema
    number: int
    state: Any
    binding: str = ""
    reply: Any = None


def open_run(terms: RunTerms, silo: str, table: Any, run_state: RunState, seed: int | None = None) -> OpenRun:
    """Open the run of `terms` on `table` `[n_rows, n_variables]`, in its state after the last round in the journal.

    With a `seed`, it replaces that of the terms.
    """
    algorithm = terms.algorithm()
    generator = silo_generator(terms.seed if seed is None else seed, silo)
    if terms.schema.transforms:
        if algorithm.private is not None:
            require_row_wise(terms.schema)
        table = transformed(table, terms.schema, silo)
    if terms.schema.imputation_model.screens:
        table = screened(table, terms.schema)
    if terms.schema.adjustment:
        labels = [at for at, name in enumerate(terms.schema.variables) if name in terms.schema.levels]
        table = adjusted_series(table, terms.schema.adjustment, terms.schema.recorded_stretches(silo), labels)
    state = algorithm.open_silo(table, terms.schema, silo, generator)
    if run_state.state is not None:
        state = unpack_state(algorithm, state, run_state.state)
    return OpenRun(algorithm, terms.schema, run_state.number, state)


@dataclass(frozen=True)
class SecureSumRequest:
    """The coordinator's request in one phase of a secure sum."""

    phase: Phase
    message: bytes
    broadcast: bytes = b""
    """the broadcast of the round; only in phase "mask" """
    sparse: Sparse | None = None
    """the public positions outside which summands are zero; only in phase "mask" """


class SecureSums:
    """The secure sums that one silo takes part in."""

    def __init__(self, silo: str, journal: Journal, members: Members | None = None) -> None:
        """Start without keys; `journal` has the sums that `silo` has already helped to unmask.

        With `members`, the silo signs its keys, and refuses keys that are not signed by a member.
        """
        self._silo = silo
        self._journal = journal
        self._members = members
        self._keys: dict[str, RunKey] = {}
        """run -> this silo's key for the rounds and the steps of the run; new after a restart"""
        self._participants: dict[tuple[str, int], Participant] = {}
        """(run, round) -> this silo's state in the current attempt"""

    def answer(
        self, terms: RunTerms, number: int, request: SecureSumRequest, summand: Callable[[], Ring] | None = None
    ) -> bytes:
        """The silo's answer to a request about the sum of round `number`; phase "mask" needs `summand`, its summand.

        `terms` are the terms as the coordinator sent them. Raises `Refused` if the session has another round or other
        terms, if a key has no signature of a member, if the phase is not the next one, or if the silo has helped to
        unmask a different sum of the round.
        """
        run = terms.run_id
        if request.phase == "advertise":
            self._check_terms(terms, number, request.message)
        if request.phase == "unmask":
            self._check_only_sum(run, number, request.message)
        before = self._participants.get((run, number))
        message = request.message
        if before is not None and request.phase == ("mask" if before.session.sparse else "share"):
            message = self._checked_keys(before.session, message)
        if request.phase == "mask" and before is not None:
            self._check_exchange(before.session, terms, request)
        state, encoded = answer(
            before,
            request.phase,
            message,
            silo=self._silo,
            key=self._key(terms.pinned_run),
            entropy=secrets.token_bytes(32),
            vector=summand,
        )
        self._participants[run, number] = state
        if request.phase == "unmask":
            del self._participants[run, number]
        if request.phase == "advertise" and self._members is not None:
            return self._members.attest(state.session, self._silo, encoded)
        return encoded

    def _checked_keys(self, session: SecureSession, message: bytes) -> bytes:
        """The advertised keys without their signatures; raises `Refused` for keys that no member signed."""
        if session.sparse:
            keys, size = read_keys(session, self._silo, message, COORDINATOR), ADVERTISED_BYTES
        else:
            keys, size = read_by_silo(message, COORDINATOR), KEYS_BYTES
        checked = {
            peer: packed[:size]
            if self._members is None
            else self._members.check(session, self._silo, peer, packed, size)
            for peer, packed in keys.items()
        }
        if checked == keys:
            return message
        return pack_keys(session, self._silo, checked) if session.sparse else wire.encode(checked)

    def _key(self, run: str) -> RunKey:
        if run not in self._keys:
            self._keys[run] = RunKey(secrets.token_bytes(32))
        return self._keys[run]

    def forget_key(self, run: str) -> None:
        """Drop the key of a finished run, which its steps used, too."""
        self._keys.pop(run, None)

    def abandon(self, run: str) -> None:
        """Drop the current attempts at sums of a run."""
        self._participants = {key: state for key, state in self._participants.items() if key[0] != run}

    def _check_terms(self, terms: RunTerms, number: int, message: bytes) -> None:
        """Refuse a session whose round, silos or threshold differ from the public terms."""
        session, run = read_session(message, COORDINATOR), terms.run_id
        if session.protocol != PROTOCOL:
            other = session.protocol or "an earlier version"
            raise Refused(
                f"{self._silo} refuses to advertise: it uses {PROTOCOL}, and the coordinator {other}: "
                "both need the same version of fedbnsl"
            )
        expected = session_of(run, number, session.attempt, terms.schema, session.exchange, session.silos)
        if session != expected:
            raise Refused(f"{self._silo} refuses to advertise: the terms are not those of round {number} of run {run}")

    def _check_exchange(self, session: SecureSession, terms: RunTerms, request: SecureSumRequest) -> None:
        """Refuse to mask unless `session` has the digest of this silo's settings, schema, broadcast and positions.

        All silos of a session check the same digest, because their keys are bound to the session.
        """
        if session.exchange != terms.exchange_digest(request.broadcast, request.sparse):
            raise Refused(
                f"{self._silo} refuses to mask: its settings, schema or broadcast are not those of this secure sum"
            )

    def survivors(self, run: str, number: int, message: bytes) -> tuple[str, ...]:
        """The silos, sorted, whose sum `message` asks to unmask; raises as `read_survivors` does."""
        return tuple(sorted(read_survivors(self._participants.get((run, number)), message)))

    def _check_only_sum(self, run: str, number: int, message: bytes) -> None:
        """Refuse to unmask a second, different sum of a round."""
        survivors = self.survivors(run, number, message)
        if not self._journal.record_sum(run, number, survivors):
            raise Refused(f"{self._silo} refuses to unmask: it has helped to unmask another sum of round {number}")
