"""One stream for as long as it lasts: admission, requests and what the next stream needs."""
