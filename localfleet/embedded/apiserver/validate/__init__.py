"""What becomes of an object, or a selector, before it counts."""
