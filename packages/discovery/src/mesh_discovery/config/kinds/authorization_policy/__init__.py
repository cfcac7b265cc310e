"""AuthorizationPolicy: its fields, its mistakes, and the languages of its paths and conditions."""
