"""How many connections there may be, how much may wait for them, and what is refused."""
