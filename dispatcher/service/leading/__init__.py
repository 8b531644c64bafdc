"""Which dispatcher decides, and its terms."""
