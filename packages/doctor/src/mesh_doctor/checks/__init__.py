"""Decides what is wrong from what was seen: functions over plain values."""
