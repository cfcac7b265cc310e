"""Hands listening sockets from one Envoy to the next, also when the first has died.

What becomes of a dead Envoy's sockets is decided in `_retention_decisions`, over the states, events
and actions of `_retention_state`, and carried out by `_retention`, which holds them
(`_retained_sockets`). They are fetched from the living Envoy by `_fetch_sockets`, and given to the
next one by `_dead_parent_responder`, both in the messages of `_messages`. The files that parent and
child share are those of `_hot_restart_files`; `_series` has them, and the responder, of each series
of Envoys.
"""
