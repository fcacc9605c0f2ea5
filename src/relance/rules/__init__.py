"""The rule format: reading, checking and compiling rules, and scanning text with them."""
