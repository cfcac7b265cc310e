"""HTTP/1.1 over asyncio: a server, and a client that hands an answer on as it comes."""
