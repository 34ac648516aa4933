"""The baselines of `local.py` by the learner of each silo and by what is made of the silos' structures."""

from functools import partial

from ..admm.notears import notears
from ..dynamic.dynotears import dynotears
from ..mlp.pooled import notears_mlp
from .local import build

notears_medoid = partial(build, learner=notears, choose="medoid")
notears_vote = partial(build, learner=notears, choose="vote")
notears_mlp_medoid = partial(build, learner=notears_mlp, choose="medoid")
notears_mlp_vote = partial(build, learner=notears_mlp, choose="vote")
dynotears_medoid = partial(build, learner=dynotears, choose="medoid")
dynotears_average = partial(build, learner=dynotears, choose="average")
