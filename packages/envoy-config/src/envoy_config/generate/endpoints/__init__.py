"""Load assignments: the endpoints of clusters, grouped by locality and priority."""
