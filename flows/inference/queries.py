"""Queries, simulation and prediction with the model of a finished run; nothing leaves a silo.

A query is written as in textbooks: `P(disease | smoke=yes, do(age=40))`, `P(disease=yes, age>60)`, `P(age | sex=m)`.
Numbers are in the units of the data. If silos transformed a column, its numbers are converted to the scale of the model
and back. Columns of normal scores or log-ratios are the exception: their numbers stay on the scale of the model.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbnsl.algorithms.core.schema import FloatArray, Schema, escape_formula, escape_formulas
from fedbnsl.algorithms.effects.identification import open_edge
from fedbnsl.algorithms.effects.units import Scale
from fedbnsl.algorithms.errors import BadInput, choices_text, quoted
from fedbnsl.algorithms.parameters.inference import (
    QUANTILES,
    Comparison,
    Event,
    NetworkAnswer,
    NetworkQuery,
    Value,
    answer,
)
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.algorithms.parameters.prediction import PREDICTION_SAMPLES, predictions
from fedbnsl.algorithms.statistics.transforms import FORMULAS
from fedbnsl.data.folder.batches import Column, columns_in_memory
from fedbnsl.data.folder.cells import is_empty, labels_of, number_of
from fedbnsl.data.folder.sources import open_source
from fedbnsl.tracking.model import network_of
from fedbnsl.tracking.result import RunResult

from .survival_effects import risk, risk_question, survival_node

if TYPE_CHECKING:
    import pandas as pd

BURN_IN = 200
"""number of steps at the start of a simulated series that are discarded"""
MAX_ROWS = 10_000_000
"""maximum number of rows of a simulated table"""
FORM = "write it as P(X | Y=value, do(Z=value)), with labels or numbers as values"


@dataclass(frozen=True)
class QueryAnswer:
    """The answer to a query; the command line prints its `str`."""

    query: NetworkQuery
    answer: NetworkAnswer
    rests_on: tuple[str, ...]
    interval: tuple[float, float] | None = None
    """the 95 % interval of the probability of a survival outcome, from the uncertainty of its model"""

    def __str__(self) -> str:
        """The answer, with a line for each label or number, and its assumptions."""
        return "\n".join([*self.lines(), "", *self.rests_on])

    def lines(self) -> Iterator[str]:
        """The numbers of the answer."""
        found = self.answer
        for labels, share in found.probabilities.items():
            name = ", ".join(f"{t}={label}" for t, label in zip(self.query.targets, labels, strict=True))
            margin = "" if found.exact else f" ± {2 * found.error(share):.2g}"
            ends = f", 95 % interval {self.interval[0]:.4g} to {self.interval[1]:.4g}" if self.interval else ""
            yield f"{name or 'probability'}: {share:.4g}{margin}{ends}"
        if found.quantiles:
            low, middle, high = (found.quantiles[q] for q in QUANTILES)
            yield f"{self.query.targets[0]}: median {middle:.4g}, 90 % between {low:.4g} and {high:.4g}"
        if found.mean is not None and found.sd is not None:
            yield f"mean {found.mean:.4g}, standard deviation {found.sd:.4g}"

    def as_json(self) -> dict[str, Any]:
        """The answer as JSON: probabilities with their labels, or mean, sd and quantiles."""
        found = self.answer
        named = [
            {"labels": dict(zip(self.query.targets, labels, strict=True)), "probability": share}
            | ({} if found.exact else {"standard_error": found.error(share)})
            for labels, share in found.probabilities.items()
        ]
        number = {"mean": found.mean, "sd": found.sd, "quantiles": {str(q): x for q, x in found.quantiles.items()}}
        return {
            "exact": found.exact,
            **({"interval": list(self.interval)} if self.interval else {}),
            **({"probabilities": named} if named else {k: one for k, one in number.items() if one}),
            "rests_on": list(self.rests_on),
        }


def query(result: RunResult, text: str, *, seed: int = 0, samples: int = PREDICTION_SAMPLES) -> QueryAnswer:
    """The answer of the model of `result` to the query `text`.

    Raises `BadInput` for a query that cannot be read, has unknown variables, or has no answer, and for a run without a
    model.
    """
    parsed = parse(text)
    _refuse_open(result, parsed.do, {*parsed.targets, *(event.name for event in parsed.events), *parsed.given})
    rng, asked = np.random.default_rng(seed), risk_question(parsed, result.schema.survival)
    scaled = _on_model_scale(parsed, result.schema)
    if asked is not None:
        parents = survival_node(result, asked.name).parents
        network = None if set(parents) <= set(parsed.do) and not parsed.given else _network(result)
        found, interval = risk(result, asked, scaled, network, rng, samples)
        return QueryAnswer(parsed, found, _rests_on(result, parsed, found), interval)
    found = answer(_network(result), scaled, rng, samples)
    return QueryAnswer(parsed, _in_units(found, parsed, result.schema), _rests_on(result, parsed, found))


def parse(text: str) -> NetworkQuery:
    """The query in `text`; raises `BadInput` for a text that is not a query."""
    whole = re.fullmatch(r"\s*P\s*\((.*)\)\s*", text, re.DOTALL)
    if whole is None:
        raise BadInput(f"{quoted(text)} is not a query: {FORM}")
    targets, bar, conditions = whole[1].partition("|")
    if not targets.strip() or (bar and not conditions.strip()):
        raise BadInput(f"{quoted(text)} is not a query: {FORM}")
    names, events = [], []
    for word in _split(targets):
        event = re.fullmatch(r"(.+?)(\s*[=<>]|\s+within\s)\s*(.+)", word)
        if event is None:
            names.append(_name(word, text))
        else:
            events.append(Event(_name(event[1], text), _comparison(event[2].strip()), event[3].strip()))
    if names and events:
        raise BadInput(f"{quoted(text)} has targets with and without a value: {names[0]} and {events[0].name}")
    given: dict[str, Value] = {}
    do: dict[str, Value] = {}
    for word in _split(conditions):
        action = re.fullmatch(r"do\s*\((.*)\)", word, re.DOTALL)
        for part in _split(action[1]) if action else [word]:
            name, equals, value = part.partition("=")
            into = do if action else given
            if not (name.strip() and equals and value.strip()):
                raise BadInput(f"{quoted(part)} in {quoted(text)} is not NAME=VALUE: {FORM}")
            if name.strip() in into:
                raise BadInput(f"{quoted(name.strip())} has two values in {quoted(text)}")
            into[_name(name, text)] = value.strip()
    return NetworkQuery(tuple(names), tuple(events), given, do)


def _split(text: str) -> list[str]:
    """The parts between the commas of `text` that are outside parentheses and brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _name(word: str, text: str) -> str:
    if not word.strip():
        raise BadInput(f"{quoted(text)} is not a query: {FORM}")
    return word.strip()


