"""The push context: one model, and the resources that were made from it so far."""
