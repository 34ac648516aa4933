"""Background knowledge from a file: every rule, and every error with file, line, column and value."""

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.truth import read_knowledge

NAMES = ("age", "sex", "smokes", "cancer")


def written(tmp_path, *lines, header="rule,source,target"):
    path = tmp_path / "known.csv"
    path.write_text("\n".join((header, *lines)) + "\n")
    return path


def test_every_rule_is_read(tmp_path):
    path = written(
        tmp_path, "required,smokes,cancer", "", "forbidden, age ,sex", "no-parents,age", "tier,sex,1", "tier,cancer,3"
    )
    known = read_knowledge(path, NAMES)
    assert known.required == (("smokes", "cancer"),)
    assert set(known.forbidden) == {
        ("age", "sex"),
        ("cancer", "sex"),
        ("sex", "age"),
        ("smokes", "age"),
        ("cancer", "age"),
    }
    assert len(known.forbidden) == len(set(known.forbidden))


def test_tiers_are_in_the_order_of_their_numbers_wherever_they_stand_in_the_file(tmp_path):
    lines = ["tier,cancer,10", "tier,age,-1", "tier,smokes,9"]
    for order in (lines, lines[::-1], lines[1:] + lines[:1]):
        known = read_knowledge(written(tmp_path, *order), NAMES)
        assert set(known.forbidden) == {("smokes", "age"), ("cancer", "age"), ("cancer", "smokes")}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("needed,age,sex", "line 2, column 'rule': 'needed' is not one of required, forbidden, no-parents, tier"),
        ("required,weight,sex", "line 2, column 'source': 'weight' is not a column of the data"),
        ("forbidden,age,weight", "line 2, column 'target': 'weight' is not a column of the data"),
        ("required,age,", "line 2, column 'target': '' is not a column of the data"),
        ("no-parents,weight", "line 2, column 'source': 'weight' is not a column of the data"),
        ("tier,age,first", "line 2, column 'target': 'first' is not the number of a tier"),
    ],
)
def test_a_bad_line_is_refused_by_place_and_value(tmp_path, line, said):
    with pytest.raises(BadInput) as refused:
        read_knowledge(written(tmp_path, line), NAMES)
    assert str(refused.value).startswith(f"{tmp_path}/known.csv, {said}")
    assert "\n" not in str(refused.value)


def test_a_line_is_named_by_its_place_in_the_file_also_after_a_cell_of_several_lines(tmp_path):
    path = tmp_path / "known.csv"
    path.write_text('rule,source,target\nrequired,age,sex,"two\nlines"\n\nrequired,age,nobody\n')
    with pytest.raises(BadInput, match=r"known.csv, line 5, column 'target': 'nobody'"):
        read_knowledge(path, NAMES)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["required,age,sex", "forbidden,age,sex"], "age -> sex is both required and forbidden"),
        (["required,cancer,age", "tier,age,1", "tier,cancer,2"], "cancer -> age is both required and forbidden"),
        (["required,age,sex", "no-parents,sex"], "age -> sex is both required and forbidden"),
        (["required,age,sex", "required,sex,age"], "required arcs form the cycle age -> sex -> age"),
        (["tier,age,1", "tier,age,2"], "'age' is in two tiers"),
        (["forbidden,age,age"], "age -> age leads from a variable to itself"),
    ],
)
def test_contradictions_between_lines_are_refused_by_name(tmp_path, lines, said):
    with pytest.raises(BadInput, match=said):
        read_knowledge(written(tmp_path, *lines), NAMES)


def test_another_header_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"known.csv, line 1: the header must be rule,source,target"):
        read_knowledge(written(tmp_path, header="from,to"), NAMES)
    with pytest.raises(BadInput, match=r"none.csv: no such file"):
        read_knowledge(tmp_path / "none.csv", NAMES)
