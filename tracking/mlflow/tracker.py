"""The MLflow run of a run that goes on without it if need be: the one place where every call to MLflow is guarded."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..notice import first_line, notice
from ..result import RunResult
from .run import RunLog, open_run
from .store import database_of
from .telling import Ending, Opening, ToldRound, ending_of
from .untracked import UNTRACKED, Untracked, hand_over, keep, untracked_in


class Tracker:
    """What a run tells MLflow.

    At the first call that fails, this is said in one line, and from then on everything is kept in the run's `folder`.
    It is handed over at the end of the run, when the run is resumed, or by `fedbnsl track`, whichever comes first.
    """

    def __init__(self, folder: Path, opening: Opening, rows: tuple[dict[str, float], ...] = ()) -> None:
        """Open the MLflow run, or go on with the one that `opening` names; if that is gone, a new one begins.

        It is given the figures of the rounds until now, `rows`, in as far as it lacks them.
        """
        self._folder, self._opening = folder, opening
        self._log: RunLog | None = None
        try:
            self._log = self._opened(rows)
            self._opening = replace(opening, run_id=self._log.run_id)
        except Exception as error:
            self._lost(error)

    @property
    def opening(self) -> Opening:
        """How the run began, with the MLflow run it now has."""
        return self._opening

    @property
    def url(self) -> str | None:
        """A link to the run, None if MLflow has none."""
        return self._log.url if self._log else None

    def rounds(self, told: Sequence[ToldRound]) -> None:
        """Tell of finished rounds."""
        self._tell(lambda log: log.rounds(told), told)

    def finish(self, result: RunResult) -> None:
        """Tell what came out, all files of which are in the folder; what was kept until then goes first."""
        ending = ending_of(result)
        self._tell(lambda log: log.finish(ending, self._folder), (ending,))
        if self._log is None:
            try:
                kept = untracked_in(self._folder)
                self._log = hand_over(kept, self._folder) if kept else None
            except Exception:
                return
            notice("MLflow answers again: it has been told everything")

    def fail(self, message: str) -> None:
        """Tell that the run has ended with an error; this is not kept, as the run can be resumed."""
        if self._log is not None:
            try:
                self._log.fail(message)
            except Exception as error:
                self._lost(error)

    def _opened(self, rows: tuple[dict[str, float], ...]) -> RunLog:
        opening, kept = self._opening, untracked_in(self._folder)
        if kept is not None:
            return hand_over(kept, self._folder, rows)
        if not opening.run_id and not rows:
            return open_run(opening)
        return hand_over(Untracked(opening), self._folder, rows)

    def _tell(self, call: Callable[[RunLog], object], told: Sequence[ToldRound | Ending]) -> None:
        if self._log is not None:
            try:
                call(self._log)
                self._check_there()
                return
            except Exception as error:
                self._lost(error)
        for one in told:
            self._keep(one)

    def _check_there(self) -> None:
        """Raise `FileNotFoundError` if the database was deleted: SQLite goes on writing where nobody will look."""
        database = database_of(self._opening.uri)
        if database is not None and not database.exists():
            raise FileNotFoundError(f"{database} is gone")

    def _lost(self, error: Exception) -> None:
        """Do without MLflow from now on, and say so."""
        self._log = None
        notice(
            f"MLflow cannot be told ({reason(error)}); the run goes on, and `fedbnsl track {self._folder}` tells "
            "it the rest once it can be reached"
        )
        if not (self._folder / UNTRACKED).exists():
            self._keep(self._opening)

    def _keep(self, told: Opening | ToldRound | Ending) -> None:
        try:
            keep(self._folder, told)
        except OSError as error:
            notice(f"what MLflow is still to be told cannot be kept, either ({first_line(error)})")


def reason(error: Exception) -> str:
    """Return why MLflow failed, in one line: of an error of its database, what the database said."""
    lines = str(error).splitlines()
    return next((line for line in lines if line.startswith("(sqlite3.")), first_line(error))
