"""The hosts and services that a namespace has, and those that it sees."""
