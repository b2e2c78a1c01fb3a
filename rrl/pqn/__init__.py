"""Quantised PQN (Section 6.2): network, targets, training, agreement of trained policies."""

from rrl.pqn.actions import action_gaps, best_actions, greedy_actions, quantise, rounded_actions, tied
from rrl.pqn.agreement import (
    ActionAgreement,
    action_agreement,
    agreement_by_gap,
    agreement_report,
    bootstrap_interval,
)
from rrl.pqn.config import PQNConfig, Step, VectorEnv
from rrl.pqn.decomposition import Reasons, reasons
from rrl.pqn.gymnasium_pool import GymnasiumPool
from rrl.pqn.network import Architecture, StackedQNetwork
from rrl.pqn.policies import policy_actions
from rrl.pqn.targets import linear_schedule, q_lambda_targets, td_target
from rrl.pqn.train import train
from rrl.pqn.trainer import Trainer

__all__ = [
    "ActionAgreement",
    "Architecture",
    "GymnasiumPool",
    "PQNConfig",
    "Reasons",
    "StackedQNetwork",
    "Step",
    "Trainer",
    "VectorEnv",
    "action_agreement",
    "action_gaps",
    "agreement_by_gap",
    "agreement_report",
    "best_actions",
    "bootstrap_interval",
    "greedy_actions",
    "linear_schedule",
    "policy_actions",
    "q_lambda_targets",
    "quantise",
    "reasons",
    "rounded_actions",
    "td_target",
    "tied",
    "train",
]
