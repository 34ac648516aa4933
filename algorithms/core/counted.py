"""A number of things in words."""


def counted(number: int, one: str, several: str = "") -> str:
    """Return `number` with what it counts: `one` of them, or `several`, by default that with an s, as in "1 round"."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"
