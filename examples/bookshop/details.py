"""Says which book it is."""

from answering import as_json, serve

serve(lambda _path, _headers: as_json(title="The Comedy of Errors", author="W. Shakespeare"))
