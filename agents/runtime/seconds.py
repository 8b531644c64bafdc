"""How long a setting of an agent may say: a day at most, as in its chart. What never ends can be
neither waited for nor written into a Lease.
"""

from typing import Annotated

from pydantic import Field

Seconds = Annotated[float, Field(le=86_400)]
