"""Processes that check signing requests and sign certificates for the process that serves."""
