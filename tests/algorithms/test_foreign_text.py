"""Text of another party on a terminal, in a log or a notebook: one line of printable characters, bounded in length."""

import io
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.table import Table

from fedbnsl.algorithms.errors import BadInput, escape_unprintable, foreign_text, with_name_of
from fedbnsl.flows.cli.main import fail
from fedbnsl.flows.terminal.console import PlainConsole
from fedbnsl.flows.terminal.daemon import log_line
from fedbnsl.tracking.staging import first_line, notice

HOSTILE = "bad\x1b[2J\x1b]0;owned\x07\nnote: forged\r\x9b31m\u202egnp.exe\u2066\u2028next\x85line\ud800\x00end"
"""escape sequences, a second line in four ways, overrides of direction, an unpaired surrogate, and a null character"""


def shown(text):
    """The categories of what a reader would not see as it is: control, format, surrogate, line and paragraph."""
    return {unicodedata.category(one) for one in text} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.text(st.characters()), st.integers(1, 60))
@example(HOSTILE, 500)
@example("\u202e" * 100, 20)
def test_any_text_becomes_one_printable_line_of_bounded_length(text, limit):
    line = foreign_text(text, limit)
    assert shown(line) == set()
    assert len(line) <= limit
    line.encode()  # an unpaired surrogate could not be printed


@given(st.text(st.characters(categories=("L", "N", "P", "S", "M")), max_size=200))
def test_ordinary_text_of_any_language_stays_as_it_is(text):
    assert foreign_text(text) == text


def test_what_is_left_out_or_replaced_is_visible():
    assert foreign_text("a\n\t b\x1b[31mc\u202ed") == r"a b\x1b[31mc\u202ed"
    assert foreign_text("x" * 501) == "x" * 499 + "…"
    assert foreign_text("x" * 500) == "x" * 500
    assert foreign_text(" " * 5000 + "late", 100) == "…"
    assert escape_unprintable("two\nlines\x07") == "two\nlines\\x07"


def by_fail(capsys):
    with pytest.raises(SystemExit):
        fail(HOSTILE)
    return capsys.readouterr().err


def by_notice(capsys):
    notice(HOSTILE)
    return capsys.readouterr().err


def by_log(capsys):
    log_line(HOSTILE)
    return capsys.readouterr().out


def in_a_notebook(capsys):
    return "".join(BadInput(HOSTILE)._render_traceback_()) + "\n"


def as_the_reason_of_an_error(capsys):
    return first_line(ValueError(HOSTILE)) + "\n"


@pytest.mark.parametrize("written", [by_fail, by_notice, by_log, in_a_notebook, as_the_reason_of_an_error])
def test_each_way_to_show_an_error_writes_one_printable_line(written, capsys):
    text = written(capsys)
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert shown(text[:-1]) == set()


def test_a_table_on_a_terminal_has_no_sequences_but_its_own():
    """Names of silos, columns and labels are cells of tables."""
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE)
    table.add_row("[bold]:heart:[/bold]")
    out = io.StringIO()
    console = PlainConsole(file=out, width=400, force_terminal=True, color_system=None)
    console.print(table)
    console.print(HOSTILE)
    assert (
        shown(out.getvalue().replace("\n", "").replace("\x1b[1m", "").replace("\x1b[3m", "").replace("\x1b[0m", ""))
        == set()
    )
    assert "[bold]:heart:[/bold]" in out.getvalue()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("rows.csv: line 5", "silo lab: rows.csv: line 5"),
        ("data/lab.csv: line 5", "data/lab.csv: line 5"),
        ("silo lab, round 2: no memory", "silo lab, round 2: no memory"),
        ("data/labels.csv: line 5", "silo lab: data/labels.csv: line 5"),
    ],
)
def test_a_message_names_its_silo_once(text, named):
    assert with_name_of("lab", text) == named
