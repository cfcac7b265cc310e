"""Modules taken out of gzip and tar, whatever a hostile archive says of itself."""
