"""The only room of the dispatcher that touches the world: settings, command, Ray, HTTP, journal, demo.

Here may not live: a scheduling decision. This room feeds events to the core and carries out its effects.
"""
