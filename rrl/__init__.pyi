"""The public names, in the order of the paper; ``__init__.py`` reads this list and imports a name when it is used."""

from . import book as book
from . import datasets as datasets
from . import experiments as experiments
from . import mdp as mdp
from . import pqn as pqn
from . import testing as testing
from . import theory
from .randomness import shared_integers, shared_normal, shared_permutation, shared_uniform
from .rounding import Rounded, hypergrid_round
from .lattice import lattice_round
from .ridge import LooseCodesWarning, ReplicableRidge, ridge_weights
from .scaling import ReplicableScaler
from .core_set import CoreSet, barycentric_spanner, core_set_constant, g_optimal_design
from .second_moment import ReplicableSecondMoment, project_psd
from .mdp import LinearMDP
from .lsvi import LSVIResult, r_lsvi
from .tabular import TabularResult, r_qvi
from .lsvi_ucb import LSVIUCBResult, r_lsvi_ucb
from .adaptive import (
    AdaptiveLSVIResult,
    AdaptiveRidgeResult,
    AdaptiveRounded,
    adaptive_r_lsvi,
    adaptive_ridge,
    adaptive_round,
)
from .features import RandomFourierFeatures
from .fitted_q import ReplicableFittedQ
from .pqn.agreement import action_agreement
from .pqn.policies import policy_actions
from .pairs import Pair, ReplicabilityWarning, RunFailed, pair_seeds
from .replicability import (
    ReplicabilityEstimate,
    clopper_pearson,
    estimate_replicability,
    fingerprint,
    modal_share,
    pairwise_share,
)
from .evidence import anytime_limits
from .certify import Certificate, certify_replicability
from .law import CertificationLaw, certification_law, least_pairs
from .choosing import ChosenBinWidth, choose_bin_width
from .programs import certify_program
from .tradeoff import plot_trade_off, trade_off
from .statement import ReplicabilityStatement
from .pilot import PilotBinWidth, PilotWarning, pilot_bin_width

__version__: str
__all__ = [
    "AdaptiveLSVIResult",
    "AdaptiveRidgeResult",
    "AdaptiveRounded",
    "Certificate",
    "CertificationLaw",
    "ChosenBinWidth",
    "CoreSet",
    "LSVIResult",
    "LSVIUCBResult",
    "LinearMDP",
    "LooseCodesWarning",
    "Pair",
    "PilotBinWidth",
    "PilotWarning",
    "RandomFourierFeatures",
    "ReplicabilityEstimate",
    "ReplicabilityStatement",
    "ReplicabilityWarning",
    "ReplicableFittedQ",
    "ReplicableRidge",
    "ReplicableScaler",
    "ReplicableSecondMoment",
    "Rounded",
    "RunFailed",
    "TabularResult",
    "action_agreement",
    "adaptive_r_lsvi",
    "adaptive_ridge",
    "adaptive_round",
    "anytime_limits",
    "barycentric_spanner",
    "certification_law",
    "certify_program",
    "certify_replicability",
    "choose_bin_width",
    "clopper_pearson",
    "core_set_constant",
    "estimate_replicability",
    "fingerprint",
    "g_optimal_design",
    "hypergrid_round",
    "lattice_round",
    "least_pairs",
    "modal_share",
    "pair_seeds",
    "pairwise_share",
    "pilot_bin_width",
    "plot_trade_off",
    "policy_actions",
    "project_psd",
    "r_lsvi",
    "r_lsvi_ucb",
    "r_qvi",
    "ridge_weights",
    "shared_integers",
    "shared_normal",
    "shared_permutation",
    "shared_uniform",
    "theory",
    "trade_off",
]
