"""Words that mark a missing value in one table and are a label in another, such as None and NA.

`labels_among_marks` decides from the profiles of all silos, so that every silo reads a word alike. Both decisions
become notes, with the declaration that overrides them; so does every other cell with content that is read as missing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import shown
from fedbnsl.algorithms.privacy.disclosure_control import share_class

from .about import Declared
from .joint_columns import JointColumn
from .profile import Profile
from .scan import MISSING, MISSING_WORDS, fold_spelling, missing_words

MAX_LISTED = 6
"""columns or labels that a note lists"""
MAX_LISTED_MARKS = 30
"""columns that the note on marks of missing values lists"""

MIN_COMMON_COLUMNS = 2
"""columns of words that may all have a word among their labels"""

Columns = Mapping[str, JointColumn]


def labels_among_marks(columns: Columns, declared: Declared) -> dict[str, tuple[str, ...]]:
    """By column of words, the words that are labels in it, although they mark missing values among numbers.

    A word such as None or NA among other labels is a label, unless there is evidence that it marks missing values:
    it does so among the numbers of another column, or it is a mark that programs write (all but "none") and its column
    has other empty cells, or most columns of words have it. The rule depends on all silos together. Declared levels and
    marks take precedence.
    """
    texts = [name for name, column in columns.items() if column.has_words and declared.kind_of(name) != "continuous"]
    words = {name: {fold_spelling(mark) for mark in columns[name].marks} & MISSING_WORDS for name in columns}
    counts = Counter(word for name in texts for word in words[name])
    among_numbers = {word for name in columns if columns[name].numbers and name not in texts for word in words[name]}
    common = {word for word, count in counts.items() if count > max(MIN_COMMON_COLUMNS, len(texts) / 2)}
    found = {}
    for name in texts:
        if name in declared.levels or name in declared.marks:
            continue
        others = columns[name].empty > sum(
            n for mark, n in columns[name].marks.items() if fold_spelling(mark) in MISSING_WORDS
        )
        doubtful = words[name] - {"none"} if others else words[name] & common - {"none"}
        found[name] = tuple(sorted(words[name] - among_numbers - doubtful))
    return {name: labels for name, labels in found.items() if labels}


def with_words(profile: Profile, words: Mapping[str, tuple[str, ...]]) -> Profile:
    """`profile` if, by column, the marks `words` are labels."""
    columns = {name: column.with_words(words.get(name, ())) for name, column in profile.columns.items()}
    return replace(profile, columns=columns)


def label_notes(schema: Schema, columns: Columns, declared: Declared) -> Iterator[str]:
    """A note on each label that marks a missing value in other columns."""
    inferred = {name: missing_words(levels) for name, levels in schema.levels.items() if name not in declared.levels}
    by_word: dict[str, list[str]] = {}
    for name, words in inferred.items():
        for word in words if declared.marks.get(name) is None else ():
            by_word.setdefault(word, []).append(name)
    for word, names in by_word.items():
        yield (
            f"{listed(names)}: the label {shown(word)} is a level beside other labels; if it marks a missing value, "
            f'declare {{"missing": {{"{names[0]}": ["{word}"]}}}} in about.json'
        )


def mark_notes(schema: Schema, columns: Columns, declared: Declared) -> Iterator[str]:
    """A note on the cells with content that are read as missing, and one on those that may be labels."""
    marks = {name: _undeclared_marks(columns[name]) for name in schema.variables}
    shares = [_mark_shares(name, columns[name], counts) for name, counts in marks.items() if counts]
    if shares:
        yield f"read as missing: {listed(shares, MAX_LISTED_MARKS)}"
    words = [name for name in schema.levels if missing_words(marks[name]) and not declared.marks.get(name)]
    if words:
        yield (
            f"{listed(words)}: if the words read as missing are labels, declare "
            f'{{"missing": {{"{words[0]}": []}}}} in about.json: then only cells without content are missing'
        )


def _undeclared_marks(column: JointColumn) -> dict[str, int]:
    return {mark: count for mark, count in sorted(column.marks.items()) if mark.lower() in MISSING}


def _mark_shares(name: str, column: JointColumn, counts: Mapping[str, int]) -> str:
    """A column with each of its marks of missing values, and the class of its share."""
    rows = column.filled + column.empty
    shares = (f"{shown(mark)} {share_class(count / rows)}" for mark, count in counts.items())
    return f"{name} ({listed(shares)})"


def listed(names: Iterable[str], most: int = MAX_LISTED) -> str:
    """The first `most` of `names`, and how many there are more."""
    all_names = list(names)
    more = f" and {len(all_names) - most} more" if len(all_names) > most else ""
    return ", ".join(all_names[:most]) + more
