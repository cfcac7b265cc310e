"""One check by each kind of action: connections, requests, calls and commands."""
