"""The path of the socket: free for us to serve, or served by another process already."""
