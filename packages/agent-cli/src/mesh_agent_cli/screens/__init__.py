"""Screens for people of all that a running agent tells: of a certain width, coloured or not."""
