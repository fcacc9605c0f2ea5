"""The wiring: builds the roles from the settings and connects them."""
