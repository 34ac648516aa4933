"""GES and BOSS on the rows of all silos, scored from summed counts while the rows stay at the silos (ours).

The search runs at the server. It scores families (a child and its parents). Whenever it needs scores, it requests what
the pending families need, in one exchange. Only the sum of the silos' replies is needed.

Labels are counted. The corner of a set of variables is its count table without the cells in which any variable has its
common level. Each silo sends the corners for all subsets of a family that no earlier exchange requested, and the server
derives the tables from the summed corners (`known_counts.py`). A silo sends whole tables instead with experiments, with
empty cells that are not imputed, and for moments by configuration of the labels. Equal counts give bit-identical
scores, so the search takes exactly the same steps as on pooled rows.

Numbers are scored from their summed moments, or with each silo's own weights (`weights=own`) if silos share a structure
but not its coefficients. Then each silo sends its own score of every requested family (`gaussian.py`), and the server
adds the scores up. To save exchanges, the server of BOSS searches ahead to the end with scores predicted from the
summed moments, and requests all families that this predicted search meets. With the true scores, the real search
continues to its first family without a score. It takes the same steps as without predictions, in ten or twenty
exchanges instead of hundreds. If a silo's rows are too few for the weights of a family, the parents explain nothing in
that silo.

Rows of time series are windows of the present and the lagged columns. Lagged columns can have no parents and precede
the present variables, so the searches order only the d present variables.

With experiments, families are scored on the rows in which their child was not set, and, by default, separately on the
others (`experiment_scores.py`). There is one sum for each distinct set of conditions left out. The search is over
interventional classes, so GES is GIES (Hauser, Bühlmann 2012).

What leaves a silo: of labels, its part of the summed counts; of numbers, its part of the second moments about its own
means, once; of mixed data the same, with indicators of labels (`statistics/coding.py`), or its part of the moments by
configuration; with `weights=own` also its part of the scores. All are masked if there are two silos or more. A round
costs a silo one pass over its rows for each set of variables. With `lookahead`, counts that the next moves may need are
requested together with those needed now, which takes fewer exchanges but more bytes. The exact search at the end of
BOSS over few variables requests all sets of up to `EXACT_PARENTS` + 1 variables, the largest first.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from ..graphs.cpdag import member_of, pdag_with_knowledge
from ..statistics.coding import blocks_of, coding_of
from ..statistics.corner_counts import distinct_codes
from ..statistics.count_tables import PAD
from ..statistics.lagged import window_rows, window_schema
from ..statistics.moments import Table, covariance, undo_per_row
from ..statistics.rows import (
    NO_VALUES,
    ConditionRows,
    MixedRows,
    Query,
    Rows,
    SegmentRows,
    answer_as_asked,
    answer_by_sum,
    bytes_of,
    cardinalities_of,
    configuration_moments,
    configuration_units,
    configurations_of,
    corners_of,
    counts_of,
    entry_units,
    greatest_count,
    moments_of,
    open_conditions,
    rescaled_configurations,
)
from .discrete import (
    EXCLUDED_SCORE,
    Criterion,
    all_too_wide,
    create_criterion,
    families_within_budget,
    score_tables,
    sets_of,
)
from .experiment_scores import (
    Request,
    best_class,
    block_scores,
    length_of_tables,
    number_scores,
    numbered_sets,
    requests,
)
from .families import Batch, Families, families_of, listed_families, no_families
from .gaussian import score_configurations, score_own_rows
from .knowledge_constraints import apply_knowledge, drop_impossible
from .known_counts import no_counts
from .mechanisms import Sums, score_by_mechanism, sums_of_numbers, sums_of_tables
from .procedures import (
    BOSS,
    ScoreSearch,
    ges_of,
    open_search_rows,
    refuse_gaps,
    refuse_wide,
    search,
    search_blocks,
    search_moments,
    segment_moments,
    shuffled,
)
from .search_server import (
    BossServer,
    GesServer,
    RefinedServer,
    Server,
    basis,
    common_scores,
    measures,
    refuse_candidates,
    structure,
    with_candidates,
)
from .settings import SearchSettings, SecureSearch


def own_weights_gain(server: BossServer) -> float:
    """The score with each silo's own weights minus BIC with common weights, for the result of `weights=own`."""
    dag = member_of(server.found)
    batch = families_of(dag)
    return float(server.state.total - common_scores(server, batch, 0.5 * math.log(server.freedom)).sum())


