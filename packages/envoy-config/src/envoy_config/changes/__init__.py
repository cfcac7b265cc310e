"""The difference of two models, as caches need it and as a push request."""
