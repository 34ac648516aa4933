"""The command line `fedbnsl`: its commands, and error messages of one line.

The module of a command is imported when the command is called, because the import of numpy and pydantic would slow down
`--help`.
"""

import atexit
import errno
import gc
import os
import sys
import traceback
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from fedbnsl.algorithms.errors import INVALID, MAX_LINE_LENGTH, STOPPED, UNEXPECTED, BadInput, foreign_text

from ..job.stopping import end_like_ctrl_c

GROUPS = {
    "Data": {
        "prepare": "Create a federated data set: a folder with one file per silo.",
        "inspect": "Show how the tables of a federated data set are read.",
        "choose": "Recommend an algorithm for a federated data set, with reasons.",
        "algorithms": "List the algorithms and what leaves a silo, or explain the settings of an algorithm.",
    },
    "Learn": {
        "learn": "Learn a structure from the silos of a federated data set.",
        "tune": "Compare settings of an algorithm without a true graph, and learn with the best.",
        "features": "Find the features that predict a variable: its Markov blanket.",
        "evaluate": "Compare a learned structure with the true graph.",
        "compare": "Compare a run with an earlier one.",
        "benchmark": "Compare algorithms on data sets with several seeds, in tables and pictures.",
    },
    "Ask": {
        "effect": "Estimate the effect of changing one variable on another.",
        "query": "Ask the model of a run for probabilities, given evidence or after an intervention.",
        "predict": "Predict the empty cells of a table with the model of a run.",
        "simulate": "Draw rows from the model of a run.",
        "rescore": "Score a graph that was edited by hand, and compare it with the learned one.",
    },
    "Operate": {
        "federation": "Set up a federation across machines.",
        "coordinator": "Run the coordinator of a federation.",
        "silo": "Join a federation; the rows stay on this machine.",
        "serve": "Learn on a schedule.",
        "audit": "Verify what the silos of a run have signed: what left them, and the result.",
        "privacy": "Plan a privacy budget, and show the spent ε.",
        "attack": "Demonstrate attacks on privacy by a coordinator or a reader of results, and the defences.",
        "ui": "Start the web interfaces of Prefect and MLflow.",
        "track": "Upload records that MLflow missed during a run.",
        "clean": "Show or remove the leftovers of old runs.",
    },
}
"""by heading of the help, every command with its line; its `app` is in the module of the same name in this package"""
COMMANDS = {name: line for commands in GROUPS.values() for name, line in commands.items()}

NOT_WRITTEN = "the output cannot be written"
NO_TEMPORARY_FOLDER = "No usable temporary directory"
"""what `tempfile` says if it can write to no folder"""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""the errors of a full disk; without the name of a file, the output is on this disk"""
ENVIRONMENT_ERRORS = (
    *FULL,
    errno.ENAMETOOLONG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ELOOP,
)
"""codes of errors that a path or a disk causes; they are printed in one line, without a traceback"""
HELP = ["--help", "-h"]
"""the options that show the help of a command"""
GC_THRESHOLD = 50_000
"""number of new objects after which Python's garbage collector runs"""


class Commands(TyperGroup):
    """The group of all commands; the module of a command is imported when the command is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands below the headings of their groups."""
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(max(map(len, COMMANDS))), line) for name, line in commands.items()])

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """The entry of a command in the help; None for an unknown command."""
        return TyperCommand(cmd_name, short_help=COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name of the called command, the command, and its arguments.

        The error for an unknown command suggests the nearest name.
        """
        self.commands = {one: TyperCommand(one) for one in COMMANDS}
        name, known, rest = super().resolve_command(ctx, args)
        return name, known and command(str(name)), rest


app = typer.Typer(
    cls=Commands,
    name="fedbnsl",
    help="Learn the structure of a Bayesian network from data that several owners hold and may not pool.",
    no_args_is_help=True,
    context_settings={"help_option_names": HELP},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def with_plain_help(command: Any) -> Any:
    """`command`, or a group of commands, with help in two columns below headings, and without values beside flags.

    Typer itself writes `<bool>` beside a flag, which takes no value, and `<path>` beside a folder. Typer's tables have
    five columns: a terminal with lines of 80 characters would leave 17 characters for the text, and cut off longer
    words.
    """
    for one in (command, *getattr(command, "commands", {}).values()):
        one.rich_markup_mode = None
        one.short_help = one.short_help or " ".join((one.help or "").partition("\n\n")[0].split())
        for parameter in one.params:
            if parameter.param_type_name == "argument":
                parameter.metavar = parameter.metavar or parameter.name.upper()
            elif parameter.is_flag:
                parameter.metavar = ""
        one.get_help_option(typer.Context(one, help_option_names=HELP)).metavar = ""
        one.get_help = partial(_unbroken_help, one)
        one.format_options = partial(_write_options, one)
    return command


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the arguments and options of `command` below their headings, then the commands of a group."""
    parameters = command.get_params(ctx)
    plain = "Other options" if any(getattr(one, "rich_help_panel", None) for one in parameters) else "Options"
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
    for one in parameters:
        is_argument = one.param_type_name == "argument"
        heading = "Arguments" if is_argument else getattr(one, "rich_help_panel", None) or plain
        if record := one.get_help_record(ctx):
            sections.setdefault(heading, []).append(record)
    for heading, records in sections.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)
    if hasattr(command, "format_commands"):
        command.format_commands(ctx, formatter)


