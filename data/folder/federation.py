"""How coordinator and silos come to a schema: silos tell their profiles, and those of complete rows if asked."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from .declared import Declared
from .joint import Joint, joint_schema
from .profile import Profile

Ask = Callable[[Declared], Mapping[str, Profile]]
"""what is declared -> the profile of each silo"""


def agreed(place: str, ask: Ask, declared: Declared, names: Mapping[str, str] | None = None) -> Joint:
    """Return the schema that the silos behind `ask` agree on; raises `BadInput` as they and `joint_schema` do.

    If rows with an empty cell are to be left out or refused, the silos are asked again once the variables are known;
    and once more, if some of these say nothing in the rows that remain.
    """
    found = joint_schema(place, ask(declared), declared, names)
    if declared.reading.missing == "model" or not found.schema.gaps:
        return found
    while True:
        variables = found.schema.variables
        asked = declared.of_complete(variables)
        again = joint_schema(place, _among(ask(asked), variables), asked, names)
        schema = replace(again.schema, aside=found.schema.aside | again.schema.aside)
        found = replace(found, schema=schema, notes=again.notes)
        if schema.variables == variables:
            return found


def _among(profiles: Mapping[str, Profile], variables: tuple[str, ...]) -> dict[str, Profile]:
    return {
        silo: replace(profile, columns={name: profile.columns[name] for name in profile.variables if name in variables})
        for silo, profile in profiles.items()
    }
