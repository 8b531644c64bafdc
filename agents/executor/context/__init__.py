"""What the procedures of one executor share and remember."""
