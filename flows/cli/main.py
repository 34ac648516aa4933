"""The command line `fedbnsl`: what the user types, and one line for what is wrong with it.

The commands themselves are imported when they run: Prefect, MLflow and pandas take seconds, `--help` takes none.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .prepare import prepare_app
from .privacy import attack_app, privacy_app

app = typer.Typer(
    name="fedbnsl",
    help="Learn the structure of a Bayesian network from data that several owners hold and may not pool.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(prepare_app, name="prepare")
app.add_typer(privacy_app, name="privacy")
app.add_typer(attack_app, name="attack")

AlgorithmOption = Annotated[str, typer.Option("--algorithm", "-a", help="One of those that `algorithms` lists.")]
ParamOption = Annotated[
    list[str] | None, typer.Option("--param", "-p", metavar="KEY=VALUE", help="A parameter of the algorithm; repeat.")
]
SeedOption = Annotated[int, typer.Option(help="Same seed, same result, bit for bit; private noise has no seed.")]
EpsilonOption = Annotated[
    float | None, typer.Option(metavar="E", help="Privacy budget ε of the run; see `privacy plan`.")
]
DeltaOption = Annotated[float | None, typer.Option(metavar="D", help="δ; default: 1/n² of the smallest silo.")]
BudgetOption = Annotated[
    float | None, typer.Option(metavar="E", help="The most ε that all runs on these rows may spend together.")
]
SecureOption = Annotated[bool, typer.Option("--secure", help="Mask the replies: the coordinator sees only sums.")]
ParametersOption = Annotated[
    bool, typer.Option("--parameters/--no-parameters", help="Learn the parameters of the structure, too.")
]
SmoothingOption = Annotated[
    float, typer.Option(metavar="ROWS", help="Equivalent sample size of the prior of probability tables.")
]
CyclicOption = Annotated[
    bool, typer.Option("--allow-cyclic-truth", help="Compare even if the true graph has a directed cycle.")
]
AddressOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Scheduler whose workers host the silos; default: start workers.")
]


@app.command()
def learn(
    folder: Annotated[Path | None, typer.Argument(help="Federated data set: a folder, one file a silo.")] = None,
    algorithm: AlgorithmOption = "fed-sparse",
    param: ParamOption = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    budget: BudgetOption = None,
    secure: SecureOption = False,
    parameters: ParametersOption = True,
    smoothing: SmoothingOption = 1.0,
    seed: SeedOption = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default: runs/<name>.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the run; default: algorithm, data, seed, time.")] = None,
    engine: Annotated[str, typer.Option(help="prefect, or inline: without Prefect, Dask and MLflow.")] = "prefect",
    dask_address: AddressOption = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Continue the interrupted run in DIR.")] = None,
    allow_cyclic_truth: CyclicOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Prefect's own messages, too.")] = False,
) -> None:
    """Learn a structure from the silos of FOLDER; print it, its scores and where the report is."""
    from . import learn as cli_learn

    given = {"algorithm": algorithm, "params": pairs(param), "seed": seed, "name": name}
    given |= {"epsilon": epsilon, "delta": delta, "budget": budget, "secure": secure}
    given |= {"parameters": parameters, "smoothing": smoothing}
    given |= {"out": str(out) if out else None, "dask_address": dask_address, "allow_cyclic_truth": allow_cyclic_truth}
    cli_learn.learn(folder, given, engine=engine, resume=resume, verbose=verbose)


@app.command()
def features(
    folder: Annotated[Path, typer.Argument(help="Federated data set: a folder, one file a silo.")],
    target: Annotated[str, typer.Option(metavar="Y", help="The variable whose causes and effects are wanted.")],
    algorithm: AlgorithmOption = "fed-pc",
    alpha: Annotated[float | None, typer.Option(metavar="A", help="Level of the independence tests.")] = None,
    param: ParamOption = None,
    secure: SecureOption = False,
    seed: SeedOption = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default: runs/<name>.")] = None,
    engine: Annotated[str, typer.Option(help="prefect, or inline: without Prefect, Dask and MLflow.")] = "prefect",
    dask_address: AddressOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Prefect's own messages, too.")] = False,
) -> None:
    """Learn the parents, children and spouses of a variable: the features that predict it (Markov blanket)."""
    from . import features as cli_features

    params = cli_features.with_alpha(algorithm, pairs(param), alpha)
    given = {"algorithm": algorithm, "params": params, "seed": seed, "secure": secure, "parameters": False}
    given |= {"out": str(out) if out else None, "dask_address": dask_address}
    cli_features.features(folder, target, given, engine=engine, verbose=verbose)


@app.command()
def algorithms(
    as_json: Annotated[bool, typer.Option("--json", help="The same for programs.")] = False,
) -> None:
    """List the algorithms: what each is, its parameters, and exactly what leaves a silo."""
    from ..terminal.listing import show_algorithms

    show_algorithms(as_json=as_json)


@app.command()
def evaluate(
    structure: Annotated[Path, typer.Argument(help="The learned structure: source,target[,weight].")],
    truth: Annotated[Path, typer.Argument(help="The true one, in the same form.")],
    allow_cyclic_truth: CyclicOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same for programs.")] = False,
) -> None:
    """Score a learned structure against the truth."""
    from ..terminal.listing import show_evaluation

    show_evaluation(structure, truth, allow_cyclic_truth=allow_cyclic_truth, as_json=as_json)


@app.command()
def ui(
    prefect_port: Annotated[int, typer.Option(help="Port of the Prefect server; a free one if it is taken.")] = 4200,
    mlflow_port: Annotated[int, typer.Option(help="Port of the MLflow server; a free one if it is taken.")] = 5000,
) -> None:
    """Start the Prefect and the MLflow user interface; Ctrl-C stops both."""
    from ..servers.processes import serve_both

    serve_both(prefect_port, mlflow_port)


@app.command()
def serve(
    folder: Annotated[Path, typer.Argument(help="Federated data set: a folder, one file a silo.")],
    algorithm: AlgorithmOption = "fed-sparse",
    param: ParamOption = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    budget: BudgetOption = None,
    secure: SecureOption = False,
    parameters: ParametersOption = True,
    smoothing: SmoothingOption = 1.0,
    seed: SeedOption = 0,
    dask_address: AddressOption = None,
    allow_cyclic_truth: CyclicOption = False,
    cron: Annotated[str | None, typer.Option(help='When to learn, e.g. "0 3 * * *": every night at three.')] = None,
    interval: Annotated[float | None, typer.Option(help="Or every so many seconds.")] = None,
    deployment: Annotated[str, typer.Option("--name", help="Name of the deployment.")] = "scheduled",
) -> None:
    """Learn from FOLDER on a schedule, until Ctrl-C; runs can also be started from the Prefect UI."""
    from ..servers.schedule import serve_learn

    given = {"algorithm": algorithm, "params": pairs(param), "seed": seed}
    given |= {"epsilon": epsilon, "delta": delta, "budget": budget, "secure": secure}
    given |= {"parameters": parameters, "smoothing": smoothing}
    given |= {"dask_address": dask_address, "allow_cyclic_truth": allow_cyclic_truth}
    serve_learn(folder, given, deployment, cron=cron, interval=interval)


def pairs(given: list[str] | None) -> dict[str, str]:
    """Return the parameters in `KEY=VALUE` words; raises `BadInput` for a word of another form."""
    from fedbnsl.algorithms.errors import BadInput

    found = {}
    for word in given or ():
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise BadInput(f"-p {word}: a parameter is given as KEY=VALUE")
        found[key] = value
    return found


def main(words: list[str] | None = None) -> None:
    """Run the command line; the exit code is 2, after one line on stderr, for anything the user got wrong."""
    from fedbnsl.algorithms.errors import BadInput

    try:
        code = typer.main.get_command(app).main(words, prog_name="fedbnsl", standalone_mode=False)
    except BadInput as error:
        fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        print("stopped", file=sys.stderr)
        leave(130)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        message: Any = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message)
            leave(2)
        fail(f"{message}{given(error, words if words is not None else sys.argv[1:])}")
    else:
        leave(code if isinstance(code, int) else 0)


def given(error: Any, words: list[str]) -> str:
    """Return the value that a wrong option was given, for the message; nothing where it is not known."""
    for name in getattr(getattr(error, "param", None), "opts", ()):
        if name in words[:-1]:
            return f" (given: {words[words.index(name) + 1]})"
    return ""


def fail(message: str) -> None:
    """Say what is wrong in one line and leave with 2."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    leave(2)


def leave(code: int) -> None:
    """Exit with `code`; a pipe that nobody reads any more is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(code)


if __name__ == "__main__":
    main()
