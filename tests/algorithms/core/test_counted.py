from fedbnsl.algorithms.core.counted import counted


def test_one_is_not_many():
    assert counted(1, "round") == "1 round"
    assert counted(0, "round") == "0 rounds"
    assert counted(12345, "row") == "12,345 rows"
    assert counted(2, "analysis", "analyses") == "2 analyses"
