"""When a certificate is renewed, and the loop that renews it.

When the next attempt starts, how long it may take and what a failure delays: `_schedule`. The loop,
and what is published and logged: `_rotation`. One attempt, from key to checked certificate:
`_request`. Whether the certificate of an earlier run is used: `_taking_up`. An attempt as soon as a
file changes that the last one failed for: `_retry_on_change`.
"""
