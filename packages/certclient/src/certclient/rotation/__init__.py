"""When a certificate is renewed, and the loop that renews it."""
