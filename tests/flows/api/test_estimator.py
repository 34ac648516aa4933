"""The estimator follows scikit-learn's rules and learns the same as `learn`."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from fedbnsl import learn, prepare
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.settings import NotearsAdmm
from fedbnsl.sklearn import StructureLearner

DATA = prepare("homogeneous", variables=5, silos=3, rows=150, seed=1)
NAMES = list(DATA.schema.variables)
X = pd.DataFrame(np.concatenate([DATA.tables[silo] for silo in DATA.schema.silos]), columns=NAMES)
GROUPS = np.repeat(DATA.schema.silos, 150)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_passes_the_checks_of_scikit_learn():
    found = check_estimator(StructureLearner(), on_fail=None)
    assert {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"} == {}
    assert sum(one["status"] == "passed" for one in found) > 30


def test_it_learns_from_the_silos_that_the_groups_name():
    learner = StructureLearner("notears-admm", params={"rounds": 3}, options={"diagnose": False}, random_state=4)
    found = learner.fit(X, groups=GROUPS)
    other = learn(DATA, "notears-admm", rounds=3, seed=4, diagnose=False)
    assert found is learner
    assert found.learned_.result.schema.rows == DATA.schema.rows
    assert np.allclose(found.weights_, other.weights.to_numpy(), atol=1e-12)
    assert (found.adjacency_ == (found.weights_ != 0)).all()
    assert list(found.feature_names_in_) == NAMES
    assert found.learned_.result.seed == 4


def test_an_array_is_of_numbers_and_settings_are_taken_as_they_are():
    codes = np.random.default_rng(0).integers(0, 3, (60, 2)) + 0.0
    found = StructureLearner(NotearsAdmm(rounds=2)).fit(codes)
    assert found.learned_.result.schema.kind == "continuous"
    assert found.learned_.result.params["rounds"] == 2
    assert list(found.learned_.result.schema.rows) == ["all"]
    again = clone(found)
    assert again.get_params()["algorithm"] == NotearsAdmm(rounds=2)
    assert again.set_params(algorithm="secure-linear").algorithm == "secure-linear"


def test_a_column_that_is_set_aside_has_its_place_without_edges():
    wide = X.assign(constant=1.0)[["constant", *NAMES]]
    found = StructureLearner().fit(wide, groups=GROUPS)
    assert found.n_features_in_ == 6
    assert found.adjacency_.shape == (6, 6)
    assert not found.adjacency_[0].any()
    assert (found.adjacency_[1:, 1:] == StructureLearner().fit(X, groups=GROUPS).adjacency_).all()


def test_its_score_prefers_a_graph_to_none_and_serves_cross_validation():
    learner = StructureLearner("notears-admm", params={"rounds": 30}, options={"diagnose": False})
    none = StructureLearner("notears-admm", params={"rounds": 1, "threshold": 1e6}, options={"diagnose": False})
    better, worse = (
        cross_val_score(one, X, groups=GROUPS, cv=GroupKFold(3), params={"groups": GROUPS}).mean()
        for one in (learner, none)
    )
    assert better > worse + 0.1
    fitted = learner.fit(X, groups=GROUPS)
    assert fitted.score(X) == pytest.approx(fitted.score_samples(X).mean())
    assert fitted.score_samples(X).shape == (450,)


def test_labels_are_scored_by_their_tables():
    rng = np.random.default_rng(0)
    rain = rng.random(200) < 0.4
    wet = rain ^ (rng.random(200) < 0.1)
    frame = pd.DataFrame({"rain": np.where(rain, "yes", "no"), "code": wet.astype(int)})
    found = StructureLearner("secure-ges").fit(frame, groups=rng.integers(0, 2, 200))
    tables = found.learned_.result.parameters.network.tables
    assert found.score_samples(frame[:1].astype({"code": float})) == found.score_samples(frame[:1])
    total = sum(np.exp(found.score(pd.DataFrame({"rain": [r], "code": [c]}))) for r in ("no", "yes") for c in (0, 1))
    assert total == pytest.approx(1.0)
    assert set(tables) == {"rain", "code"}
    with pytest.raises(BadInput, match="X: row 2, column 'rain': 'maybe' is not one of no, yes"):
        found.score(pd.DataFrame({"rain": ["no", "maybe"], "code": [0, 1]}))


def test_rows_without_a_silo_are_refused():
    with pytest.raises(BadInput, match="groups: row 3 has no silo"):
        StructureLearner().fit(X, groups=[*GROUPS[:2], None, *GROUPS[3:]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        StructureLearner().fit(X, groups=GROUPS[1:])
