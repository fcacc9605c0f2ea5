"""From an incident, a verdict and a view of the fleet to advice with its guards."""
