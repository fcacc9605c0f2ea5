"""What API and console share: the server's parts, who asks, what they may do, and the checks on each request."""