def _comparison(sign: str) -> Comparison:
    signs: dict[str, Comparison] = {"<": "<", ">": ">", "within": "within"}
    return signs.get(sign, "=")


def _refuse_open(result: RunResult, do: Collection[str], others: Collection[str]) -> None:
    """Raise `BadInput` if the graphs of the learned class disagree on what setting `do` does to the `others`.

    The model is that of one of these graphs, whose directions are arbitrary where the data leave them open.
    """
    at = {name: v for v, name in enumerate(result.structure.variables)}
    causes, effects = ([at[name] for name in names if name in at] for names in (do, others))
    found = open_edge(result.structure, causes, effects)
    if found is not None:
        x, v = (result.structure.variables[one] for one in found)
        raise BadInput(
            f"do({x}) is not identified: the data leave the direction of {x} — {v} open. fedbnsl effect gives the "
            f"range over all directions; if you know this one, learn again with --required '{x}->{v}' or '{v}->{x}'"
        )


def _network(result: RunResult) -> Network:
    """The model of the run; raises `BadInput` with the reason if there is none."""
    try:
        return network_of(result)
    except ValueError as error:
        raise BadInput(f"{error}: queries need a model") from None


def _on_model_scale(query: NetworkQuery, schema: Schema) -> NetworkQuery:
    """The query with its numbers on the scale of the model."""

    def convert(name: str, value: Value) -> Value:
        scale = Scale.of(schema, name)
        if not scale.is_transformed:
            return value
        number = number_of(str(value))
        if np.isnan(number):
            raise BadInput(f"{name}: '{value}' is not a number")
        return float(scale.model(np.array([number]))[0])

    events = tuple(replace(event, value=convert(event.name, event.value)) for event in query.events)
    given, do = ({name: convert(name, value) for name, value in one.items()} for one in (query.given, query.do))
    return replace(query, events=events, given=given, do=do)


def _in_units(found: NetworkAnswer, query: NetworkQuery, schema: Schema) -> NetworkAnswer:
    """The answer in the units of the data.

    For a transformed number, only quantiles are converted. Its mean and standard deviation are omitted, because they
    cannot be computed from those on the scale of the model.
    """
    if found.mean is None or not (scale := Scale.of(schema, query.targets[0])).is_transformed:
        return found
    quantiles = {q: float(scale.original(np.array([value]))[0]) for q, value in found.quantiles.items()}
    return replace(found, mean=None, sd=None, quantiles=quantiles)


