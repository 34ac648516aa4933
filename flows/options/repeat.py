"""The options of scheduled runs: the treatment of unchanged data, thresholds of drift, and receivers of messages."""

import json
import os
import shlex
from typing import Annotated, Literal
from urllib.parse import urlsplit

from annotated_types import Ge
from pydantic import ConfigDict, Field, field_validator

from fedbnsl.algorithms.core.settings import Count, CountOrNone, Positive
from fedbnsl.algorithms.errors import BadInput, quoted

from .as_text import CommaSeparated
from .learn import LearnOptions
from .model import OnCommandLine, Options, validate

Event = Literal["drift", "failure", "learned", "unchanged"]
EVENTS: tuple[Event, ...] = ("drift", "failure", "learned", "unchanged")
HOOKS = "FEDBNSL_HOOKS"
"""the environment variable with the hooks of a process that serves runs, as JSON"""


class RepeatOptions(Options):
    """The options of repeated runs of a deployment."""

    model_config = ConfigDict(title="Repeat")

    unchanged: Literal["skip", "learn"] = Field(default="skip", title="Unchanged data")
    """If no silo's rows have changed since the previous run: skip the run, or learn again."""
    changed_rows: Annotated[CountOrNone, OnCommandLine(value="K")] = 10
    """Without an ε: skip a run if between 1 and K - 1 rows of some silo have changed since an earlier run, because the
    difference of the results of both runs could reveal these rows; 0: never skip for this reason."""
    drift_edges: Count = Field(default=1, title="Drift: edges")
    """Minimum number of edges gained, lost or reversed that counts as drift."""
    drift_parameters: Annotated[Positive, OnCommandLine(value="NATS")] = Field(default=0.1, title="Drift: parameters")
    """Minimum change of the fitted distribution that counts as drift: the Kullback-Leibler divergence of the earlier
    model from the later one, in nats per row."""
    keep: Annotated[int | None, Ge(2)] = None
    """Number of finished runs of the deployment that stay: older ones are removed, with their results, their MLflow
    runs and their flow runs; default: all stay."""


class HookOptions(Options):
    """Receivers of messages about scheduled runs.

    The process that serves runs reads these settings from its environment (`HOOKS`). They are never parameters of a
    deployment, because then anybody with access to Prefect's API could run a command on this machine.
    """

    hook_url: Annotated[str | None, OnCommandLine(value="URL")] = Field(default=None, title="Hook: address")
    """Address (http or https) that receives a JSON message by POST."""
    hook_command: Annotated[str | None, OnCommandLine(value="COMMAND")] = Field(default=None, title="Hook: command")
    """Command that receives the JSON message on its standard input; no shell runs it."""
    hook_on: Annotated[tuple[str, ...], CommaSeparated, OnCommandLine(value="EVENTS")] = Field(
        default=("drift", "failure"),
        title="Hook: when",
        description=f"Events that send the message, separated by commas: {', '.join(EVENTS)}; default: drift,failure.",
        json_schema_extra={"items": {"enum": list(EVENTS), "type": "string"}},
    )

    @field_validator("hook_on")
    @classmethod
    def _events(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for one in given:
            if one not in EVENTS:
                raise BadInput(f"hook_on: {quoted(one)} is no event; available: {', '.join(EVENTS)}")
        return given

    @field_validator("hook_url")
    @classmethod
    def _address(cls, given: str | None) -> str | None:
        try:
            fits = given is None or (urlsplit(given).scheme in ("http", "https") and bool(urlsplit(given).hostname))
        except ValueError:
            fits = False
        if not fits:
            raise BadInput(f"hook_url is {quoted(str(given))}: give an address that begins with http:// or https://")
        return given

    @field_validator("hook_command")
    @classmethod
    def _command(cls, given: str | None) -> str | None:
        try:
            fits = given is None or bool(shlex.split(given))
        except ValueError:
            fits = False
        if not fits:
            raise BadInput(f"hook_command is {quoted(str(given))}: give one or more words, and close quotation marks")
        return given

    @classmethod
    def of_environment(cls) -> "HookOptions":
        """The hooks of this process; raises `BadInput` if the environment variable is not a JSON object of hooks."""
        try:
            values = json.loads(os.environ.get(HOOKS, "{}"))
        except ValueError:
            values = None
        if not isinstance(values, dict):
            raise BadInput(f'{HOOKS} must be a JSON object such as {{"hook_command": "notify"}}')
        try:
            return validate(cls, values)
        except BadInput as error:
            raise BadInput(f"{HOOKS}: {error}") from None


NO_HOOKS = HookOptions()


class RepeatSettings(RepeatOptions):
    """The options of repeated runs, and the deployment to which the runs belong."""

    deployment: str = ""
    """Name under which runs are compared with each other; default: the name of the Prefect deployment."""


class ServeOptions(HookOptions, RepeatOptions, LearnOptions):
    """The options of scheduled learning."""

    def repeat(self, deployment: str) -> RepeatSettings:
        """The options of repeated runs, for `deployment`."""
        return RepeatSettings(
            **{name: getattr(self, name) for name in RepeatOptions.model_fields}, deployment=deployment
        )

    def hooks(self) -> HookOptions:
        """The options of hooks."""
        return HookOptions(**{name: getattr(self, name) for name in HookOptions.model_fields})

    def learn(self) -> LearnOptions:
        """The options of a single run."""
        return LearnOptions(**{name: getattr(self, name) for name in LearnOptions.model_fields})
