"""Codes that may mark missing values, such as -9, 99, 999, "unknown" and "k.A.", as suggestions to the owner.

Suggestions are not applied. `inspect` prints the entry of `about.json` that declares the codes. It does so only for a
folder on this machine, because a code and its count disclose rows.

The rules are our own. A number is suggested if programs and questionnaires use it as a code (`CODES`), if it is
repeated in its column, and if it is far outside the range of the values that are not such codes.

- Among few whole numbers, a code is far if its distance is at least `MIN_STEPS` and at least `FAR` of the range, and if
  enough cells have it.
- Among other numbers, a code is far if its distance is at least `FAR` of the range, or if it is below −1 and the other
  values are not negative. It must also be a spike: `MIN_SPIKE` times as frequent as the nearest value (beside a
  negative code: other than zero).

A code of more than one digit that is outside the range in several columns (`MIN_COLUMNS`) need not be far. A label is
suggested if it is one of the words of `WORDS`, or a code among words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.statistics.moments import chunks

from .cells import WHOLE, fold_spelling

CODES = frozenset(
    sign * code
    for digit in (7, 8, 9)
    for length in range(1, 7)
    for code in (int("9" * (length - 1) + str(digit)), int(str(digit) * length))
    for sign in (1, -1)
) | {-1}
"""numbers that may mark missing values: repeated digits, as in 99 and 888, nines before a last digit, as in 998; -1"""
FAR, MIN_STEPS, MIN_COLUMNS = 0.5, 3, 2
"""minimum distance of a code from the other values as a fraction of their range; minimum distance among few whole
numbers; minimum number of columns in which a code that is not far is outside the range"""
MIN_COUNT, MIN_SPIKE, MIN_SHARE = 2, 2.0, 0.005
"""minimum number of cells with a code (one more among few whole numbers); minimum ratio of this number to the number of
cells with the nearest value; minimum share of cells with a code among few whole numbers"""
MAX_STEPS = 12
"""maximum range of whole numbers that count as few"""
WORDS = frozenset(
    fold_spelling(word)
    for word in (
        *("unknown", "unk", "unkn", "not known", "unspecified", "missing", "not available", "n.a.", "n.a", "n/k", "nk"),
        *(
            "no answer",
            "not answered",
            "no response",
            "refused",
            "refusal",
            "don't know",
            "dont know",
            "do not know",
            "dk",
        ),
        *("not stated", "not recorded", "not reported", "not specified", "no data", "no information", "undetermined"),
        *("k.A.", "k. A.", "kA.", "keine Angabe", "keine Angaben", "unbekannt", "weiß nicht", "weiss nicht", "fehlt"),
        *("fehlend", "nicht bekannt", "nicht erhoben", "keine Antwort", "o.A.", "ohne Angabe"),
        *("inconnu", "inconnue", "non renseigné", "non renseignée", "manquant", "ne sait pas", "n.r.", "non précisé"),
        *("desconocido", "desconocida", "sin datos", "sin información", "no sabe", "ns/nc", "no consta", "no contesta"),
        *("sconosciuto", "sconosciuta", "non noto", "mancante", "non disponibile", "n.d.", "nd", "non rilevato"),
        *("desconhecido", "desconhecida", "ignorado", "sem informação", "não informado", "sem dados"),
        *(
            "onbekend",
            "geen antwoord",
            "weet niet",
            "ukendt",
            "ukjent",
            "okänd",
            "okänt",
            "vet ej",
            "tuntematon",
            "ei tietoa",
        ),
        *("nieznany", "nieznane", "brak danych", "neznámý", "neznámé", "nezjištěno", "ismeretlen", "bilinmiyor"),
        *(
            "неизвестно",
            "нет данных",
            "не указано",
            "невідомо",
            "不明",
            "未知",
            "未回答",
            "缺失",
            "미상",
            "모름",
            "غير معروف",
        ),
        *("#value!", "#ref!", "#div/0!", "#name?", "#num!", "--", "---", "..", "...", "??", "???", "xx", "xxx"),
    )
)
"""folded spellings of words that mark missing values, in several languages, and the errors of spreadsheets"""


def is_missing_word(cell: str) -> bool:
    """Whether a cell is a word for a missing value in some language."""
    return fold_spelling(cell) in WORDS


@dataclass(frozen=True)
class MissingCode:
    """A cell that may mark a missing value in `column`, and the number of rows that have it."""

    column: str
    cell: str
    rows: int


def missing_codes(schema: Schema, tables: Mapping[str, Any], skipped: Sequence[str] = ()) -> tuple[MissingCode, ...]:
    """The cells of `tables` `[n_rows, n_variables]` that may mark missing values, except in `skipped` columns."""
    left_out = (*schema.dates, *skipped)
    counts = {name: _counts(schema, tables, v) for v, name in enumerate(schema.variables) if name not in left_out}
    found = [one for name, pair in counts.items() if name in schema.levels for one in _words(name, pair)]
    parsed = {name: _as_numbers(pair) for name, pair in counts.items()}
    numbers = {name: pair for name, pair in parsed.items() if pair is not None}
    outside = {name: outside_codes(*pair) for name, pair in numbers.items()}
    for name, codes in outside.items():
        for code, is_far in codes.items():
            columns = sum(code in others for others in outside.values())
            if is_far or columns >= MIN_COLUMNS:
                values, rows = numbers[name]
                found.append(MissingCode(name, f"{code:g}", int(rows[values == code].sum())))
    order = {name: place for place, name in enumerate(schema.variables)}
    return tuple(sorted(found, key=lambda one: (order[one.column], one.cell)))


def declaration_of(codes: Sequence[MissingCode], declared: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The entry `missing` of `about.json` for the columns of `codes`, including the marks already `declared`."""
    found: dict[str, list[Any]] = {}
    for one in codes:
        cells = found.setdefault(one.column, list(declared.get(one.column, ())))
        cells += [one.cell] if one.cell not in map(str, cells) else []
    return found


