"""`fedbnsl serve`: this process starts the flow `learn` on a schedule, until the process is stopped."""

import os
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tasks.prefect_internals import serve_until_stopped

from .options.learn import LearnSettings
from .options.parameters import with_settings_schema
from .options.repeat import HOOKS, NO_HOOKS, HookOptions, RepeatSettings
from .servers.environment import prepare_environment
from .servers.processes import api_settings, prefect_server, sign_in_lines
from .start import precheck

MIN_INTERVAL_SECONDS, MAX_INTERVAL_SECONDS = 1.0, 10 * 365.25 * 24 * 3600
"""limits of the interval between runs, in seconds"""

MIN_RETRIES = 6
"""minimum number of retries of a call to Prefect's server; the retries take about two minutes, so that a schedule
survives a busy database"""


def serve_learn(
    settings: LearnSettings,
    repeat: RepeatSettings,
    hooks: HookOptions = NO_HOOKS,
    *,
    cron: str | None = None,
    interval: float | None = None,
) -> None:
    """Serve `learn` with `settings` as the deployment that `repeat` names.

    Runs start by `cron`, every `interval` seconds, or on demand. Raises `BadInput`, before anything starts, for invalid
    settings, schedules or data.
    """
    check_schedule(cron, interval)
    prepare_environment()
    precheck(settings)
    with prefect_server() as url:
        for line in sign_in_lines(url):
            print(line, flush=True)
        from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

        # Each run is a separate process, which inherits the environment.
        if hooks != NO_HOOKS or HOOKS not in os.environ:
            os.environ[HOOKS] = hooks.model_dump_json()
        retries = {PREFECT_CLIENT_MAX_RETRIES: max(PREFECT_CLIENT_MAX_RETRIES.value(), MIN_RETRIES)}
        with temporary_settings(api_settings(url) | retries):
            paths = {"data": str(Path(settings.data).absolute())}
            if settings.federation:
                paths["federation"] = str(Path(settings.federation).absolute())
            absolute = settings.model_copy(update=paths)
            deployment = create_deployment(absolute, repeat, cron=cron, interval=interval)
            when = f"cron {cron}" if cron else f"every {interval:g} s" if interval else "on demand"
            what = f"{settings.algorithm} on {settings.data}, {when}"
            print(f"serving learn/{repeat.deployment}: {what}; Ctrl-C stops", flush=True)
            serve_until_stopped(deployment)


def create_deployment(
    settings: LearnSettings, repeat: RepeatSettings, *, cron: str | None = None, interval: float | None = None
) -> Any:
    """The deployment of `learn` with `settings` and `repeat` as its default parameters."""
    from prefect.types.entrypoint import EntrypointType

    from .learn import learn

    # Without `params`, the page shows the fields of the algorithm instead of an empty object.
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
    """Raise `BadInput` for two schedules, or a schedule that Prefect would refuse."""
    if cron is not None and interval is not None:
        raise BadInput("--cron and --interval are two schedules: give one")
    if interval is not None and not MIN_INTERVAL_SECONDS <= interval <= MAX_INTERVAL_SECONDS:
        limits = f"from {MIN_INTERVAL_SECONDS:g} second to ten years ({MAX_INTERVAL_SECONDS:g} seconds)"
        raise BadInput(f"--interval is {interval:g}: it must be {limits}")
    if cron is not None:
        from prefect.client.schemas.schedules import CronSchedule
        from pydantic import ValidationError

        try:
            CronSchedule(cron=cron)
        except ValidationError:
            raise BadInput(f"--cron '{cron}' must be a schedule of five fields, such as '0 3 * * *'") from None
