"""What a running dispatcher shows: the HTTP API, the metrics and the page. No decisions, no state."""
