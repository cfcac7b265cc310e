"""The log lines of clients and their streams, also of what happens again and again."""
