"""Real control planes, and a real node, as fixtures: `fixtures` and `realnode_fixtures` give them to tests."""
