"""Listeners, their filter chains and the filters in them."""
