"""The messages between a coordinator and a silo, as bytes: a closed table of calls, answers and errors.

A silo has one remote function, `answer`: bytes in, bytes out. A call is the name of a method of `SiloService` and its
arguments, whose types `ARGUMENTS` fixes. An answer is a value of the method's type in `ANSWERS`, or an error of a type
in `ERRORS` with its text. Bytes that are anything else are refused before anything is built from them
(`algorithms/core/wire.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, get_args

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.core.release import Disclosed, Statistic
from fedbnsl.algorithms.errors import MAX_LINE_LENGTH, BadInput, foreign_text
from fedbnsl.algorithms.privacy.ledger import Overspent
from fedbnsl.algorithms.secure.masks import Aborted, Refused
from fedbnsl.data.folder.about import Declared
from fedbnsl.data.folder.events import DescribedEvents
from fedbnsl.data.folder.series import DescribedSeries

from .policy import NotAllowed
from .private_folder import BadRecord, RecordUnavailable
from .publications import FewRowsChanged
from .readers import ReaderLost
from .rows import Described, DescribedPooled
from .runs import RunTerms, require_run_name
from .secure_sums import SecureSumRequest
from .signed_records import SignedRecord

PROTOCOL_VERSION = 1
"""the version of everything that coordinator and silos send each other; both need the same one"""
MAX_CALL_BYTES = 1 << 30
"""maximum number of bytes of a call that a silo decodes"""


class SiloFailed(BadInput):
    """A silo could not answer; the message has its name and the error, without a traceback."""


class RowsChanged(BadInput):
    """A silo's rows have changed since a run began."""


class Answering(Protocol):
    """A silo's service, as far as its messages need it."""

    name: str

    def record_message(self, run_id: str, statistic: Statistic, size: int) -> None:
        """Record that a message leaves that is no reply of a round."""
        ...


Method = Literal["describe", "admit", "seal", "solve", "secure_answer", "charges", "releases", "sign", "finish"]
"""the methods of `SiloService` that a coordinator may call"""
METHODS: tuple[str, ...] = get_args(Method)
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "describe": (Declared,),
    "admit": (RunTerms, bool),
    "seal": (str,),
    "solve": (RunTerms, int, bytes),
    "secure_answer": (RunTerms, int, SecureSumRequest),
    "charges": (str | None,),
    "releases": (str,),
    "sign": (str, dict[str, str]),
    "finish": (str,),
}
"""the types of the arguments of each method"""
ANSWERS: dict[str, tuple[Any, ...]] = {
    "describe": (Described, DescribedPooled, DescribedSeries, DescribedEvents),
    "admit": (type(None),),
    "seal": (str,),
    "solve": (bytes,),
    "secure_answer": (bytes,),
    "charges": (tuple[Charge, ...],),
    "releases": (tuple[Disclosed, ...],),
    "sign": (SignedRecord,),
    "finish": (type(None),),
}
"""the types that the answer of each method may have"""
ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        *(BadInput, NotAllowed, FewRowsChanged, RowsChanged, BadRecord, RecordUnavailable, ReaderLost, Overspent),
        *(SiloFailed, Aborted, Refused),
    )
}
"""the exceptions that an answer may have instead of a value"""


@dataclass(frozen=True)
class MethodCall:
    """A method of `SiloService` by name, and the arguments to call it with."""

    method: Method
    arguments: tuple[Any, ...] = ()

    def on(self, service: Any) -> Any:
        """Call the method of `service`; raises `ValueError` for a method that is not in `METHODS`."""
        if self.method not in METHODS:
            raise ValueError(f"a coordinator cannot call '{self.method}' of a silo; allowed: {', '.join(METHODS)}")
        return getattr(service, self.method)(*self.arguments)

    @property
    def run(self) -> str:
        """The run to which the call belongs; "" for a call outside of runs."""
        first = self.arguments[0] if self.arguments else ""
        return first.pinned_run if isinstance(first, RunTerms) else first if isinstance(first, str) else ""

    def pack(self) -> bytes:
        """The call as bytes."""
        parts = (one.packed if isinstance(one, RunTerms) else wire.encode(one) for one in self.arguments)
        return wire.encode((self.method, tuple(parts)))


