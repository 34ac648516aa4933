"""A silo's protection from a malicious coordinator: its owner's declarations, known members, and redaction.

A coordinator sends declarations, schemas, specifications and lists of silos. On its owner's machine a silo checks each
of them before it touches a row:

- Under a policy, the owner declares kinds, levels and marks of missing values (`about.json`). If a coordinator could
  choose marks or kinds, it could count any value, or list the values of a column.
- Under a policy with a finite ε, and for every private algorithm, tables are read privately (`private_table.py`).
- The noise of a secure sum is shared, so the other silos must be real. An owner pins them by the fingerprints of their
  certificates (`Members`). Silos sign their mask keys with the keys of these certificates, which an invented silo does
  not have. If the owner pins nobody, the silo's own noise must suffice alone, as if all other silos colluded.
- Errors about rows go to the owner's log. The coordinator gets one line without path, cell or reason.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.algorithms.privacy.zcdp import largest_coalition
from fedbnsl.algorithms.statistics.moments import Chunked, Divided, Found
from fedbnsl.data.folder.about import NO_DECLARATION, Declared
from fedbnsl.data.folder.cells import missing_words

from .members import Members
from .policy import UNRESTRICTED, NotAllowed, Policy
from .private_folder import BadRecord
from .readers import ReaderLost
from .rows import AnyDescribed, Described, DescribedPooled
from .runs import RunTerms
from .signed_records import Signer

MIN_DESCRIBED_ROWS = 10
"""minimum number of rows for a description by a silo under a policy: a description of one row would disclose the row"""
AGREED = (
    "kind",
    "columns",
    "levels",
    "marks",
    "unit",
    "join",
    "form",
    "step",
    "window",
    "stretches",
    "transforms",
    "targets",
)
"""the parts of the coordinator's declaration that, under a policy, must be empty or equal those of the owner"""
KINDS = ("kind", "columns", "levels", "stretches")
"""the parts that a coordinator may declare for an owner who declares nothing"""
REQUESTED = ("complete", "words", "fixed_transforms", "fixed_dates")
"""the parts of a request for complete rows, which repeats what was inferred from the first descriptions"""
BY_SILO = ("rename", "recode", "scale", "sheets")
"""the parts that are declared for each silo; a silo checks only its own"""


