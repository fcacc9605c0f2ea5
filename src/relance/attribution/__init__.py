"""From a case file to a verdict: what happened, why, and which nodes are suspect."""
