"""The main job on real parts: Ray, the agents, the command, and embedded clusters as processes."""