@lru_cache(maxsize=8)
def _terms(packed: bytes) -> RunTerms:
    """The terms `packed`, decoded once for all calls with the same bytes."""
    return wire.decode(RunTerms, packed)


def unpack_call(packed: bytes) -> MethodCall:
    """The call in `packed`; raises `ValueError` for anything else."""
    if len(packed) > MAX_CALL_BYTES:
        raise ValueError(f"a call has more than {MAX_CALL_BYTES:,} bytes")
    method, parts = wire.decode(tuple[str, tuple[bytes, ...]], packed)
    if method not in ARGUMENTS or len(parts) > len(ARGUMENTS[method]):
        raise ValueError(f"no call of a coordinator; allowed: {', '.join(METHODS)}")
    kinds = zip(ARGUMENTS[method], parts, strict=False)
    arguments = tuple(_terms(part) if kind is RunTerms else wire.decode(kind, part) for kind, part in kinds)
    for name in arguments:
        if isinstance(name, str):
            require_run_name(name)
    return MethodCall(method, arguments)  # type: ignore[arg-type]


def answer(service: Answering, packed: bytes, log: Callable[[str], None] = lambda line: None) -> bytes:
    """The answer of `service` to the call in `packed`, as bytes; it raises no error but `MemoryError`.

    `log` gets one line for each call that the silo refuses, and for each error whose text it does not send.
    """
    try:
        call = unpack_call(packed)
    except (ValueError, RecursionError, MemoryError) as error:
        reason = error if isinstance(error, BadInput) else type(error).__name__
        refusal = NotAllowed(f"silo {service.name}: what it received is not a call of this version ({reason})")
        return refuse(service, refusal, log)
    try:
        value = call.on(service)
        kind = next(at for at, kind in enumerate(ANSWERS[call.method]) if _is_a(value, kind))
        content = wire.encode(value)
        if value is not None and call.method not in ("solve", "secure_answer"):  # the gate has recorded these
            statistic: Statistic = "description" if call.method == "describe" else "records"
            service.record_message(call.run, statistic, len(content))
        return wire.encode(("", kind, content))
    except MemoryError:
        log("error: there is not enough memory for a call")
        raise
    except Exception as error:
        known = isinstance(error, (*ERRORS.values(),))
        log(f"refused: {error}" if known else f"error: {call.method}: {type(error).__name__}: {error}")
        return _refused(service, call.run, error)


def refuse(service: Answering, refusal: NotAllowed, log: Callable[[str], None]) -> bytes:
    """The answer to any call with which `service` refuses it, as bytes; `log` gets a line."""
    log(f"refused: {refusal}")
    return _refused(service, "", refusal)


def _is_a(value: Any, kind: Any) -> bool:
    return isinstance(value, kind if isinstance(kind, type) else tuple)


def _refused(service: Answering, run: str, error: Exception) -> bytes:
    """`error` as bytes: the nearest type in `ERRORS` and its text; of any other error, only the name of its type."""
    name = next((one.__name__ for one in type(error).__mro__ if one.__name__ in ERRORS), None)
    text = str(error) if name else f"silo {service.name}: {type(error).__name__}; its owner sees why in the log"
    content = text.encode(errors="replace")
    with suppress(BadInput):
        service.record_message(run, "refusals", len(content))
    return wire.encode((name or SiloFailed.__name__, 0, content))


def unpack_answer(method: str, packed: bytes, sender: str = "a silo") -> Any:
    """The value in an answer to `method`; raises the silo's error, and `SiloFailed` if the bytes are no answer."""
    try:
        error, kind, content = wire.decode(tuple[str, int, bytes], packed)
        if not error:
            return wire.decode(dict(enumerate(ANSWERS[method]))[kind], content)
        kind_of_error = ERRORS[error]
    except (ValueError, TypeError, LookupError, RecursionError, MemoryError) as fault:
        raise SiloFailed(f"the answer of {sender} to `{method}` cannot be read ({type(fault).__name__})") from None
    text = foreign_text(content.decode(errors="replace"), MAX_LINE_LENGTH)
    if issubclass(kind_of_error, Aborted) and method != "secure_answer":
        raise SiloFailed(f"{sender}: {text}")
    raise kind_of_error(text)


for _kinds in (*ARGUMENTS.values(), *ANSWERS.values()):
    for _kind in _kinds:
        wire.prepare(_kind)
