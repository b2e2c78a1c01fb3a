"""rrl: replicable reinforcement learning with linear function approximation.

The algorithms of the paper of that name, the measuring of replicability, and its experiments. Every
name is imported when it is first used, so that ``import rrl`` costs nothing and needs nothing more
than the part in use.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "Certificate": "certify",
    "CertificationLaw": "certify",
    "CoreSet": "core_set",
    "LSVIResult": "lsvi",
    "LSVIUCBResult": "lsvi_ucb",
    "LinearMDP": "mdp",
    "PilotBinWidth": "pilot",
    "RandomFourierFeatures": "features",
    "ReplicabilityEstimate": "replicability",
    "ReplicableFittedQ": "fitted_q",
    "ReplicableRidge": "ridge",
    "ReplicableSecondMoment": "second_moment",
    "Rounded": "rounding",
    "action_agreement": "pqn.agreement",
    "anytime_limits": "certify",
    "barycentric_spanner": "core_set",
    "certification_law": "certify",
    "certify_replicability": "certify",
    "clopper_pearson": "replicability",
    "core_set_constant": "core_set",
    "estimate_replicability": "replicability",
    "fingerprint": "replicability",
    "g_optimal_design": "core_set",
    "hypergrid_round": "rounding",
    "modal_share": "replicability",
    "pairwise_share": "replicability",
    "pilot_bin_width": "pilot",
    "project_psd": "second_moment",
    "r_lsvi": "lsvi",
    "r_lsvi_ucb": "lsvi_ucb",
    "ridge_weights": "ridge",
    "shared_uniform": "randomness",
}
_MODULES = ("book", "datasets", "experiments", "mdp", "pqn", "theory")

__all__ = sorted([*_HOME, "theory"])


def __getattr__(name):
    if name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOME, *_MODULES})
