"""The federation of the silos of a run, over any transport.

`SiloTransport` is the interface to the silos: over Dask, over a relay, or by direct calls in one process. `Patience`
defines when the coordinator gives a silo up, from the signs of life that `Liveness` observes. A `Roster` has the
participating and the lost silos of a run, and calls several silos concurrently. `SiloFederation` runs the exchanges. An
exchange is one call of `solve` per silo. A masked exchange is a secure sum: the coordinator learns the sum of the
replies and nothing else about them.
"""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, Protocol

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.core.protocol import (
    Algorithm,
    Replies,
    SiloLost,
    Sparse,
    Traffic,
    gather,
    traffic_of,
    usable_reply,
)
from fedbnsl.algorithms.core.release import Disclosed
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput, RunCancelled, SilosUnavailable, pluralize, with_name_of
from fedbnsl.algorithms.secure import masked_round
from fedbnsl.algorithms.secure.masks import MESH_SILOS, Aborted, Phase, default_threshold
from fedbnsl.algorithms.secure.sparse import SumLost
from fedbnsl.tracking.staging import first_line, notice

from ..rounds import Start, Wait, in_threads
from ..silo.messages import Method, MethodCall, unpack_answer
from ..silo.runs import RunTerms
from ..silo.secure_sums import SecureSumRequest


class PendingAnswer(Protocol):
    """An answer that has not arrived yet."""

    def result(self, timeout: float) -> Any:
        """The answer; raises the silo's exception.

        Raises `TimeoutError` after `timeout` seconds, `SiloLost` if the answer can never arrive.
        """
        ...

    def release(self) -> None:
        """Stop waiting for the answer, and free its resources."""
        ...


class SiloTransport(Protocol):
    """A connection to the silos."""

    def present(self) -> tuple[str, ...]:
        """The names of the silos that are connected at this moment, sorted."""
        ...

    def silence(self) -> Mapping[str, float]:
        """The seconds for which each connected silo has given no sign of life, even if it computes (see `Liveness`)."""
        ...

    def submit(self, silo: str, call: MethodCall) -> PendingAnswer:
        """Send `call` to `silo` and return at once; raises `SiloLost` if it cannot be sent."""
        ...


LOSSES = {
    "KilledWorker": "its worker died repeatedly while solving",
    "CancelledError": "the connection to the workers was lost",
    "FutureCancelledError": "the connection to the workers was lost",
}
"""reasons for the loss of a silo, by the type of the error"""


@contextlib.contextmanager
def transport_errors(silo: str) -> Iterator[None]:
    """The boundary between a remote transport and a run: whatever fails in the block, the `silo` is lost.

    Raises `SiloLost` for every error except `TimeoutError`, after which an answer may still arrive. An error inside a
    silo arrives as an answer.
    """
    try:
        yield
    except (SiloLost, TimeoutError):
        raise
    except BaseException as error:
        kind = type(error).__name__
        if not (isinstance(error, Exception) or kind == "CancelledError"):  # of asyncio, whose import takes long
            raise
        reason = LOSSES.get(kind) or f"the connection failed ({kind}: {first_line(error)})"
        raise SiloLost((silo,), reason) from None


@dataclass(frozen=True)
class PackedAnswer:
    """A pending answer of a remote silo, which arrives as bytes (see `PendingAnswer`)."""

    silo: str
    method: Method
    pending: PendingAnswer

    def result(self, timeout: float) -> Any:
        """The answer; raises the silo's exception, whose text names the silo, `TimeoutError`, or `SiloLost`."""
        with transport_errors(self.silo):
            packed = self.pending.result(timeout)
        try:
            return unpack_answer(self.method, packed, f"silo {self.silo}")
        except (BadInput, Aborted) as error:
            raise type(error)(with_name_of(self.silo, str(error))) from None

    def release(self) -> None:
        """Stop waiting for the answer; without a connection, nothing is left to free."""
        with contextlib.suppress(SiloLost), transport_errors(self.silo):
            self.pending.release()


