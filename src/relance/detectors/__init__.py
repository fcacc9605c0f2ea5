"""Pure steps from a state and an input to a new state and findings."""
