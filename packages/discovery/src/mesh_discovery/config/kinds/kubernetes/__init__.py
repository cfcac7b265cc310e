"""The kinds of Kubernetes that services and endpoints are made of, as `kubectl` writes them."""
