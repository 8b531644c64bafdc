"""How much one user, pod or cluster may cost at once."""