def _rests_on(result: RunResult, query: NetworkQuery, found: NetworkAnswer) -> tuple[str, ...]:
    """The assumptions behind an answer, one sentence each."""
    lines = [
        f"Model: {result.parameters.how}.",
        *_survival_lines(result, query),
        "Exact for this model."
        if found.exact
        else f"Sampled: the weighted samples count as {found.samples:,.0f}; ± is two standard errors.",
    ]
    names = {*query.targets, *(event.name for event in query.events), *query.given, *query.do}
    lines += [
        f"{name} is on the scale of the model, {FORMULAS[result.schema.transforms[name]]}."
        for name in sorted(names)
        if Scale.of(result.schema, name).score
    ]
    if query.do:
        lines.append(
            "do(...) takes the learned graph and its directions as true, without unmeasured confounding; "
            "fedbnsl effect gives intervals."
        )
    if result.structure.lags and not query.do:
        lines.append("Earlier values that are not given count as independent, with the means of the data.")
    return tuple(lines)


def _survival_lines(result: RunResult, query: NetworkQuery) -> list[str]:
    """What a probability of a survival outcome rests on; empty for other queries."""
    return [
        f"Risk: the piecewise-exponential model of {one.name} given {', '.join(one.node.parents) or 'nothing'}, with "
        f"hazards common to the {one.node.silos} silos in {len(one.node.limits)} intervals; the interval is that of "
        "its coefficients and hazards."
        for one in result.survival
        if one.node and any(event.name == one.name for event in query.events)
    ]


def simulate(result: RunResult, rows: int, *, do: Mapping[str, Value] | None = None, seed: int = 0) -> "pd.DataFrame":
    """Rows drawn from the model of `result`, in the units and labels of the data, after the interventions `do`.

    A model over time gives one series, in which `do` holds at every step. Raises `BadInput` for a run without a model,
    for an unknown name or label, and if `rows` is not from 1 to `MAX_ROWS`.
    """
    if not 1 <= rows <= MAX_ROWS:
        raise BadInput(f"rows is {rows}: it must be from 1 to {MAX_ROWS:,}")
    network, rng = _network(result), np.random.default_rng(seed)
    _refuse_open(result, do or {}, set(result.structure.variables) - set(do or {}))
    chosen = _on_model_scale(NetworkQuery(do=do or {}), result.schema).do
    if network.lags:
        table = _series(network, rows, chosen, rng)
    else:
        table, _ = network.intervened(chosen).sample(rows, rng)
    return _as_frame(result, network.variables, network.levels, table)


def _series(network: Network, rows: int, do: Mapping[str, Value], rng: np.random.Generator) -> FloatArray:
    """A series `[rows, d]` of a network over time, after `BURN_IN` steps.

    Raises `BadInput` for an unknown variable, and if the series of the network are not stationary.
    """
    names, radius = network.variables, network.spectral_radius
    unknown = [name for name in do if name not in names]
    if unknown:
        raise BadInput(f"there is no variable '{unknown[0]}': {choices_text(unknown[0], names)}")
    if radius is not None and radius >= 1 and not do:
        raise BadInput(
            f"the series of this model are not stationary: their spectral radius is {radius:.3g}, not below 1"
        )
    table = network.series(BURN_IN + rows, rng, do)
    if not network.linear and not np.isfinite(table).all():
        raise BadInput("the series of this model are not stationary: they grow beyond all numbers")
    return table[-rows:]


