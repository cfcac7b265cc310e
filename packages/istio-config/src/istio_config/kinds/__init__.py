"""The kinds of configuration: the fields of each and what must hold between them."""