def read_replies(algorithm: Algorithm, answers: Mapping[str, bytes]) -> dict[str, Any]:
    """The replies in the `answers` of silos; raises `UnusableReply`, naming the silo, for bytes that are no reply."""
    replies = dict[str, Any]()
    for silo, packed in answers.items():
        with usable_reply(silo):
            replies[silo] = wire.decode(algorithm.reply_type, packed)
    return replies


POLL_SECONDS = 0.2
"""interval between polls of the connected silos"""
NOTICE_SECONDS = 3.0
"""seconds after which a wait for silos prints a line"""


def wait_for_silos(
    transport: SiloTransport, silos: tuple[str, ...], patience: float, quorum: int | None
) -> tuple[str, ...]:
    """Wait until all `silos` are connected, but at most `patience` seconds; returns the connected silos among them.

    If `silos` is empty, waits for any silo and returns all connected silos. After `NOTICE_SECONDS`, prints one line.
    Raises `SilosUnavailable` if no silo or fewer than `quorum` silos are connected, or, without a quorum, if a silo is
    missing.
    """
    begin, printed = time.monotonic(), patience < NOTICE_SECONDS
    while not _all_present(silos, present := transport.present()) and time.monotonic() < begin + patience:
        if not printed and time.monotonic() >= begin + NOTICE_SECONDS:
            absent = ", ".join(silo for silo in silos if silo not in present) or "a silo"
            print(f"waiting for {absent}, at most {patience:g} s", file=sys.stderr, flush=True)
            printed = True
        time.sleep(POLL_SECONDS)
    found = tuple(silo for silo in silos or present if silo in present)
    if not found or len(found) < (quorum or len(silos)):
        missing = [silo for silo in silos if silo not in present] or ["any silo"]
        needed = f"; {quorum} of {len(silos) or 'all connected silos'} are needed" if quorum else ""
        raise SilosUnavailable(
            f"no worker hosts {', '.join(missing)} (available: {', '.join(present) or 'none'}){needed}: its owner "
            "starts one with `fedbnsl silo start`"
        )
    return found


def _all_present(silos: tuple[str, ...], present: tuple[str, ...]) -> bool:
    return bool(present) and set(silos) <= set(present)


@dataclass(frozen=True)
class Patience:
    """Timeouts in seconds after which the coordinator gives a silo up.

    A silo is unresponsive if the coordinator receives no heartbeat from it for `absent` seconds. It is either gone (not
    connected) or frozen (connected, but its process is stopped or its machine hangs; at least `FROZEN_SECONDS`). A
    silo that is slow but alive sends heartbeats while it computes, so the run waits for it.
    """

    absent: float
    """maximum time without a heartbeat of a silo"""
    solve: float = 3600.0
    """timeout for one answer of a silo that is alive, whose computation may hang"""


class SiloTimedOut(SiloLost, TimeoutError):  # noqa: N818 - an event, like a lost silo
    """Raised if a silo that is alive does not answer in time."""


CHECK_SECONDS = 1.0
"""seconds after which a wait for a silo looks for its signs of life, and whether the run was cancelled"""


class Liveness:
    """For how long each connected silo has given no sign of life.

    A sign of life is whatever changes with each heartbeat of a silo, such as their number. Silos send
    heartbeats from another thread than the one that computes; compiled functions release Python's lock meanwhile.
    Time in which nobody looks counts as one look only: an observer that was itself suspended has heard nobody, and
    must not give up everybody. Any thread may look.
    """

    def __init__(self, interval: float = CHECK_SECONDS) -> None:
        """Nothing has been heard yet; looks take place every `interval` seconds."""
        self._interval = interval
        self._signs: Mapping[str, object] = {}
        self._silence: Mapping[str, float] = {}
        self._looked = -math.inf
        self._lock = Lock()

    def look(self, read: Callable[[], Mapping[str, object]]) -> Mapping[str, float]:
        """The seconds of silence of each connected silo, whose current sign of life `read` returns.

        Concurrent waits for many silos share a look: `read` is called at most twice per interval.
        """
        with self._lock:
            now = time.monotonic()
            if now - self._looked >= self._interval / 2:
                signs, passed = read(), min(now - self._looked, 2 * self._interval)
                self._silence = {
                    silo: self._silence[silo] + passed if self._signs.get(silo) == sign else 0.0
                    for silo, sign in signs.items()
                }
                self._signs, self._looked = signs, now
            return self._silence


