"""What the dispatcher counts and is scraped for, in Prometheus' form."""
