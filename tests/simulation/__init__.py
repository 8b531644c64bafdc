"""The product's own halves together, in virtual time, over a network that fails."""
