"""Columns of dates as numbers: days since the first date of all silos; and times from one column or several.

A date is written year first, day first or month first, with the same mark between its parts, and may have a time of
day. A silo reports which of these orders all its cells allow and, on request, its first date in each of these orders.
The schema has the order that all silos allow and the first date of all silos, so that days mean the same everywhere. A
date with the year first, as databases and spreadsheets export it, is unambiguous. So silos with such dates are
compatible with any order at the other silos.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput, quoted

from .cells import cell_fault

DATE = re.compile(
    r"(?P<a>\d{4}|\d{1,2})(?P<mark>[-/.])(?P<b>\d{1,2})(?P=mark)(?P<c>\d{4}|\d{1,2})(?!\d)"
    r"([T ]+(?P<h>\d{1,2}):(?P<m>\d{2})(:(?P<s>\d{2})(\.\d+)?)?"
    r"(?P<zone> ?(Z|(?P<sign>[+-])(?P<zone_h>\d{2}):?(?P<zone_m>\d{2})?))?)?",
    re.ASCII,
)
ORDERS = {"ymd": "abc", "dmy": "cba", "mdy": "cab"}
"""by order, the groups of `DATE` with year, month and day"""
ISO = "ymd"
"""the order that can be combined with any other order"""
CENTURY = 69
"""smallest two-digit year that belongs to the 20th century, as in POSIX"""
PERIOD = re.compile(
    r"(?P<year>1[5-9]\d\d|2[01]\d\d)([ -]?[Qq](?P<quarter>[1-4])|[-Mm](?P<month>0[1-9]|1[0-2]))", re.ASCII
)
"""a quarter or a month, such as 2001Q3, 1999-04"""
ZONE = re.compile(r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)\s*$", re.ASCII | re.IGNORECASE)
"""a time of day with a time zone, such as 2020-01-31T12:00Z or 2020-01-31 12:00+01:00"""
EXAMPLE = "2020-01-31"
FirstDates = tuple[tuple[str, str], ...]
"""the orders that all cells of a column allow, each with the first date in ISO 8601, or "" if it is not reported"""


def looks_like_date(cell: str) -> bool:
    """Whether `cell` has the form of a date in some order."""
    return DATE.fullmatch(cell.strip()) is not None


def moment(cell: str, order: str) -> datetime | None:
    """The date in `cell`; None if `cell` is not a date in this `order`.

    A time with a time zone is converted to UTC, and a time without one is taken as it is.
    """
    found = DATE.fullmatch(cell.strip())
    if found is None or (len(found["a"]) == 4) != (order == "ymd") or (order == "ymd" and len(found["c"]) > 2):
        return None
    year, month, day = (int(found[group]) for group in ORDERS[order])
    if len(found[ORDERS[order][0]]) <= 2:
        year += 1900 if year >= CENTURY else 2000
    hour, minute, second, zone_hour, zone_minute = (int(found[part] or 0) for part in (*"hms", "zone_h", "zone_m"))
    ahead = timedelta(hours=zone_hour, minutes=zone_minute)
    try:
        local = datetime(year, month, day, hour, minute, second)
        return local + ahead if found["sign"] == "-" else local - ahead
    except (ValueError, OverflowError):
        return None


def first_dates(cells: Iterable[str], *, report: bool) -> FirstDates:
    """The orders in which all `cells` are dates, each with the first date; with "" instead unless `report` is set."""
    given, found = list(cells), []
    for order in ORDERS:
        moments = [moment(cell, order) for cell in given]
        known = [one for one in moments if one is not None]
        if given and len(known) == len(given):
            found.append((order, min(known).date().isoformat() if report else ""))
    return tuple(found)


def common_origin(place: str, name: str, reported: Sequence[FirstDates]) -> tuple[str, str]:
    """The order that all silos allow, and the first date of all silos, from the orders that each silo `reported`.

    Raises `BadInput` for dates of different orders, and for dates in which either number may be the day.
    """
    others = [dict(one) for one in reported if ISO not in dict(one)]
    orders = [order for order in ORDERS if all(order in one for one in others)][: None if others else 1]
    if not orders:
        raise BadInput(f"{place}: column {quoted(name)}: its dates are not of one form: write them as 2020-01-31")
    if len(orders) > 1:
        raise BadInput(
            f"{place}: column {quoted(name)}: in its dates either number may be the day: write them as 2020-01-31"
        )
    order = orders[0]
    return order, min(dict(one).get(ISO) or dict(one)[order] for one in reported)


def days_since(cells: Sequence[str], origin: tuple[str, str]) -> NDArray[np.float64]:
    """The days from the `origin`, an order and the first date, to each of `cells`; NaN for a cell that is no date."""
    start = datetime.fromisoformat(origin[1])
    moments = [moment(cell, origin[0]) or moment(cell, ISO) for cell in cells]
    return np.array([np.nan if one is None else (one - start).total_seconds() / 86_400 for one in moments], np.float64)


def date_faults(cells: Sequence[str], empty: Sequence[bool], origin: tuple[str, str]) -> Mapping[str, str]:
    """By cell, the faults of the `cells` that are neither `empty` nor dates."""
    return {
        cell: f"{quoted(cell)} is not a date like the others of its column"
        for cell, gap in zip(cells, empty, strict=True)
        if not gap and moment(cell, origin[0]) is None and moment(cell, ISO) is None
    }


def period(cell: str) -> float | None:
    """The number of the quarter or month in `cell`, counted in quarters or months; None if `cell` is neither."""
    found = PERIOD.fullmatch(cell.strip())
    if found is None:
        return None
    if found["quarter"]:
        return 4.0 * int(found["year"]) + int(found["quarter"])
    return 12.0 * int(found["year"]) + int(found["month"])


def periods_of(cells: Sequence[str]) -> NDArray[np.float64] | None:
    """The numbers of the periods in all `cells`, if they are all quarters, or all months; else None."""
    numbers = [period(cell) for cell in cells]
    quarters = {"q" in cell.lower() for cell in cells}
    if not cells or None in numbers or len(quarters) > 1:
        return None
    return np.array(numbers, np.float64)


def times_of(cells: Sequence[str]) -> tuple[FloatArray, dict[str, str]]:
    """The times in the distinct `cells` of a column, and the faults of invalid cells.

    The cells may be all numbers, all quarters or all months, such as 2001Q3 and 1999-04; quarters and months are
    numbered. In all other columns with a date (ISO 8601), times are seconds since 1970.
    """
    faults = {cell: fault for cell in cells if (fault := cell_fault(cell))}
    periods = periods_of(cells)
    if periods is not None:
        return periods, {}
    if not faults:
        return np.array([float(cell) for cell in cells], dtype=np.float64), {}
    found, wrong = dates_of(cells)
    if len(wrong) < len(cells):
        return found, wrong
    word, either = "is not a number", f"is neither a number nor a date such as {EXAMPLE}"
    return found, {cell: fault.replace(word, either) for cell, fault in faults.items()}


def dates_of(cells: Sequence[str]) -> tuple[FloatArray, dict[str, str]]:
    """The dates (ISO 8601) in the distinct `cells` as seconds since 1970, and the faults of invalid cells.

    If some cells have a time zone, cells without one are invalid, because the difference to them is unknown.
    """
    import pandas as pd  # imported late: data without times do not need it

    dates = pd.to_datetime(pd.Series(cells, dtype=object), format="ISO8601", errors="coerce", utc=True)
    seconds = np.asarray((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1), dtype=np.float64)
    wrong = [cell for cell, missing in zip(cells, dates.isna(), strict=True) if missing]
    fault = f"is not a date such as {EXAMPLE} or {EXAMPLE}T12:00"
    faults = {cell: f"{quoted(cell)} {fault}" if cell.strip() else "the cell is empty" for cell in wrong}
    zoned = [bool(ZONE.search(cell)) for cell in cells]
    if any(zoned) and not all(zoned):
        lacks = "has no time zone, but other times have one"
        faults |= {cell: f"{quoted(cell)} {lacks}" for cell, one in zip(cells, zoned, strict=True) if not one} | faults
    return seconds, faults


UNITS: dict[str, tuple[int, int]] = {
    "year": (1000, 2999),
    "quarter": (1, 4),
    "month": (1, 12),
    "day": (1, 31),
    "day of the year": (1, 366),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}
"""by part of a time, its least and greatest number"""
UNIT_WORDS = {
    "year": ("year", "yr", "jahr", "annee", "année", "ano", "año"),
    "quarter": ("quarter", "qtr", "quartal"),
    "month": ("month", "mon", "mo", "mth", "monat", "mois", "mes"),
    "day": ("day", "dy", "mday", "tag", "jour", "dia", "día"),
    "day of the year": ("doy", "yday", "julian"),
    "hour": ("hour", "hr", "stunde", "heure", "hora"),
    "minute": ("minute", "min"),
    "second": ("second", "sec", "sekunde"),
}
DATE_PART = "date"
FINER = ("hour", "minute", "second")
PARTS_OF_TIMES = (
    ("year", "quarter"),
    *[("year", "month", "day", *FINER)[:n] for n in range(2, 7)],
    *[("year", "day of the year", *FINER)[:n] for n in range(2, 6)],
    *[(DATE_PART, *FINER)[:n] for n in range(2, 5)],
)
"""the parts of times that several columns can have together"""


def time_unit(name: str) -> str | None:
    """The part of a time that a column has by its `name`, such as "month" for obs_month; None for other names."""
    words = re.split(r"[ _.-]+", name.casefold())
    if "week" in words:
        return None
    if words[-4:] == ["day", "of", "the", "year"] or words[-3:] == ["day", "of", "year"]:
        return "day of the year"
    return next((unit for word in words for unit, known in UNIT_WORDS.items() if word in known), None)


def unit_fault(cell: str, unit: str) -> str | None:
    """The fault of a cell that should be the number of a `unit`, or a date; None if it is one."""
    if unit == DATE_PART:
        return None if looks_like_date(cell) else "the cell is empty"
    least, most = UNITS[unit]
    fault = cell_fault(cell)
    if fault is None and not (float(cell).is_integer() and least <= float(cell) <= most):
        fault = f"{quoted(cell)} is not a valid {unit}, a whole number from {least} to {most}"
    return fault


def time_text(parts: Mapping[str, str]) -> str:
    """The time with these `parts` (`PARTS_OF_TIMES`), in a form that `times_of` reads.

    The day of a month may not exist; `times_of` then finds the fault.
    """
    numbers = {unit: int(float(cell)) for unit, cell in parts.items() if unit != DATE_PART}
    if "quarter" in numbers:
        return f"{numbers['year']}Q{numbers['quarter']}"
    if len(numbers) == 2 and "month" in numbers:
        return f"{numbers['year']}-{numbers['month']:02}"
    day = parts.get(DATE_PART, "").strip()
    if "day of the year" in numbers:
        date = datetime(numbers["year"], 1, 1) + timedelta(numbers["day of the year"] - 1)
        day = date.date().isoformat()
    elif not day:
        day = f"{numbers['year']}-{numbers['month']:02}-{numbers['day']:02}"
    clock = [f"{numbers.get(unit, 0):02}" for unit in FINER]
    return f"{day}T{':'.join(clock)}" if "hour" in numbers else day
