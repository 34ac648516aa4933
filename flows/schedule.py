"""`fedbnsl serve`: the flow `learn` on a schedule, run by this process until it is stopped."""

import os
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput

from .options.learn import LearnSettings
from .options.parameters import with_settings_schema
from .options.repeat import HOOKS, NO_HOOKS, HookOptions, RepeatSettings
from .servers.environment import prepare_environment
from .servers.processes import api_settings, prefect_server, sign_in_lines
from .start import precheck

LEAST, MOST = 1.0, 10 * 365.25 * 24 * 3600
"""seconds from one run to the next"""


def serve_learn(
    settings: LearnSettings,
    repeat: RepeatSettings,
    hooks: HookOptions = NO_HOOKS,
    *,
    cron: str | None = None,
    interval: float | None = None,
) -> None:
    """Serve `learn` with `settings` as the deployment that `repeat` names: by `cron`, every `interval` s, or on demand.

    Raises `BadInput` for settings, a schedule or data that cannot be used, before anything starts.
    """
    check_schedule(cron, interval)
    prepare_environment()
    precheck(settings)
    with prefect_server() as url:
        for line in sign_in_lines(url):
            print(line, flush=True)
        from prefect import serve
        from prefect.settings import temporary_settings

        # Runs are processes of their own, which inherit the environment.
        os.environ[HOOKS] = hooks.model_dump_json()
        with temporary_settings(api_settings(url)):
            anywhere = settings.model_copy(update={"data": str(Path(settings.data).absolute())})
            deployment = deployed(anywhere, repeat, cron=cron, interval=interval)
            when = f"cron {cron}" if cron else f"every {interval:g} s" if interval else "on demand"
            what = f"{settings.algorithm} on {settings.data}, {when}"
            print(f"serving learn/{repeat.deployment}: {what}; Ctrl-C stops", flush=True)
            serve(deployment, print_starting_message=False)


def deployed(
    settings: LearnSettings, repeat: RepeatSettings, *, cron: str | None = None, interval: float | None = None
) -> Any:
    """The deployment of `learn` with `settings` and `repeat` as the parameters it starts from."""
    from prefect.types.entrypoint import EntrypointType

    from .learn import learn

    # Where nothing was set, the page shows the fields of the algorithm, and not an empty object.
    given = settings.model_dump(mode="json", exclude=None if settings.params else {"params"})
    with with_settings_schema(settings.algorithm):
        return learn.to_deployment(
            name=repeat.deployment,
            cron=cron,
            interval=interval,
            parameters={"settings": given, "repeat": repeat.model_dump(mode="json")},
            tags=["fedbnsl", settings.algorithm],
            entrypoint_type=EntrypointType.MODULE_PATH,
        )


def check_schedule(cron: str | None, interval: float | None) -> None:
    """Raise `BadInput` for a schedule that Prefect would refuse, or two of them."""
    if cron is not None and interval is not None:
        raise BadInput("--cron and --interval are two schedules: give one")
    if interval is not None and not LEAST <= interval <= MOST:
        raise BadInput(f"--interval is {interval:g}: it must be from {LEAST:g} second to {MOST:g}, ten years")
    if cron is not None:
        from prefect.client.schemas.schedules import CronSchedule
        from pydantic import ValidationError

        try:
            CronSchedule(cron=cron)
        except ValidationError:
            raise BadInput(f"--cron '{cron}' is no schedule: five fields, as in '0 3 * * *'") from None
