"""The kinds of Kubernetes that services and endpoints are made of, read as `kubectl` writes them."""
