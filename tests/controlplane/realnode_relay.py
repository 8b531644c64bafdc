"""Makes the API server, which listens on loopback alone, reachable at the machine's end of a node's cable.

realnode_relay.py ADDRESS PORT    what connects to ADDRESS:PORT talks to 127.0.0.1:PORT
"""

import asyncio
import sys
from contextlib import suppress

_CHUNK = 65536


async def main(address: str, port: int) -> None:
    """Until killed."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, to_writer), _pump(to_reader, writer))

    server = await asyncio.start_server(relay, address, port)
    async with server:
        await server.serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
