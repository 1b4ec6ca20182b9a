"""The paper, and nothing that is not in it. Start at `outer`: Algorithm 1, line by line."""
