"""The push context: one model, and the resources that were generated from it so far."""
