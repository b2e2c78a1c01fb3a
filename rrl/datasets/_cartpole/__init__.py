"""The CartPole data set: finding, reading and checking it, and playing new episodes."""
