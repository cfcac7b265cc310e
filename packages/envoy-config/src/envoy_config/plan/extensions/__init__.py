"""The extensions that run on the requests and connections of a proxy, in their order."""
