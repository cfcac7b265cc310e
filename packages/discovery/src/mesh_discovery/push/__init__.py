"""Which resources exist already, what a change touches, and which proxies are sent it."""
