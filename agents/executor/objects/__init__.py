"""Objects of this cluster's API server that an order reads, checks or writes."""
