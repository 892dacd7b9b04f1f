"""What `inferq doctor` looks at: a room for each part, where what was read is judged apart from how it is read."""
