"""Where connections go that no proxy looks into as HTTP: by address, port and SNI."""
