"""The command line in general: version, help, completion, and suggestions for mistyped names."""

import gc
import os
import re

import pytest
import typer

from fedbnsl.flows.cli import completion
from fedbnsl.flows.cli.main import COMMANDS, app, command, main, with_plain_help
from fedbnsl.flows.options.learn import LearnOptions
from tests.flows.commands import run


def test_it_says_its_version(capsys):
    from importlib.metadata import version

    assert run(capsys, "--version") == (0, f"fedbnsl {version('fedbnsl')}\n", "")


def test_the_nearest_command_option_algorithm_and_parameter_are_named(capsys, example):
    refused = {
        ("lern",): "No such command 'lern'. Did you mean 'learn'",
        ("learn", example, "--secur"): "No such option: --secur",
        ("learn", example, "-a", "fed-sparce"): "unknown algorithm 'fed-sparce': did you mean fed-sparse? available:",
        ("learn", example, "-a", "fed-sparse", "-p", "round=3"): "of fed-sparse: did you mean rounds? available:",
        ("learn", example, "-a", "fed-sparse", "-p", "preset=papers"): "'papers' of fed-sparse: did you mean paper?",
        ("algorithms", "secure-gas"): "unknown algorithm 'secure-gas': did you mean secure-ges?",
        ("learn", example, "-a", "fdbnl"): "fdbnl learns from time-series data, and example is continuous: use secure-",
    }
    for words, said in refused.items():
        code, out, err = run(capsys, *words)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1


def every_command():
    """Yield all commands, and those of groups."""
    yield "fedbnsl", with_plain_help(typer.main.get_command(app))
    for name in COMMANDS:
        found = command(name)
        yield name, found
        yield from ((f"{name} {one}", inner) for one, inner in getattr(found, "commands", {}).items())


def test_no_help_shows_the_name_of_a_type_beside_a_flag_or_a_word():
    for name, one in every_command():
        context = typer.Context(one, info_name=name)
        for parameter in one.get_params(context):
            shown = parameter.param_type_name == "option" and parameter.display_type_rich(context)
            assert shown not in ("<bool>", "<str>", "<float>", "<int>"), f"{name}: {parameter.name}"
        assert all(piece == piece.upper() for piece in one.collect_usage_pieces(context) if "]..." not in piece)


def test_help_fits_a_terminal_of_80_columns_and_cuts_no_word_off(monkeypatch):
    """Texts stand in one wide column: the help of `learn`, the longest, once had 390 lines."""
    monkeypatch.setenv("COLUMNS", "80")
    for name, one in every_command():
        lines = one.get_help(typer.Context(one, info_name=name, terminal_width=80)).splitlines()
        assert max(map(len, lines)) <= 80, name
        assert not any("…" in line or line.endswith("...") for line in lines if "Usage:" not in line), name
        assert not any(re.search(r"\w-$", line) and "[default" not in line for line in lines), name
        assert len(lines) < 200, name


def test_the_help_of_learn_has_every_option_below_a_heading_and_no_heading_twice():
    """`headings` names the first field of each group: the first field must have one, and every name must be a field."""
    assert next(iter(LearnOptions.headings)) == next(iter(LearnOptions.model_fields))
    assert set(LearnOptions.headings) <= set(LearnOptions.model_fields)
    text = command("learn").get_help(typer.Context(command("learn"), info_name="learn"))
    found = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert found == ["Arguments", *LearnOptions.headings.values(), "Other options"]
    parts = dict(zip(found, re.split(r"^\w[\w ]*:$", text, flags=re.MULTILINE)[1:], strict=True))
    for option, heading in (
        ("--budget-delta", "Privacy"),
        ("--deseasonalise", "Series and transforms"),
        ("-h", "Other options"),
    ):
        assert [name for name, part in parts.items() if f"{option} " in part or f"{option}," in part] == [heading]


def completed(capsys, monkeypatch, line):
    """The words that bash is offered for `line`, of which the last word is not complete."""
    words = line.split(" ")
    monkeypatch.setenv("_FEDBNSL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    with pytest.raises(SystemExit):
        main([])
    return capsys.readouterr().out.split()


COMPLETED = {
    "fedbnsl ser": ["serve"],
    "fedbnsl learn data -a secure-l": ["secure-linear", "secure-lingam"],
    "fedbnsl learn data -a fed-sparse -p local_": ["local_steps="],
    "fedbnsl learn data --missing com": ["complete-rows"],
    "fedbnsl learn data --engine in": ["inline"],
    "fedbnsl algorithms rf": ["rfcd"],
    "fedbnsl privacy l": ["ledger"],
}


@pytest.mark.parametrize("line", COMPLETED)
def test_a_shell_completes(capsys, monkeypatch, line):
    assert completed(capsys, monkeypatch, line) == COMPLETED[line]


def test_the_words_of_a_parameter_are_completed():
    of = {"algorithm": "secure-linear"}
    context = typer.Context(command("learn"))
    context.params = of
    found = completion.parameters(context, "error_variances=")
    assert [word for word, _ in found] == ["error_variances=auto", "error_variances=equal", "error_variances=free"]
    context.params = {"algorithm": "fed-sparse"}
    assert ("preset=paper", "") in completion.parameters(context, "preset=")
    assert [word for word, _ in completion.parameters(context, "center=")] == ["center=true", "center=false"]
    assert all(meaning for _, meaning in completion.parameters(context, ""))
    context.params = {"algorithm": "auto"}
    assert completion.parameters(context, "") == []


def test_completion_can_be_installed(capsys, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "install-completion" in run(capsys, "--help")[1]
    assert "_FEDBNSL_COMPLETE" not in os.environ


def test_imports_are_rarely_searched_for_garbage(capsys):
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        run(capsys, "--version")
        assert gc.get_threshold()[0] >= 20_000
    finally:
        gc.set_threshold(*before)