def secure_ges(settings: SecureSearch) -> FederatedAlgorithm[Any, Rows, Query, Summand]:
    """GES over summed counts, refined by BOSS if `settings` request it."""
    return _secure(settings, ges_of(settings), RefinedServer if settings.refine else GesServer)


def secure_boss(settings: SecureSearch) -> FederatedAlgorithm[Any, Rows, Query, Summand]:
    """BOSS over summed counts."""
    return _secure(settings, BOSS, BossServer)


def _secure(
    settings: SecureSearch, procedure: ScoreSearch[Any], server_type: Callable[..., Server[Any]]
) -> FederatedAlgorithm[Any, Rows, Query, Summand]:
    algorithm = sum_each_round(
        open_silo=lambda table, schema, silo, rng: _open_silo(table, schema, silo, settings, rng),
        open_server=lambda schema: _initial_server(schema, settings, procedure, server_type),
        broadcast=lambda server: question(server, settings, procedure),
        part=answer,
        aggregate=lambda server, replies: _with_sum(server, replies, procedure, settings),
        converged=lambda server: server.done,
        structure=structure,
        server_type=server_type,  # type: ignore[arg-type]
        broadcast_type=Query,
        max_rounds=settings.rounds,
        basis=lambda server: basis(server, settings),
        entry_units=lambda schema, query: units_of(settings.columns(schema), query),
        greatest_total=greatest_count,
        needs_secure_sum=True,
        tolerates_dropout=False,
        measures=measures,
    )
    return replace(algorithm, cost=bytes_of, interrupted=lambda server: _interrupted(server, procedure, settings))


def _initial_server(
    schema: Schema, settings: SecureSearch, procedure: ScoreSearch[Any], server_type: Callable[..., Server[Any]]
) -> Server[Any]:
    """The server's state before the first exchange. Raises `BadInput` for data that cannot be scored."""
    if settings.segments > 1 and schema.kind != "time-series":
        raise BadInput(f"parameter segments is {settings.segments}, but only time series have segments")
    known, present, group, sum_rows = schema.prior, len(schema.variables), np.zeros(0, np.int64), np.zeros(0, np.int64)
    if schema.has_targets:
        experiments = schema.experiments
        group = experiments.group
        sum_rows = experiments.rows({silo: schema.conditions(silo) for silo in schema.rows}, 0)
        sum_rows = np.concatenate([sum_rows, sum_rows[0] - sum_rows])
    schema = settings.columns(schema)
    cardinalities = cardinalities_of(schema)
    _refuse_own_weights(schema, settings)
    if schema.kind == "mixed" and settings.in_tables(schema.kind):
        cardinalities = configurations_of(schema)
    refuse_wide(schema, settings.most_cells)
    refuse_gaps(schema, settings)
    d, parts = len(schema.variables), settings.segments
    prior = known.of_windows(d) if d > present else known
    server = server_type(
        variables=schema.variables,
        present=present,
        kind=schema.kind,
        cardinalities=cardinalities,
        coding=coding_of(schema),
        rows=sum(schema.rows.values()),
        worth=round(schema.pairs_together * schema.independent_share) if schema.effective_share < 1 else 0,
        filled=bool(len(schema.imputation_model.dag)) or not schema.gaps,
        prior=prior,
        families=no_families(),
        state=procedure.begin(prior.reordered(shuffled(d, settings).variables), settings),
        found=np.zeros((d, d), np.bool_),
        done=False,
        exchanges=0,
        S=np.empty((0, 0)),
        freedom=0,
        own_price=0.5
        * parts
        * sum(math.log(max(rows * schema.independent_share / parts - 1, 1)) for rows in schema.rows.values()),
        compares=schema.compares_conditions,
        group=group if schema.has_targets else np.zeros(d, np.int64),
        sum_rows=sum_rows,
        known=no_counts(d),
    )
    refuse_candidates(server, procedure, settings)
    # A search in tables must begin here, to know which tables to request first. Other searches request moments first.
    waits = settings.own_scores or not settings.in_tables(schema.kind)
    return server if waits else _advance(server, procedure, settings)


