"""DNS messages as bytes: names, queries, replies, and how answers are put together."""
