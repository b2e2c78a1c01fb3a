"""Quantised PQN (Section 6.2): network, targets, training, agreement of trained policies."""

from rrl.pqn.config import PQNConfig, Step, VectorEnv
from rrl.pqn.network import Architecture, StackedQNetwork, greedy_actions, quantise
from rrl.pqn.targets import linear_schedule, q_lambda_targets, td_target
from rrl.pqn.train import Trainer, train

__all__ = [
    "Architecture",
    "PQNConfig",
    "StackedQNetwork",
    "Step",
    "Trainer",
    "VectorEnv",
    "greedy_actions",
    "linear_schedule",
    "q_lambda_targets",
    "quantise",
    "td_target",
    "train",
]
