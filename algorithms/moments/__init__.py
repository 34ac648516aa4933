"""Learning from second moments alone: one pooled covariance, exact or private."""

from ..core.release import of_query
from ..core.spec import SERIES, Entry, lazy_factory

ALGORITHMS: dict[str, Entry] = {
    "secure-sum": Entry(
        private=True,
        releases="moments",
        at_sums={},
        summary="one secure sum of second moments, exact or private, then any learner from a covariance",
        source="ours; Chen, Drton, Wang 2019 for the equal-variance order",
        disclosure="masked: its part of the d(d+1)/2 second moments, once; with noise also masked bucket "
        "counts, and noise",
        maker=lazy_factory("moments.secure_sum:SecureSum"),
        kinds=("continuous", "mixed", *SERIES),
        equal_variances=lambda settings: not settings.class_only,
        one_sum=lambda settings: not settings.epsilon,
        server_settings=("learner", "price", "max_parents", "l1", "threshold", "alpha"),
        takes=("rows in passes", "series in passes"),
    ),
    "secure-linear": Entry(
        releases=lambda broadcast: "contrasts" if len(broadcast.standard) else "moments",
        at_sums={"non_gaussian": False},
        summary="one secure sum of second moments; directions from equal variances or non-Gaussian errors",
        source="ours; Chen, Drton, Wang 2019; Andrews et al. 2023; Hyvärinen, Smith 2013",
        disclosure="masked: its part of the d(d+1)/2 second moments about its own means, once; 14 sums for each edge "
        "without a direction, once",
        maker=lazy_factory("moments.secure_linear:SecureLinear"),
        one_sum=lambda settings: True,
        server_settings=("error_variances", "threshold", "non_gaussian", "min_log_likelihood_ratio", "starts"),
        kinds=("continuous", *SERIES),
        takes=(
            "clusters",
            "empty cells",
            "empty cells in series",
            "rows in passes",
            "series in passes",
            "targets of experiments",
        ),
    ),
    "secure-additive": Entry(
        releases=lambda broadcast: "contrasts" if len(broadcast.linear.standard) else "moments",
        summary="an additive model with curved effects, if the data support it, from one more masked sum",
        source="ours; Bühlmann, Peters, Ernest 2014: CAM; Andrews et al. 2023",
        disclosure="masked: what secure-linear sends, then its part of the 3d(3d+1)/2 second moments of its "
        "variables, their squares and their cubes, once",
        maker=lazy_factory("moments.secure_additive:SecureAdditive"),
        takes=(
            "clusters",
            "rows in passes",
        ),
        message_size=lambda settings, d: 3 * d * (3 * d + 1) // 2,
    ),
    "secure-lingam": Entry(
        releases=lambda broadcast: "contrasts" if len(broadcast.standard) else "moments",
        summary="DirectLiNGAM from masked sums: a direction for every edge, if errors are not Gaussian",
        source="ours; Shimizu et al. 2011: DirectLiNGAM; Hyvärinen, Smith 2013 for the contrast",
        disclosure="masked: its part of the second moments, once; of 2m² means for m remaining variables, in d − 1 "
        "exchanges",
        maker=lazy_factory("moments.secure_lingam:SecureLingam"),
        takes=("rows in passes",),
        message_size=lambda settings, d: 2 * d**2,
    ),
    "fed-bfci": Entry(
        releases=of_query,
        at_sums={},
        summary="BFCI: BOSS, then FCI's tests and rules, for latent variables, a PAG; one sum of second moments",
        source="ours; Ogarrio, Spirtes, Ramsey 2016: GFCI; Andrews et al. 2023: BOSS; Zhang 2008",
        disclosure="sums only: second moments of its numbers and of the indicators of its labels, once",
        maker=lazy_factory("moments.fed_bfci:FedBfci"),
        kinds=("continuous", "mixed"),
        server_settings=("alpha", "orientation", "depth", "max_sets", "price"),
        takes=("clusters", "empty cells", "rows in passes"),
    ),
    "dp-covariance": Entry(
        private=True,
        releases="moments",
        summary="every silo releases a private covariance, the server learns from their mean (DP-Fed-BNSL)",
        source="Fassy El Fehri, Bellet, Bastien, Section 6.3; Wang 2018",
        disclosure="bucket counts of its variables' sizes and d(d+1)/2 second moments, once, both with noise of "
        "its own",
        maker=lazy_factory("moments.secure_sum:DpCovariance", "build_dp_covariance"),
        kinds=("continuous", "mixed", *SERIES),
        equal_variances=lambda settings: not settings.class_only,
        takes=("rows in passes", "series in passes"),
    ),
}
"""the learners of this family, by name"""