def _open_silo(table: Table, schema: Schema, silo: str, settings: SecureSearch, rng: np.random.Generator) -> Rows:
    """The rows of `table` for the search; for time series, the windows."""
    reach = settings.reach(schema)
    if reach:
        assert isinstance(table, np.ndarray)
        table, schema = window_rows(table, schema.stretches[silo], reach), window_schema(schema, reach)
    if schema.has_targets:
        return open_conditions(
            table, schema, silo, lambda part, public: open_search_rows(part, public, silo, settings, rng)
        )
    rows = open_search_rows(table, schema, silo, settings, rng)
    if settings.segments > 1:
        assert isinstance(table, np.ndarray)
        own = (rows.kind, rows.columns, rows.cardinalities, rows.moments, rows.all_rows)
        return SegmentRows(*own, segment_moments(table, schema, silo, settings.segments))
    if rows.kind == "discrete" and isinstance(rows.columns, np.ndarray):
        return replace(rows, columns=distinct_codes(rows.columns))
    return rows


def _refuse_own_weights(schema: Schema, settings: SecureSearch) -> None:
    """Raise `BadInput` for labels or experiments with `weights=own`, for which each silo fits linear regressions."""
    if settings.own_scores and schema.levels:
        column = next(iter(schema.levels))
        raise BadInput(f"weights=own scores columns of numbers, and '{column}' has labels: use weights=common")
    if settings.own_scores and schema.has_targets:
        raise BadInput("weights=own does not use targets of experiments: use weights=common, or --targets none")