def predict(result: RunResult, path: Path, targets: Sequence[str] = (), *, seed: int = 0) -> "pd.DataFrame":
    """The table at `path` with its empty cells predicted, each given the filled cells of its row.

    Parameters
    ----------
    result
        A finished run with a model of independent rows (a network over time has the method `forecast` instead).
    path
        A CSV or Parquet file with columns of the model; a missing column counts as empty.
    targets
        Variables to predict in every row, even if their cells are filled. By default, all empty cells are predicted.
    seed
        The seed of samples, which are needed if a row has empty cells of both labels and numbers.

    Returns
    -------
    pandas.DataFrame
        The columns of the model, with means or the most probable labels as predictions. For each predicted variable X,
        a column `sd(X)` or `P(X)` has the standard deviation or the probability of each predicted cell.

    Raises
    ------
    BadInput
        For a run without such a model, an unknown target, and a cell that is not a number or a label of the model.
        Without targets, also for a table that has no empty cell to predict.
    """
    network = _network(result)
    if network.lags:
        raise BadInput("the model of a time series forecasts: found.result.parameters.network.forecast(past) in Python")
    for name in targets:
        network.index(name)
    table = _read(path, network.variables, network.levels, result.schema)
    for name in targets:
        table[:, network.index(name)] = np.nan
    chosen = list(targets) or [name for v, name in enumerate(network.variables) if np.isnan(table[:, v]).any()]
    if not chosen:
        raise BadInput(f"{path}: no cell is empty: give --target NAME to predict a variable in every row")
    found = predictions(network, table, chosen, np.random.default_rng(seed))
    filled, certainties = table.copy(), {}
    for name, own in found.items():
        filled[own.rows, network.index(name)] = own.best
        certainties[name] = np.full(len(table), np.nan)
        certainties[name][own.rows] = own.certainty
    frame = _as_frame(result, network.variables, network.levels, filled)
    for name, values in certainties.items():
        kind = "P" if name in network.levels else "sd"
        scale = " on the model's scale" if kind == "sd" and name in result.schema.transforms else ""
        frame[f"{kind}({name}){scale}"] = values
    return frame


def _read(path: Path, variables: Sequence[str], levels: Mapping[str, Sequence[str]], schema: Schema) -> FloatArray:
    """The cells `[n_rows, d]` of the table at `path` on the model's scale: codes for labels, NaN for empty cells."""
    read = {column.name: column for column in columns_in_memory(open_source(path))}
    # A table that `simulate` wrote has escaped names.
    columns = {name: read[given] for name in variables for given in (escape_formula(name), name) if given in read}
    known = [name for name in variables if name in columns]
    if not known:
        raise BadInput(f"{path}: none of its columns is a variable of the model: {', '.join(variables)}")
    table = np.full((len(columns[known[0]]), len(variables)), np.nan)
    for v, name in enumerate(variables):
        if name in columns:
            values = _cells(path, columns[name], levels.get(name))
            table[:, v] = Scale.of(schema, name).model(values)
    return table


def _cells(path: Path, column: Column, levels: Sequence[str] | None) -> FloatArray:
    """The numbers of a column, or the codes of its labels; raises `BadInput` with the row of the first bad cell."""
    values = np.full(len(column.cells), np.nan)
    codes = {label: code for code, level in enumerate(levels or ()) for label in (escape_formula(level), level)}
    for k, (cell, label) in enumerate(zip(map(str.strip, column.cells), labels_of(column.cells, levels), strict=True)):
        if label in codes:
            values[k] = codes[label]
        elif not is_empty(cell):
            number = number_of(cell) if levels is None else np.nan
            if not np.isfinite(number):
                row = int(np.argmax(column.codes == k)) + 1
                expected = "a number" if levels is None else f"one of its labels {', '.join(levels)}"
                raise BadInput(f"{path}: row {row}, column {quoted(column.name)}: {quoted(cell)} is not {expected}")
            values[k] = number
    return values[column.codes] if len(values) else np.empty(0)


def _as_frame(
    result: RunResult, variables: Sequence[str], levels: Mapping[str, Sequence[str]], table: FloatArray
) -> "pd.DataFrame":
    """The `table` with labels instead of codes, and in the units of the data."""
    frame: dict[str, Any] = {}
    for v, name in enumerate(variables):
        column = table[:, v]
        if name in levels:
            labels = np.array([*levels[name], None], dtype=object)
            frame[name] = labels[np.where(np.isnan(column), len(levels[name]), column).astype(np.int64)]
        else:
            frame[name] = Scale.of(result.schema, name).original(column)
    import pandas as pd  # imported late: most commands need no DataFrame

    return pd.DataFrame(frame)


def interventions(words: Sequence[str]) -> dict[str, Value]:
    """The interventions in words such as "smoke=no"; raises `BadInput` for other words."""
    found: dict[str, Value] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise BadInput(f"--do {word}: write it as NAME=VALUE")
        if name.strip() in found:
            raise BadInput(f"--do: {quoted(name.strip())} has two values")
        found[name.strip()] = value.strip()
    return found


def write_table(frame: "pd.DataFrame", out: Path | None) -> None:
    """Print the table as CSV, or write it to the new file `out`. Raises `BadInput` if the file cannot be created."""
    text = escape_formulas(frame).to_csv(index=False)
    if out is None:
        print(text, end="")
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise BadInput(f"{out}: cannot be written: {error.strerror or error}") from None
