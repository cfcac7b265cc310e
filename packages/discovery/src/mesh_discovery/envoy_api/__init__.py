"""Envoy's API by reflection: types by their names, messages of plain data, and constraints."""
