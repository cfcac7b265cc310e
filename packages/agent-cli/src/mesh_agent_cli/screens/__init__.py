"""What a running agent tells, as screens for people: text of a certain width, coloured or not."""
