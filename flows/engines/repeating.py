"""A run of a deployment, as Prefect shows it: what has changed as an artifact, or that the run was skipped and why."""

from collections.abc import Callable
from typing import Any

from prefect.artifacts import create_markdown_artifact
from prefect.runtime import deployment
from prefect.states import Completed

from fedbnsl.flows.job.finished import Finished
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.options.repeat import RepeatSettings
from fedbnsl.tracking.comparison import Comparison, named_changes
from fedbnsl.tracking.notice import notice

from .following import Unchanged
from .hooks import tell_failed, tell_finished, tell_unchanged

SKIPPED = "Skipped"
"""the state of a run that had nothing to learn"""
LISTED = 40
"""edges of one fate that the artifact names"""


def repeated(
    settings: LearnSettings, repeat: RepeatSettings, learned: Callable[[LearnSettings, RepeatSettings], Finished]
) -> Any:
    """Return what `learned` returns, or the state of a run that was skipped; tell the hooks what has become of it."""
    named = repeat.model_copy(update={"deployment": repeat.deployment or str(deployment.name or "")})
    try:
        finished = learned(settings, named)
    except Unchanged as same:
        notice(f"skipped: {same}")
        tell_unchanged(settings, named)
        return Completed(name=SKIPPED, message=str(same))
    except Exception as error:
        tell_failed(settings, named, error)
        raise
    if finished.result.changes is not None:
        notice(finished.result.changes.said)
    tell_finished(settings, named, finished)
    return finished


def publish_changes(changes: Comparison) -> None:
    """Create the artifact of what has changed since the run before."""
    create_markdown_artifact(markdown(changes), key="changes", description=f"since {changes.earlier}")


def markdown(changes: Comparison) -> str:
    """Return what has changed as Markdown; names of variables stand as code, so that none is read as markup."""
    lines = [f"# Changes since `{changes.earlier}`", "", changes.said[:1].upper() + changes.said[1:] + "."]
    for fate, edges in named_changes(changes).items():
        if edges:
            more = [f"- … and {len(edges) - LISTED} more"] * (len(edges) > LISTED)
            lines += ["", f"**{fate}**", "", *(f"- `{edge.replace('`', '´')}`" for edge in edges[:LISTED]), *more]
    return "\n".join(lines)
