"""What of a pod may cross, and what this cluster lets in. Pure functions of manifests."""