Counts = tuple[Any, Any]
"""distinct values or labels of a column, and the number of rows of each"""


def _counts(schema: Schema, tables: Mapping[str, Any], v: int) -> Counts:
    """The labels or numbers of column `v` at all silos, in order; of streamed tables, only the first rows count."""
    heads = [table if isinstance(table, np.ndarray) else next(iter(chunks(table))) for table in tables.values()]
    column = np.concatenate([np.asarray(head[:, v], np.float64) for head in heads])
    levels = schema.levels.get(schema.variables[v])
    values, rows = np.unique(column[~np.isnan(column)], return_counts=True)
    if levels is None:
        return values, rows
    known = values >= 0
    return np.array([levels[int(code)] for code in values[known]], dtype=object), rows[known]


def _as_numbers(pair: Counts) -> Counts | None:
    """The counts of a column whose values are numbers, in their order; None if the column has other labels."""
    values, rows = pair
    if values.dtype != object:
        return pair if len(values) else None
    if not len(values) or not all(WHOLE.fullmatch(label) for label in values):
        return None
    numbers = np.array([float(label) for label in values])
    order = np.argsort(numbers)
    return numbers[order], rows[order]


def _words(name: str, pair: Counts) -> list[MissingCode]:
    """The labels of a column that are words for missing values, or codes among words."""
    labels, rows = pair
    words = [label for label in labels if not WHOLE.fullmatch(label)]
    known = [
        is_missing_word(label) or (len(words) > 1 and bool(WHOLE.fullmatch(label)) and int(label) in CODES)
        for label in labels
    ]
    # Numbers beside words are codes only if all these numbers are codes: in "1 2 3 more" they are labels.
    plain = sum(bool(WHOLE.fullmatch(label)) and int(label) not in CODES for label in labels)
    return [
        MissingCode(name, label, int(count))
        for label, count, is_known in zip(labels, rows, known, strict=True)
        if is_known and not (plain and WHOLE.fullmatch(label))
    ]


def outside_codes(values: FloatArray, rows: Any) -> dict[int, bool]:
    """The repeated codes outside the range of the other `values`, and whether each code is far from this range."""
    low, high = 0, len(values)
    while low < high and values[low] < 0 and float(values[low]) in CODES:
        low += 1
    while high > low and values[high - 1] > 0 and float(values[high - 1]) in CODES:
        high -= 1
    inner, inner_rows = values[low:high], rows[low:high]
    if len(inner) < 2:
        return {}
    span, total = float(inner[-1] - inner[0]), int(rows.sum())
    few = bool((inner == np.rint(inner)).all()) and span <= MAX_STEPS
    found = {}
    for place in (*range(low), *range(high, len(values))):
        value, count = float(values[place]), int(rows[place])
        edge = 0 if place < low else -1
        distance = abs(value - float(inner[edge]))
        if count < MIN_COUNT or (value == -1 and span <= 2) or (value < 0 and inner[0] < 0 and distance < FAR * span):
            continue
        if few:
            is_far = distance >= max(MIN_STEPS, FAR * span) and count >= max(MIN_COUNT + 1, MIN_SHARE * total)
        else:
            negative = value < -1 and inner[0] >= 0
            # Zeros beside a negative code may be another mark, and many.
            nearest = 1 if negative and inner[0] == 0 else edge
            is_far = (distance >= FAR * span or negative) and count >= MIN_SPIKE * int(inner_rows[nearest])
        if is_far or (distance > 1 and abs(value) > 9):  # 7 to 9 must be far: several columns may count so far
            found[int(value)] = is_far
    return found
