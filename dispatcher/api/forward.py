"""A standby asks the leader what it is asked itself, so that any of several dispatchers may be
asked.
"""

import aiohttp
from aiohttp import web

_FORWARDED = "X-Global-Dispatcher-Forwarded"  # by a standby; a second one would not know better
_PASSED_ON = ("Authorization", "Accept")  # a header that names a user is believed of a proxy alone
_PATIENCE = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=10)  # of a list, each part


async def forward(request: web.Request, leader: str) -> web.Response | None:
    """The answer of the leader, at this URL; None where it cannot be asked."""
    if not leader or _FORWARDED in request.headers:
        return None
    headers = {
        _FORWARDED: "1",
        **{key: request.headers[key] for key in _PASSED_ON if key in request.headers},
    }
    try:
        async with (
            aiohttp.ClientSession(timeout=_PATIENCE) as session,
            session.get(
                f"{leader}{request.path_qs}", headers=headers, allow_redirects=False
            ) as answer,
        ):
            body = await answer.read()
            return web.Response(body=body, status=answer.status, content_type=answer.content_type)
    except (aiohttp.ClientError, TimeoutError):
        return None
