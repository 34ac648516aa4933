"""What a user can get wrong."""


class BadInput(ValueError):  # noqa: N818 - the word users see
    """Something the user gave is wrong: one clear line naming file, column, row and value; the program exits with 2."""
