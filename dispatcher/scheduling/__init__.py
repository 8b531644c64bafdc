"""The pure core: framework, fleet columns, queue, cycle, quota, delegation, explain; events in,
effects out.

Here may not live: a clock (`now` is an argument), a socket, an await, Ray, logging, or a single
policy (those are `plugins`). Everything here runs the same under virtual time.
"""
