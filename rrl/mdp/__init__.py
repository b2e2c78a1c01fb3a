"""Definition 2.1: the model, named instances, draws and counts, and the view for Gymnasium."""

from .linear_mdp import LinearMDP, Values, greedy_actions

__all__ = ["LinearMDP", "Values", "greedy_actions"]
