"""The rules that steer a workload's traffic through Envoy.

A configuration becomes rules, which can be explained packet by packet, rendered, applied, compared
and removed.
"""
