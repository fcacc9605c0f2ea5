"""The server's loop: takes in findings and reports, advances incidents and verifies restarts."""
