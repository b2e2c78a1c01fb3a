"""Figure 2: quantised PQN on Atari and MinAtar, its runs, its tables and its verdicts."""