def _with_sum(
    server: Server[Any], replies: Replies[Summand], procedure: ScoreSearch[Any], settings: SecureSearch
) -> Server[Any]:
    """The state with the scores from the summed replies, and the search advanced as far as they allow."""
    server = replace(server, exchanges=server.exchanges + 1)
    if not settings.in_tables(server.kind):
        if server.compares:
            sums = sums_of_conditions(server, replies.total, settings)
            found = search(
                procedure,
                len(server.variables),
                settings,
                lambda batch: score_by_mechanism(batch, sums),
                server.prior,
            )
            return replace(server, found=found, done=True)
        each = replies.total.reshape(max(len(server.sum_rows) // 2, 1), -1)
        moments = np.stack([undo_per_row(one, server.rows) for one in each])
        return _from_moments(server, moments, procedure, settings)
    if _lacks_moments(server, settings):
        n, S = covariance(undo_per_row(replies.total, server.rows), len(server.variables))
        return _advance(replace(server, S=S, freedom=n), procedure, settings)
    if server.in_corners:
        known = server.known.with_sum(replies.total, server.cardinalities, server.rows)
        server = replace(server, known=known)
        if server.exchanges == 1:
            server = with_candidates(server, len(replies.silos), procedure, settings)
    batch = requested_families(server, settings, procedure)
    scores = _scores_of(server, batch, procedure, settings, replies.total)
    families, state = server.families.copy().with_scores(scores), procedure.copy(server.state)
    return _advance(replace(server, families=families, state=state), procedure, settings)


def _scores_of(
    server: Server[Any], batch: Batch, procedure: ScoreSearch[Any], settings: SecureSearch, total: NDArray[Any]
) -> FloatArray:
    """The scores of `batch`, from the summed tables in `total` or from the known counts."""
    possible = drop_impossible(batch, server.prior) if procedure.orders else batch
    if server.in_corners:
        criterion = _criterion(server, settings, server.rows)
        scores = server.known.scores(possible, server.cardinalities, server.rows, criterion, settings.most_cells)
    else:
        scores = score_batch(server, total, possible, settings)
    return apply_knowledge(scores, batch, server.prior) if procedure.orders else scores


def question(server: Server[Any], settings: SecureSearch, procedure: ScoreSearch[Any]) -> Query:
    """The query to all silos: for moments, or for counts over the sets of the requested families."""
    if not settings.in_tables(server.kind) or _lacks_moments(server, settings):
        return Query("moments", exchange=server.exchanges)
    if server.in_corners:
        common = server.known.common.astype(np.float64)
        return Query("corners", server.known.requested, common, exchange=server.exchanges)
    batch = requested_families(server, settings, procedure)
    batch = drop_impossible(batch, server.prior) if procedure.orders else batch
    if settings.own_scores:
        ends = batch.first[1:]
        listed = np.insert(batch.members.astype(np.int16), ends, PAD)
        return Query("families", listed.reshape(1, -1), exchange=server.exchanges)
    if len(server.sum_rows):
        return tables_of_sums(server, batch, settings)
    sets = sets_of(batch, server.cardinalities, settings.most_cells).sets
    return Query("tables" if server.kind == "discrete" else "configurations", sets, exchange=server.exchanges)


def tables_of_sums(server: Server[Any], batch: Batch, settings: SecureSearch) -> Query:
    """With experiments, the query for the tables of each sum that `batch` needs, or for the moments of each sum."""
    if not settings.in_tables(server.kind):
        return Query("moments", exchange=server.exchanges)
    sets = numbered_sets(_requests(server, batch, settings), server.cardinalities, settings.most_cells)
    return Query("tables" if server.kind == "discrete" else "configurations", sets, exchange=server.exchanges)


def _lacks_moments(server: Server[Any], settings: SecureSearch) -> bool:
    """Whether the server still needs the moments from which it predicts the silos' own scores."""
    return settings.own_scores and not len(server.S)


def requested_families(server: Server[Any], settings: SecureSearch, procedure: ScoreSearch[Any]) -> Batch:
    """The families to score in this exchange."""
    pending = shuffled(len(server.variables), settings).families(server.families.pending)
    if settings.own_scores:
        return pending.head(settings.cells)
    possible = drop_impossible(pending, server.prior) if procedure.orders else pending
    return pending.head(
        len(families_within_budget(possible, server.cardinalities, settings.most_cells, settings.cells))
    )


def units_of(schema: Schema, query: Query) -> FloatArray:
    """The approximate magnitudes of the numbers in the reply to `query`."""
    if query.what == "configurations":
        return configuration_units(schema, query.sets[:, 1:] if schema.has_targets else query.sets)
    units = entry_units(schema, query)
    return np.tile(units, schema.experiments.n_sums) if schema.has_targets and len(units) > 1 else units


def score_batch(server: Server[Any], total: NDArray[Any], batch: Batch, settings: SecureSearch) -> FloatArray:
    """The scores of `batch` from `total`: summed tables, with experiments those of each sum, or summed own scores."""
    if settings.own_scores:
        return np.asarray(total * server.rows, np.float64)
    if not len(server.sum_rows):
        return _score_tables(server, total, batch, settings, server.rows)
    scores, begin, n_sums = np.zeros(len(batch)), 0, len(server.sum_rows) // 2
    discrete = None if server.kind == "discrete" else np.array(server.coding.discrete)
    if server.compares:
        return score_by_mechanism(batch, sums_of_conditions(server, total, settings))
    for k, chosen, families in _requests(server, batch, settings):
        sets = sets_of(families, server.cardinalities, settings.most_cells).sets
        end = begin + length_of_tables(sets, server.cardinalities, discrete)
        rows, prior = int(server.sum_rows[k]), k < n_sums
        scores[chosen] += _score_tables(server, total[begin:end], families, settings, rows, prior=prior)
        begin = end
    return scores


def _requests(server: Server[Any], batch: Batch, settings: SecureSearch) -> list[Request]:
    """The families to count in each sum: those whose child is scored on it; to compare conditions, all families."""
    n_sums = len(server.sum_rows) // 2
    if server.compares:
        return [(k, np.arange(len(batch)), batch) for k in range(1, n_sums)]
    return requests(batch, server.group, n_sums, settings.target_rows)


def sums_of_conditions(server: Server[Any], total: NDArray[Any], settings: SecureSearch) -> Sums:
    """The sums of each condition, from `total`, the summed replies: the tables of one batch, or all moments."""
    n_sums, d = len(server.sum_rows) // 2, len(server.variables)
    if server.kind == "continuous":
        moments = [undo_per_row(one, server.rows) for one in total.reshape(n_sums, -1)[1:]]
        return sums_of_numbers(np.stack(moments), d, math.log(d))
    tables, rows = total.reshape(n_sums - 1, -1), server.sum_rows[1:n_sums]
    return sums_of_tables(tables, rows, server.cardinalities, settings)


def _score_tables(
    server: Server[Any],
    total: NDArray[Any],
    batch: Batch,
    settings: SearchSettings,
    rows: int,
    *,
    prior: bool = True,
) -> FloatArray:
    """The scores of `batch` from tables over `rows` rows, with or without the structure prior."""
    if server.kind == "discrete":
        criterion = _criterion(server, settings, rows)
        criterion = criterion if prior else criterion._replace(prior=np.zeros_like(criterion.prior))
        return score_tables(total, batch, server.cardinalities, criterion, settings)
    discrete = np.array(server.coding.discrete)
    if rows != server.rows:
        sets = sets_of(batch, server.cardinalities, settings.most_cells).sets
        total = rescaled_configurations(total, sets, server.cardinalities, discrete, server.rows / rows)
    return score_configurations(total, batch, server.cardinalities, discrete, rows, settings.most_cells)


def _criterion(server: Server[Any], settings: SearchSettings, rows: int) -> Criterion:
    return create_criterion(settings, len(server.variables), rows, server.worth, filled=server.filled)


def answer(rows: Rows, query: Query) -> NDArray[Any]:
    """The silo's part of the sum; with experiments, its part of each sum."""
    if isinstance(rows, ConditionRows):
        return answer_by_sum(rows, query, answer)
    if isinstance(rows, MixedRows):
        return answer_as_asked(rows, query, {"configurations": configurations_as_asked})
    if rows.kind == "discrete":
        return answer_as_asked(rows, query, {"tables": counts_of, "corners": corners_of})
    return answer_as_asked(rows, query, {"moments": moments_of, "families": family_scores})


def configurations_as_asked(rows: Rows, query: Query) -> NDArray[Any]:
    """The moments by configuration over the sets of `query`."""
    assert isinstance(rows, MixedRows)
    return configuration_moments(rows, query.sets)


def family_scores(rows: Rows, query: Query) -> NDArray[Any]:
    """The silo's scores of the families in `query`, divided by the number of all rows."""
    d = len(rows.cardinalities)
    parts = rows.segments if isinstance(rows, SegmentRows) else rows.moments[None]
    families = listed_families(query.sets, d)
    return np.asarray(np.sum([score_own_rows(one, d, families) for one in parts], axis=0) / rows.all_rows)


def _advance(server: Server[Any], procedure: ScoreSearch[Any], settings: SecureSearch) -> Server[Any]:
    """The state with the search advanced until it needs scores or is done."""
    state, families = server.state, server.families
    shuffle, before = shuffled(len(server.variables), settings), server.state
    predicts = settings.own_scores and settings.lookahead > 0 and procedure.orders
    while not state.done:
        if len(families.pending):
            pending = shuffle.families(families.pending)
            if server.in_corners:
                server = _with_request(replace(server, families=families), procedure, settings)
                if not server.known.is_complete:
                    break
                batch = requested_families(server, settings, procedure)
                families = families.with_scores(_scores_of(server, batch, procedure, settings, NO_VALUES))
            elif settings.own_scores or not all_too_wide(pending, server.cardinalities, settings.most_cells):
                break
            else:
                families = families.with_scores(np.full(len(families.pending), EXCLUDED_SCORE))
        state = procedure.advance(state, families, 0 if predicts else settings.lookahead)
        if families.full:
            families = families.grown()
    found = server.found
    if state.done:
        found = shuffle.graph(procedure.graph(state, families))
        found = pdag_with_knowledge(found, server.prior.required, server.prior.possible)
    elif predicts and state is not before:
        families = _with_predicted(server, state, families, procedure, settings)
    return replace(server, state=state, families=families, found=found, done=state.done)


def _with_request(server: Server[Any], procedure: ScoreSearch[Any], settings: SecureSearch) -> Server[Any]:
    """The server with a request for the corners that the requested families need and no earlier exchange had."""
    batch = requested_families(server, settings, procedure)
    possible = drop_impossible(batch, server.prior) if procedure.orders else batch
    return replace(server, known=server.known.requesting(possible, server.cardinalities, settings.most_cells))


def _with_predicted(
    server: Server[Any], state: Any, families: Families, procedure: ScoreSearch[Any], settings: SecureSearch
) -> Families:
    """`families` with all families pending that the search needs if scores are as the summed moments predict.

    This is done only for a search over orders. It ends even with a mixture of true and predicted scores. With such a
    mixture, the steps of a search over classes could form a cycle.
    """
    shuffle = shuffled(len(server.variables), settings)
    state, predicted = procedure.copy(state), families.copy()
    while not state.done:
        if len(predicted.pending):
            batch = shuffle.families(predicted.pending)
            scores = common_scores(server, batch, server.own_price)
            predicted = predicted.with_scores(apply_knowledge(scores, batch, server.prior))
        state = procedure.advance(state, predicted, 0)
        if predicted.full:
            predicted = predicted.grown()
    return replace(predicted, used=np.array([predicted.used[0], families.used[1], 0]))


def _from_moments(
    server: Server[Any], moments: NDArray[Any], procedure: ScoreSearch[Any], settings: SecureSearch
) -> Server[Any]:
    """The final state, found from the moments of each sum, `[n_sums, size]`, which determine all scores."""
    d, complete = len(server.variables), True
    if len(moments) > 1:
        how = (server.group, settings.target_rows)
        mixed, price = server.kind == "mixed", math.log(d) if procedure.orders else 0.0
        scores = block_scores(moments, server.coding, *how) if mixed else number_scores(moments, *how, price)
        found = best_class(procedure, d, settings, scores, server.prior)
    elif server.kind == "mixed":
        blocks = blocks_of(moments[0], server.coding)
        found, complete = search_blocks(procedure, blocks, settings, server.prior, server.ends)
    else:
        found, complete = search_moments(procedure, moments[0], d, settings, server.prior, server.ends)
    return replace(server, found=found, done=True, cut=not complete)


def _interrupted(server: Server[Any], procedure: ScoreSearch[Any], settings: SecureSearch) -> Server[Any]:
    """The state of a search that is stopped between two exchanges, with the best graph so far."""
    found = shuffled(len(server.variables), settings).graph(procedure.so_far(server.state, server.families))
    return replace(server, found=pdag_with_knowledge(found, server.prior.required, server.prior.possible), cut=True)
