"""What an executor keeps right without an order."""
