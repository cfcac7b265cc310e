"""Answers a query from the table, or decides that it is forwarded."""
