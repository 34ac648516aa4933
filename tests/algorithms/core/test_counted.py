from fedbnsl.algorithms.errors import pluralize


def test_one_is_not_many():
    assert pluralize(1, "round") == "1 round"
    assert pluralize(0, "round") == "0 rounds"
    assert pluralize(12345, "row") == "12,345 rows"
    assert pluralize(2, "analysis", "analyses") == "2 analyses"
