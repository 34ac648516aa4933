"""`fedbnsl serve`: this process starts the flow `learn` on a schedule, until the process is stopped."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import available_timezones

from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.tasks.prefect_internals import next_start, serve_until_stopped

from .engines.recurring import ended_run
from .engines.run_comparison import runs_folder
from .options.learn import LearnSettings
from .options.parameters import with_settings_schema
from .options.repeat import HOOKS, NO_HOOKS, HookOptions, RepeatSettings
from .servers.environment import prepare_environment
from .servers.processes import api_settings, prefect_server, sign_in_lines
from .start import precheck

PREFECT_PORT = 4200
"""the port of a Prefect server, if it is free"""
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
    timezone: str | None = None,
    interval: float | None = None,
    prefect_port: int = PREFECT_PORT,
) -> None:
    """Serve `learn` with `settings` as the deployment that `repeat` names.

    Runs start by `cron` in `timezone` (by default that of this machine, with its daylight saving), every `interval`
    seconds, or on demand. If neither the user nor `fedbnsl ui` has a Prefect server, one starts at `prefect_port`.
    Raises `BadInput`, before anything starts, for invalid settings, schedules or data.
    """
    zone = timezone or local_zone()
    check_schedule(cron, interval, zone)
    prepare_environment()
    precheck(settings)
    with prefect_server(prefect_port) as url:
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
            when = f"cron {cron} in {zone}" if cron else f"every {interval:g} s" if interval else "on demand"
            what = f"{settings.algorithm} on {settings.data}, {when}"
            deployment = create_deployment(absolute, repeat, cron=cron, timezone=zone, interval=interval, what=what)
            close_dead_run(ended_run(runs_folder(settings), repeat.deployment))
            print(f"serving learn/{repeat.deployment}: {what}; Ctrl-C stops", flush=True)
            if cron and (start := next_start(cron, zone)):
                print(f"next run: {start:%Y-%m-%d %H:%M %Z}", flush=True)
            serve_until_stopped(deployment)


def close_dead_run(ended: str | None) -> None:
    """Mark the `ended` flow run as crashed if Prefect believes that it is running, since no other could begin then."""
    if ended is None:
        return
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound
    from prefect.states import Crashed

    with get_client(sync_client=True) as client, suppress(ObjectNotFound):
        state = client.read_flow_run(UUID(ended)).state
        if state is not None and not state.is_final():
            client.set_flow_run_state(UUID(ended), Crashed(message="its process has ended"), force=True)


def create_deployment(
    settings: LearnSettings,
    repeat: RepeatSettings,
    *,
    cron: str | None = None,
    timezone: str | None = None,
    interval: float | None = None,
    what: str = "",
) -> Any:
    """The deployment of `learn` with `settings` and `repeat` as its default parameters; one run at a time.

    Prefect's page of the deployment describes it as `what`, since its schedule is shown there without the time zone.

    A run that is due while another is running waits, and is then superseded (`engines/recurring.py`).
    """
    from prefect.schedules import Cron
    from prefect.types.entrypoint import EntrypointType

    from .learn import learn

    # Without `params`, the page shows the fields of the algorithm instead of an empty object.
    given = settings.model_dump(mode="json", exclude=None if settings.params else {"params"})
    with with_settings_schema(settings.algorithm):
        return learn.to_deployment(
            name=repeat.deployment,
            schedule=Cron(cron, timezone=timezone or local_zone()) if cron else None,
            interval=interval,
            concurrency_limit=1,
            parameters={"settings": given, "repeat": repeat.model_dump(mode="json")},
            tags=["fedbnsl", settings.algorithm],
            description=what or None,
            entrypoint_type=EntrypointType.MODULE_PATH,
        )


def local_zone() -> str:
    """The name of the time zone of this machine, as in "Europe/Vienna"; "UTC" if it has none."""
    from tzlocal import get_localzone_name

    return get_localzone_name() or "UTC"


def check_schedule(cron: str | None, interval: float | None, timezone: str = "UTC") -> None:
    """Raise `BadInput` for two schedules, a schedule that Prefect would refuse, or an unknown time zone."""
    if timezone not in available_timezones():
        raise BadInput(f"--timezone is {quoted(timezone)}: it must be a name such as Europe/Vienna or UTC")
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
