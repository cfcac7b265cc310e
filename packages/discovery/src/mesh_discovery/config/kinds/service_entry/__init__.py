"""ServiceEntry as a kind: the mistakes and the doubtful choices in one."""
