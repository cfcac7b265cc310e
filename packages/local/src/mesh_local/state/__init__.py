"""The state folder: generated configuration, keys, tokens and roots."""
