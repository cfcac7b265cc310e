"""The command's manual and its completion, generated from the commands themselves."""
