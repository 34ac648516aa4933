"""What stands for a value in the help: nothing where an option takes none, and capital letters for arguments."""

from typing import Any

import typer


def with_metavars(command: Any) -> Any:
    """Return `command`, a command or a group of them, with words in its help that tell a reader what to type.

    Typer itself writes `<bool>` beside a flag, which takes no value, and `<path>` beside a folder.
    """
    for one in (command, *getattr(command, "commands", {}).values()):
        for parameter in one.params:
            if parameter.param_type_name == "argument":
                parameter.metavar = parameter.metavar or parameter.name.upper()
            elif parameter.is_flag:
                parameter.metavar = ""
        one.get_help_option(typer.Context(one)).metavar = ""
    return command