UNBROKEN = "-\N{WORD JOINER}"
"""a hyphen after which no line is broken"""


def _unbroken_help(command: Any, context: Any) -> str:
    """The help of `command` without line breaks after hyphens, so that names with hyphens can be copied."""
    explained = [(one, one.help) for one in (command, *command.params) if getattr(one, "help", None)]
    for one, text in explained:
        one.help = text.replace("-", UNBROKEN)
    try:
        return str(type(command).get_help(command, context)).replace(UNBROKEN, "-")
    finally:
        for one, text in explained:
            one.help = text


def show_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        from fedbnsl import __version__

        print(f"fedbnsl {__version__}")
        raise typer.Exit


@app.callback()
def fedbnsl(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Learn the structure of a Bayesian network from data that several owners hold and may not pool."""


def command(name: str) -> Any:
    """The command, or group of commands, `name`, after the import of its module."""
    found = with_plain_help(typer.main.get_command(import_module(f"{__package__}.{name}").app))
    found.name = name
    return found


def main(words: list[str] | None = None) -> None:
    """Run the command line; for invalid input, it prints one line on stderr and exits with code 2.

    The exit code is 3 if silos could not be reached, so that a script can retry only such runs. An unexpected error is
    one line, too, with the name of a file that has its traceback.
    """
    end_like_ctrl_c()
    # Imports create hundreds of thousands of permanent objects. With Python's default of 700, the garbage collector
    # would examine them repeatedly, which takes 5 % of the CPU time of a short run.
    gc.set_threshold(GC_THRESHOLD)
    # At exit, Python would examine the million objects of a run, which takes two seconds. It skips frozen objects.
    atexit.register(gc.freeze)
    try:
        code = with_plain_help(typer.main.get_command(app)).main(words, prog_name="fedbnsl", standalone_mode=False)
    except BadInput as error:
        fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        from ..start import orchestration_missing

        fail(str(orchestration_missing(error)))
    except (KeyboardInterrupt, typer.Abort):
        stop()
    except Exception as error:
        if line := fault_of_environment(error):
            fail(line)
        if not hasattr(error, "format_message"):
            fail(unexpected(error), UNEXPECTED)
        message: Any = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message)
            exit_with(INVALID)
        fail(f"{message}{given_value(error, words if words is not None else sys.argv[1:])}")
    else:
        # Typer has converted the interrupt to an exit code.
        stop() if code == STOPPED else exit_with(code if isinstance(code, int) else 0)


def fault_of_environment(error: Exception) -> str:
    """The line for an `error` of the user's disk, files or permissions; empty for any other error."""
    if isinstance(error, OSError) and error.errno in ENVIRONMENT_ERRORS and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in FULL:
        return f"{NOT_WRITTEN}: {error.strerror}"
    if isinstance(error, OSError) and str(error.strerror).startswith(NO_TEMPORARY_FOLDER):
        return str(error.strerror)
    return ""


def unexpected(error: Exception) -> str:
    """The line for an `error` that nobody foresaw; its traceback is written to a file that only this user can read."""
    from fedbnsl.tracking.own_servers import errors_folder
    from fedbnsl.tracking.staging import create_private_folder, first_line, write_private

    file = errors_folder() / f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.log"
    try:
        create_private_folder(file.parent)
        write_private(file, "".join(traceback.format_exception(error)).encode())
    except OSError as fault:
        return f"unexpected {type(error).__name__}: {first_line(error)} (no log could be written: {fault.strerror})"
    return f"unexpected {type(error).__name__}: {first_line(error)}; its log is {file}"


def given_value(error: Any, words: list[str]) -> str:
    """The end of the message on an invalid option, with its value in `words`; empty if the value is not known."""
    for name in getattr(getattr(error, "param", None), "opts", ()):
        if name in words[:-1]:
            return f" (given: {words[words.index(name) + 1]})"
    return ""


def stop() -> NoReturn:
    """Print that the command was stopped, and exit."""
    print_last("stopped")
    exit_with(STOPPED)


def fail(message: str, code: int = INVALID) -> NoReturn:
    """Print an error in one line and exit with `code`."""
    print_last(f"error: {foreign_text(message, MAX_LINE_LENGTH)}")
    exit_with(code)


def print_last(line: str) -> None:
    """Print the last line on stderr; if stderr cannot be written, as on a full disk, the exit code must do."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Discard what `stream` holds and gets from now on; otherwise, Python would try to write it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def exit_with(code: int) -> NoReturn:
    """Exit with `code`, or with that of invalid input if the output cannot be written, as on a full disk.

    A closed output pipe is not an error.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        discard(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            if code == 0:
                print_last(f"error: {NOT_WRITTEN}: {error.strerror}")
            code = code or INVALID
    raise SystemExit(code)


if __name__ == "__main__":
    main()
