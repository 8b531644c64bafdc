"""What it costs that ConfigMaps follow pods to other clusters."""