SLOW_SECONDS = 30.0
"""seconds after which a line names the silos that have not answered; each further line comes after twice the time"""
NAMED_SILOS = 5
"""maximum number of silos that such a line names"""


class Waiting:
    """The silos that have not answered yet, of which lines tell at growing intervals. Any thread may call it."""

    def __init__(self, silos: Iterable[str]) -> None:
        self._silos = dict.fromkeys(silos)
        self._begin, self._next = time.monotonic(), SLOW_SECONDS
        self._lock = Lock()

    def answered(self, silo: str) -> None:
        """The wait for `silo` has ended."""
        with self._lock:
            self._silos.pop(silo, None)

    def tell(self, silence: Mapping[str, float]) -> None:
        """Print a line if one is due; `silence` is that of the connected silos (see `SiloTransport`)."""
        with self._lock:
            passed = time.monotonic() - self._begin
            if passed < self._next:
                return
            self._next *= 2
            silos = tuple(self._silos)
        states = [_state(silence.get(silo)) for silo in silos]
        for state in (GONE, FROZEN, ALIVE):
            some = [silo for silo, its in zip(silos, states, strict=True) if its == state]
            if some:
                names = ", ".join(some[:NAMED_SILOS]) + ", ..." * (len(some) > NAMED_SILOS)
                notice(f"{names}: no answer for {passed:.0f} s ({state})")


GONE, FROZEN, ALIVE = "gone: not connected", "frozen: connected, but without a sign of life", "alive: still computing"
FROZEN_SECONDS = 5.0
"""minimum number of seconds without a sign of life after which a connected silo is frozen: heartbeats may be late"""


def _state(silence: float | None) -> str:
    """The state of a silo with so many seconds of `silence`, None if it is not connected."""
    return GONE if silence is None else FROZEN if silence >= FROZEN_SECONDS else ALIVE


BRIEF = Patience(absent=3.0, solve=3.0)
"""timeouts after a run was cancelled: a silo may still be busy with its last solve"""
SOLVES: tuple[Method, ...] = ("describe", "solve", "secure_answer")
"""the calls that compute"""


def wait_for_answer(
    transport: SiloTransport,
    silo: str,
    call: MethodCall,
    patience: Patience,
    is_cancelled: Callable[[], bool] = lambda: False,
    waiting: Waiting | None = None,
) -> Any:
    """The answer of `silo` to `call`; `waiting` tells the user of a silo that does not answer for long.

    Raises `SiloLost` after the timeouts of `patience`, and `RunCancelled` once `is_cancelled`, which is called every
    `CHECK_SECONDS`.
    """
    waiting = waiting or Waiting([silo])
    pending: PendingAnswer | None = None
    try:
        pending = transport.submit(silo, call)
        begin = heard = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                return pending.result(timeout=min(patience.absent / 2, CHECK_SECONDS))
            if is_cancelled():
                raise RunCancelled
            silence, now = transport.silence(), time.monotonic()
            waiting.tell(silence)
            if silo in silence:
                heard = max(heard, now - silence[silo])
            state, limit = GONE, patience.absent
            if silo in silence:
                state, limit = FROZEN, max(limit, FROZEN_SECONDS)
            if now - heard >= limit:
                raise SiloLost((silo,), f"no response for {limit:g} s ({state})")
            if now - begin >= patience.solve:
                raise SiloTimedOut((silo,), f"no reply within {patience.solve:g} s")
    finally:
        waiting.answered(silo)
        if pending is not None:
            pending.release()


