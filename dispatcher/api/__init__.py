"""What a running dispatcher shows: the HTTP API and the page. No decisions, no state."""
