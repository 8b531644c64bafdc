"""Fixtures of the API tests: `client` speaks HTTP to one server, so the same tests can be held against a real one."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.embedded.api_client import ApiClient, serving


@pytest_asyncio.fixture
async def client() -> AsyncIterator[ApiClient]:
    """A client of a fresh embedded server."""
    async with serving() as (found, _):
        yield found
