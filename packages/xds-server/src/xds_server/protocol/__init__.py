"""The messages of xDS as plain values, and their bytes: requests, resources, responses."""
