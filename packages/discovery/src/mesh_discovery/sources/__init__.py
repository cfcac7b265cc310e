"""Where the facts about a mesh come from: what is known now, and that it changed."""