@dataclass(frozen=True)
class Guard:
    """The checks of one silo; the defaults are for a silo whose owner also runs the coordinator."""

    policy: Policy = UNRESTRICTED
    declared: Declared | None = None
    """the owner's own declaration of the rows; None if there is none"""
    members: Members | None = None
    remote: bool = False
    """whether coordinator and owner are different parties"""
    signer: Signer | None = None
    """the owner's identity, which signs records of runs; None for a silo without a certificate"""
    log: Callable[[str], None] = print
    """the owner's log, with the reasons why rows could not be used"""

    @property
    def restricted(self) -> bool:
        """Whether the owner has set a policy."""
        return self.policy != UNRESTRICTED

    def changed_rows(self, terms: RunTerms) -> int:
        """The minimum number of rows that must change between two publications without an ε; 0 means no minimum.

        An owner who runs the coordinator and has set no policy can see all rows anyway. In this case, the minimum is
        that of the terms, which scheduled runs set.
        """
        own = self.policy.changed_rows if self.remote or self.restricted else 0
        return max(own, terms.changed_rows)

    def declaration(self, silo: str, declared: Declared) -> Declared:
        """The declaration by which the silo describes or reads its rows.

        If the coordinator is another party, or under a policy, this is the owner's declaration, of which the request
        may leave out further columns and choose among the options of reading. Raises `NotAllowed` for a part of
        `declared` that differs from the owner's, for a selection of rows (`--by`), for a column of times that the
        coordinator names (`--time`), for a column of conditions that the owner does not declare, and for words that
        are not marks of missing values. If the owner declares nothing and has no policy, kinds and levels may be those
        of the coordinator, as far as the cells have them (`facts.py`).
        """
        if self.policy.describes_names_only:
            declared = replace(declared, reading=replace(declared.reading, private=True))
        own = self.declared or NO_DECLARATION
        if not (self.remote or self.restricted):
            return declared.at_silo(silo)
        if self.remote:
            self._check_selection(silo, declared)
        self._check_condition(silo, declared, own)
        self._check_cluster(silo, declared, own)
        for key in BY_SILO:
            if getattr(declared, key).get(silo, getattr(own, key).get(silo)) != getattr(own, key).get(silo):
                raise self._not_agreed(silo, key)
        free = () if self.restricted else ("targets",) if self.declared is not None else ("targets", *KINDS)
        for key in AGREED:
            requested = getattr(declared, key)
            # A request for complete rows repeats the kinds that were inferred from the first description.
            inferred = key == "columns" and declared.complete
            if requested and not inferred and key not in free and requested != getattr(own, key):
                raise self._not_agreed(silo, key)
        if self.policy.masked and declared.reading.columns == "union" and own.reading.columns != "union":
            raise NotAllowed(
                f"silo {silo}: its owner's policy refuses --columns union: masks do not hide a column that one silo has"
            )
        named = sorted(
            {*declared.reading.only, *(one for one, _ in declared.reading.transforms)} & {*own.reading.ignore}
        )
        if named:
            raise NotAllowed(f"silo {silo}: its owner's about.json ignores column {quoted(named[0])}")
        if any(missing_words(words) != words for words in declared.words.values()):
            raise self._not_agreed(silo, "marks of missing values")
        # Which of the owner's files are read is not for the coordinator to say.
        reading = replace(declared.reading.also_ignoring(own.reading.ignore), silos=own.reading.silos)
        changes: dict[str, Any] = {key: getattr(declared, key) for key in (*free, *REQUESTED) if getattr(declared, key)}
        return replace(own, reading=reading, **changes).at_silo(silo)

    @staticmethod
    def _check_selection(silo: str, declared: Declared) -> None:
        """Raise `NotAllowed` for options by which the coordinator would select rows, or order them by a column."""
        if declared.reading.by is not None:
            raise NotAllowed(
                f"silo {silo}: a coordinator cannot select rows by a column (--by) of another owner's data"
            )
        if declared.reading.time:
            raise NotAllowed(
                f"silo {silo}: a coordinator cannot name the column of times (--time) of another owner's data: its "
                "owner names the column 'time'"
            )

    def _check_condition(self, silo: str, declared: Declared, own: Declared) -> None:
        """Raise `NotAllowed` unless the coordinator names the same column of conditions as the owner."""
        theirs, ours = declared.reading.conditions_column, own.reading.condition
        if theirs is None and (ours is None or declared.reading.targets == ()):
            return
        self._check_same_column(silo, "conditions", "--condition", theirs, ours)

    def _check_cluster(self, silo: str, declared: Declared, own: Declared) -> None:
        """Raise `NotAllowed` unless the coordinator names the same column of clusters as the owner."""
        self._check_same_column(silo, "clusters", "--cluster", declared.reading.cluster, own.reading.cluster)

    def _check_same_column(self, silo: str, of: str, option: str, theirs: str | None, ours: str | None) -> None:
        if theirs == ours or not self.remote:
            return
        has = f"no column of {of}" if ours is None else f"the column of {of} '{ours}'"
        raise NotAllowed(
            f"silo {silo}: its owner's about.json declares {has}, but the coordinator names "
            f"{'none' if theirs is None else repr(theirs)} ({option}): agree on one about.json"
        )

    @staticmethod
    def _not_agreed(silo: str, key: str) -> NotAllowed:
        return NotAllowed(
            f"silo {silo}: its owner refuses the declared {key}: they differ from the owner's "
            "about.json; agree on one about.json"
        )

    def disclosed(self, silo: str, described: AnyDescribed) -> AnyDescribed:
        """The description as the silo sends it.

        Raises `NotAllowed` if, under a policy, the silo or one of its conditions has too few rows.
        """
        least = max(self.policy.rows, MIN_DESCRIBED_ROWS)
        if self.restricted and described.rows < least:
            raise NotAllowed(f"silo {silo}: its owner's policy refuses to describe fewer than {least} rows")
        if isinstance(described, DescribedPooled) and self.policy.describes_names_only:
            raise NotAllowed(f"silo {silo}: its owner's policy describes no rows of several silos together")
        if isinstance(described, Described):
            described = replace(
                described,
                pins_members=not self.remote or self.members is not None,
                suppresses_cells=self.policy.cells > 1,
                names_only=self.policy.describes_names_only,
                level=self.policy.level,
            )
            for _, rows in described.profile.conditions:
                if self.restricted and rows < least:
                    raise NotAllowed(
                        f"silo {silo}: its owner's policy refuses to describe fewer than {least} rows, and a condition "
                        "has fewer"
                    )
            described = self._with_targets(silo, described)
            if self.remote:
                columns = {name: replace(column, odd="") for name, column in described.profile.columns.items()}
                described = replace(described, profile=replace(described.profile, columns=columns))
        return described

    def _with_targets(self, silo: str, described: Described) -> Described:
        """The description with the targets that the owner declares for the rows, or for each of their conditions."""
        if self.declared is None:
            return described
        if self.declared.reading.condition is None:
            return replace(described, targets=tuple(self.declared.targets.get(silo, ())))
        names = (name for name, _ in described.profile.conditions)
        own = {name: tuple(self.declared.targets[name]) for name in names if name in self.declared.targets}
        return replace(described, targets_by_condition=tuple(own.items()))

    def terms(self, silo: str, terms: RunTerms) -> RunTerms:
        """The terms under which this silo answers.

        Raises `NotAllowed` if a silo is not a member, if the owner does not allow the declaration or the targets, and
        if values of a row depend on other rows in a private run.
        """
        if self.members is not None:
            strangers = sorted(set(terms.schema.rows) - set(self.members.fingerprints))
            if strangers:
                known = ", ".join(sorted(self.members.fingerprints))
                raise NotAllowed(f"silo {silo}: its owner knows {known}, and {strangers[0]} is not among them")
        elif self.remote:
            spec = terms.spec_value
            full = with_full_noise(spec, terms.schema)
            if full != spec:
                terms = replace(terms, spec=registry.pack(full))
        declared = self.declaration(silo, terms.declared)
        if self.restricted and not terms.declared.reading.finds_targets:
            self._check_targets(silo, terms.schema, declared)
        if terms.algorithm().private is not None:
            self._check_rows_alone(silo, terms.schema)
            declared = replace(declared, reading=replace(declared.reading, private=True))
        return terms if declared == terms.declared else replace(terms, declared=declared)

    @staticmethod
    def _check_rows_alone(silo: str, schema: Schema) -> None:
        """Raise `NotAllowed` for a private run in which a row's values would depend on other rows."""
        for what, there in (("adjusts series", schema.adjustment), ("models empty cells", schema.gaps)):
            if there:
                raise NotAllowed(f"silo {silo}: a run that {what} cannot have an ε: ε does not account for this step")

    @staticmethod
    def _check_targets(silo: str, schema: Schema, declared: Declared) -> None:
        """Raise `NotAllowed` for targets that the owner has not declared for the silo, or for one of its conditions."""
        named = zip(schema.condition_names.get(silo, (silo,)), schema.targets.get(silo, ()), strict=False)
        odd = sorted({name for place, own in named for name in own if name not in declared.targets.get(place, ())})
        if odd:
            raise NotAllowed(
                f"silo {silo}: its owner's policy refuses the targets {', '.join(odd)}: the owner's about.json does "
                "not declare them; agree on one about.json"
            )

    @contextmanager
    def reading(self, silo: str) -> Iterator[None]:
        """If the coordinator is another party, write a `BadInput` of the block to the owner's log, and hide its reason.

        In its place, `BadInput` or `BadRecord` is raised without details. `NotAllowed` and `ReaderLost` are raised
        unchanged.
        """
        try:
            yield
        except (NotAllowed, ReaderLost):
            raise
        except BadRecord as error:
            if not self.remote:
                raise
            self.log(f"error: {error}")
            raise type(error)(f"silo {silo}: its records cannot be used; its owner sees why in the log") from None
        except BadInput as error:
            message = f"silo {silo}: its rows cannot be used; its owner sees why in the log"
            if not self.remote or str(error) == message:  # logged already, in a pass over the rows
                raise
            self.log(f"error: {error}")
            raise BadInput(message) from None


@dataclass(frozen=True)
class GuardedPasses:
    """The rows of `table`, which are read in passes during a round; only the owner sees faults found in a pass."""

    table: Divided
    guard: Guard
    silo: str

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.table.shape

    def __iter__(self) -> Iterator[NDArray[Any]]:
        with self.guard.reading(self.silo):
            yield from self.table

    def map_parts(self, work: Callable[[Chunked], Found]) -> Iterator[Found]:
        """Yield `work` of each part (see `Divided`)."""
        with self.guard.reading(self.silo):
            yield from self.table.map_parts(work)


LOCAL = Guard()
"""the guard of silos whose coordinator is run by the owner of their files"""


def with_full_noise(spec: AlgorithmSpec, schema: Schema) -> AlgorithmSpec:
    """`spec` with enough noise at each silo if all other silos collude; unchanged if silos share no noise."""
    colluders = getattr(spec.settings, "colluders", None)
    needed = largest_coalition(len(schema.rows))
    if colluders is None or colluders >= needed:
        return spec
    return replace(spec, settings=replace(spec.settings, colluders=needed))
