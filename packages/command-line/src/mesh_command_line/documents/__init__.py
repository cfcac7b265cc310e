"""The command's manual and its completion, made from the commands themselves."""
