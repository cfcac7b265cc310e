"""What becomes of a query: the answer, from the table, or that somebody else is to be asked."""