@dataclass
class Roster:
    """The `silos` of a run over a `transport`; `lost` maps each lost silo to the reason, for all rosters of a run."""

    transport: SiloTransport
    silos: tuple[str, ...]
    patience: Patience
    lost: dict[str, str] = field(default_factory=dict)
    quorum: int = 1
    """minimum number of silos for a run to continue"""
    start: Start = in_threads
    """starts the calls if the caller of `ask` does not pass its own `start`"""
    is_cancelled: Callable[[], bool] = lambda: False
    """whether the run is to end; silos are then asked for no further solve, and other answers are awaited briefly"""

    @property
    def present(self) -> tuple[str, ...]:
        """The silos that are not lost."""
        return tuple(silo for silo in self.silos if silo not in self.lost)

    def require_all(self) -> None:
        """Raise `SiloLost` if a silo is lost."""
        if self.lost:
            raise SiloLost(tuple(self.lost), next(iter(self.lost.values())))

    def ask(
        self, calls: Mapping[str, MethodCall], *, tolerates_dropout: bool, start: Start | None = None
    ) -> dict[str, Any]:
        """Send each silo its call, concurrently; returns the answers by silo.

        A silo that does not answer is lost for the rest of the run, and a line says so. If a silo is lost, raises
        `SiloLost` unless `tolerates_dropout` is set and, for calls that compute, the remaining silos are a quorum. Also
        raises the first exception of a silo, and `RunCancelled` if a run that is to end calls for a solve.
        """
        cancelled, waiting = self.is_cancelled(), Waiting(calls)
        solving = any(call.method in SOLVES for call in calls.values())
        if cancelled and solving:
            raise RunCancelled
        works = {
            silo: partial(
                wait_for_answer,
                self.transport,
                silo,
                call,
                BRIEF if cancelled else self.patience,
                self.is_cancelled if call.method in SOLVES else lambda: False,
                waiting,
            )
            for silo, call in calls.items()
        }
        answers, newly_lost = _wait_for_all((start or self.start)(works))
        if newly_lost:
            self._give_up(newly_lost, tolerates_dropout=tolerates_dropout, quorum=self.quorum if solving else 0)
        return answers

    def _give_up(self, newly_lost: Mapping[str, str], *, tolerates_dropout: bool, quorum: int) -> None:
        """Record the silos that are `newly_lost`, with reasons; raises `SiloLost` if the run cannot do without them."""
        self.lost.update(newly_lost)
        first = next(iter(newly_lost.values()))
        for reason in dict.fromkeys(newly_lost.values()):
            silos = ", ".join(silo for silo, why in newly_lost.items() if why == reason)
            notice(f"{silos}: {reason}; not asked again in this run")
        if not tolerates_dropout:
            raise SiloLost(tuple(newly_lost), first)
        if len(self.present) < quorum:
            remaining = f"{pluralize(len(self.present), 'silo')} left, and the quorum is {quorum}"
            raise SiloLost(tuple(self.lost), f"{first}; {remaining}")


def _wait_for_all(waits: Mapping[str, Wait]) -> tuple[dict[str, Any], dict[str, str]]:
    """Wait for every silo; returns the answers and the lost silos with reasons, or raises the first other error."""
    answers: dict[str, Any] = {}
    lost: dict[str, str] = {}
    errors: list[Exception] = []
    for silo, wait in waits.items():
        try:
            answers[silo] = wait()
        except SiloLost as loss:
            lost[silo] = loss.reason
        except Exception as error:  # raised below, after all silos have answered
            errors.append(error)
    if errors:
        raise errors[0]
    return answers, lost


ATTEMPTS = 3
"""maximum number of failed attempts at a secure sum; among more than `MESH_SILOS` silos, an attempt in which a silo was
lost does not count, because the next attempt has fewer silos"""


