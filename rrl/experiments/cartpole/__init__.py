"""Figure 1: the plan, the batched fits, the simulator, the study itself and its tables."""
