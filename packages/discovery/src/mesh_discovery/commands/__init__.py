"""The subcommands of `mesh-discovery`."""
