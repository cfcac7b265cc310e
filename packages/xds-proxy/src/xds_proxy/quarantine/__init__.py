"""Resources that Envoy refused: which they are, and what an Envoy gets that has nothing older."""
