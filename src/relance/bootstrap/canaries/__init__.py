"""A canary: small jobs of our own that fail on purpose, to see on a site's own cluster what Relance makes of them."""
