"""The messages of the four phases, and parsing them with errors that name the sender."""

from dataclasses import dataclass
from typing import TypeGuard, TypeVar

import numpy as np

from ..core import wire
from .masks import Aborted, Ring

T = TypeVar("T")


@dataclass(frozen=True)
class PublicKeys:
    """What a silo advertises: 32 bytes each.

    `commitment` is a hash of its self-mask's seed, which exposes a seed combined from wrong shares, as `mask` exposes a
    wrong mask key.
    """

    cipher: bytes
    mask: bytes
    commitment: bytes

    def pack(self) -> bytes:
        """The 96 bytes that travel."""
        return self.cipher + self.mask + self.commitment


@dataclass(frozen=True)
class Revealed:
    """A silo's answer in phase 4: a share of every other's self-mask seed or of its mask key, and never of both."""

    self_masks: dict[str, bytes]
    mask_keys: dict[str, bytes]


def public_keys(packed: bytes, silo: str) -> PublicKeys:
    """Return what `silo` advertised; raises `Aborted` if it has another length."""
    if len(packed) != 96:
        raise Aborted(f"{silo} advertised {len(packed)} bytes of keys: they are 96")
    return PublicKeys(packed[:32], packed[32:64], packed[64:])


def read(kind: type[T], packed: bytes, sender: str) -> T:
    """The message of type `kind` in `packed`; raises `Aborted`, naming `sender`, if it holds none."""
    try:
        value = wire.decode(kind, packed)
    except (ValueError, TypeError, KeyError) as error:
        raise Aborted(f"{sender} sent something unreadable: {error}") from None
    if not isinstance(value, kind):
        raise Aborted(f"{sender} sent no {kind.__name__}")
    return value


def read_by_silo(packed: bytes, sender: str) -> dict[str, bytes]:
    """The bytes by silo in `packed`; raises `Aborted`, naming `sender`, if it holds something else."""
    table: object = read(dict, packed, sender)
    if not _is_by_silo(table):
        raise Aborted(f"{sender} sent no bytes by silo")
    return table


def read_revealed(packed: bytes, sender: str) -> Revealed:
    """The shares revealed in `packed`; raises `Aborted`, naming `sender`, if it holds something else."""
    revealed = read(Revealed, packed, sender)
    if not _is_by_silo(revealed.self_masks) or not _is_by_silo(revealed.mask_keys):
        raise Aborted(f"{sender} sent no shares by silo")
    return revealed


def read_names(packed: bytes, sender: str) -> tuple[str, ...]:
    """The silos named in `packed`; raises `Aborted`, naming `sender`, if it holds something else."""
    names: tuple[object, ...] = read(tuple, packed, sender)
    if not all(isinstance(silo, str) for silo in names):
        raise Aborted(f"{sender} sent no names of silos")
    return names  # type: ignore[return-value]


def read_vector(packed: bytes, sender: str) -> Ring:
    """The masked vector in `packed`; raises `Aborted`, naming `sender`, if it holds something else."""
    vector = read(np.ndarray, packed, sender)
    if vector.dtype != np.uint64 or vector.ndim != 1:
        raise Aborted(f"{sender} sent an array of {vector.dtype} {vector.shape}: it must be a vector of uint64")
    return vector


def _is_by_silo(table: object) -> TypeGuard[dict[str, bytes]]:
    return isinstance(table, dict) and all(isinstance(k, str) and isinstance(v, bytes) for k, v in table.items())
