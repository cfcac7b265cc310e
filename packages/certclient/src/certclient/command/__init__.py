"""The `certclient` command: its options, what it does, and the hooks that it runs."""