@dataclass(frozen=True)
class SecureTransport:
    """The transport of the secure sum of round `number` (see `secure.exchange.Transport`).

    The silos solve in phase "mask"; `start` starts these solves.
    """

    roster: Roster
    terms: RunTerms
    number: int
    broadcast: bytes
    sparse: Sparse | None
    tolerates_dropout: bool
    start: Start | None = None

    def ask(self, phase: Phase, messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The answers of the silos that responded."""
        solving, present = phase == "mask", self.roster.present
        context = (self.broadcast, self.sparse) if solving else ()
        calls = {
            silo: MethodCall("secure_answer", (self.terms, self.number, SecureSumRequest(phase, message, *context)))
            for silo, message in messages.items()
            if silo in present
        }
        # A silo may be lost in phase "unmask", because the other silos can then reveal its masks.
        tolerates_dropout = self.tolerates_dropout or phase == "unmask"
        return self.roster.ask(calls, tolerates_dropout=tolerates_dropout, start=self.start if solving else None)


def secure_exchange(algorithm: Algorithm, transport: SecureTransport, broadcast: Any) -> tuple[Replies[Any], Traffic]:
    """The sum of the silos' replies to `broadcast`, and the traffic.

    If a worker dies, its keys are lost, so all silos start another attempt with new keys. Raises `SiloLost` if too few
    silos respond, or after `ATTEMPTS` failed attempts.
    """
    roster, terms = transport.roster, transport.terms
    digest = terms.exchange_digest(transport.broadcast, transport.sparse)
    silos, failures = len(terms.schema.silos), 0
    while True:
        present, number = roster.present, masked_round.new_attempt()
        try:
            session = masked_round.session_of(terms.run_id, transport.number, number, terms.schema, digest, present)
            encoding = masked_round.encoding_of(algorithm, terms.schema, broadcast, transport.sparse)
            return masked_round.masked_round(
                algorithm, session, transport, broadcast, len(transport.broadcast), encoding
            )
        except Aborted as reason:
            fewer = roster.present != present
            if silos <= MESH_SILOS or not fewer:
                failures += 1
            left = len(roster.present) >= default_threshold(silos)
            if failures == ATTEMPTS or not left or (fewer and isinstance(reason, SumLost)):
                raise SiloLost(tuple(roster.lost) or terms.schema.silos, str(reason)) from None


@dataclass
class SiloFederation:
    """The silos of `roster` in the run of `terms` (see `Federation`); `number` is the current round."""

    roster: Roster
    terms: RunTerms
    secure: bool = False
    start_solves: Callable[[str], Start] | None = None
    """(label of the round) -> the function that starts and records its solves; if None, `roster.start` starts them"""
    number: int = 0

    @property
    def schema(self) -> Schema:
        """The public schema."""
        return self.terms.schema

    @property
    def label(self) -> str:
        """The current round of the run, or of the exchange before or after its rounds, as in "diagnosis 1"."""
        return f"{self.terms.part} {self.number}"

    def exchange(
        self, algorithm: Algorithm, number: int, broadcast: Any, sparse: Sparse | None = None
    ) -> tuple[Replies[Any], Traffic]:
        """Run the exchange with all present silos (see `Federation.exchange`)."""
        self.number = number
        if not algorithm.tolerates_dropout:
            self.roster.require_all()
        packed = wire.encode(broadcast)
        start = self.start_solves(self.label) if self.start_solves else self.roster.start
        if algorithm.is_masked(self.schema, requested=self.secure):
            transport = SecureTransport(
                self.roster, self.terms, number, packed, sparse, algorithm.tolerates_dropout, start
            )
            return secure_exchange(algorithm, transport, broadcast)
        answers = self.ask(
            "solve", self.terms, number, packed, tolerates_dropout=algorithm.tolerates_dropout, start=start
        )
        replies = read_replies(algorithm, answers)
        sizes = (len(packed), sum(map(len, answers.values())))
        return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies, sizes)

    def charges(self, run: str | None = None) -> dict[str, tuple[Charge, ...]]:
        """The charges in each silo's ledger (see `Federation.charges`), except for lost silos."""
        return self.ask("charges", run, tolerates_dropout=True)

    def releases(self, run: str) -> dict[str, tuple[Disclosed, ...]]:
        """What each silo has sent (see `Federation.releases`), except for lost silos."""
        return self.ask("releases", run, tolerates_dropout=True)

    def finish(self) -> None:
        """Have the silos delete the finished run; a silo that does not respond keeps its journal."""
        # The run has a result: an error in the clean-up must not discard it.
        with contextlib.suppress(Exception):
            self.ask("finish", self.terms.run_id, tolerates_dropout=True)

    def ask(
        self, method: Method, *arguments: Any, tolerates_dropout: bool, start: Start | None = None
    ) -> dict[str, Any]:
        """Call `method` of all present silos; returns the answers by silo (see `Roster.ask`)."""
        call = MethodCall(method, arguments)
        return self.roster.ask(
            dict.fromkeys(self.roster.present, call), tolerates_dropout=tolerates_dropout, start=start
        )
