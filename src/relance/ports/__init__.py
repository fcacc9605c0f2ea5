"""The protocols through which the loops reach the world, in terms of the domain alone."""
