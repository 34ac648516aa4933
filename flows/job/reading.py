"""The options of a run for reading tables, without the checks that only a run needs."""

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.choose import AUTO, SERIES
from fedbnsl.data.folder.about import Reading, parse_transforms
from fedbnsl.data.folder.targets import UNKNOWN, read_targets

from ..options.learn import LearnOptions


def is_private(options: LearnOptions) -> bool:
    """Whether `options` request a private run: by --epsilon, a setting, or an algorithm that is always private."""
    if options.epsilon is not None or options.spec is None:
        return options.epsilon is not None
    return registry.build(options.spec).private is not None


def reading_of(options: LearnOptions) -> Reading:
    """The options for reading tables in `options`; raises `BadInput` if a column is both selected and ignored."""
    default, transforms = parse_transforms(options.transform)
    return Reading(
        _stripped(options.ignore),
        _stripped(options.only),
        options.missing,
        selected_silos(options),
        options.outliers,
        options.columns,
        _stripped(options.time),
        options.dates,
        default,
        transforms,
        targets=None if options.targets is None else tuple(read_targets(options.targets).items()),
        private=is_private(options),
        learned_from=True,
        by=options.by,
        small_silos=options.small_silos,
        condition=options.condition,
        cluster=options.cluster,
        series_gaps=_models_gaps_of_series(options),
        finds_targets=options.targets == UNKNOWN,
    )


def _models_gaps_of_series(options: LearnOptions) -> bool:
    """Whether the learner models empty cells of series.

    With differencing, no learner does, because differences have more empty cells than the silos' descriptions count.
    """
    learner = SERIES[0].name if options.algorithm == AUTO else options.algorithm
    if options.missing != "model" or options.difference:
        return False
    return not is_private(options) and "empty cells in series" in registry.entry(learner).takes


def selected_silos(options: LearnOptions) -> tuple[str, ...]:
    """The selected silos, sorted; empty if all silos are selected."""
    return tuple(sorted(set(_stripped(options.silos))))


def _stripped(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for name in names if name.strip())
