"""Who said it: keys, signatures, seals and the dispatcher's certificate."""
