"""The configuration and certificate on disk that an agent which is started again goes on with."""
