"""How it goes, for operators: metrics, the status of clients, and observers."""
