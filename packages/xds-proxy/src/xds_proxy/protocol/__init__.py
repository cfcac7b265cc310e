"""The few fields of discovery messages that the relay reads and writes, in both dialects."""
