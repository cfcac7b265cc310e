"""Logging of a process: levels by scope, text or JSON, and targets that hold nothing up."""
