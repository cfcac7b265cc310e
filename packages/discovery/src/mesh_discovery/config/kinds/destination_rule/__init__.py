"""DestinationRule: how clients connect to a service, and the subsets that it has."""
