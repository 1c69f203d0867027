"""Finding what a 402 asks for. BEHAVIOUR.md §1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _mpp as mpp
from . import _wire as wire
from ._errors import InvalidChallengeError, PurserError, RefusedByCallerError
from ._steps import Hold, Peek

if TYPE_CHECKING:
    from ._options import Options
    from ._steps import Reply, Request, Steps

__all__ = ["find"]


def find(options: Options, request: Request, reply: Reply) -> Steps[wire.Challenge | None]:
    """Find the challenge of a 402; ``None``: it is not ours."""
    if wire.dealt_with(reply.headers):
        return None
    refused: PurserError
    try:
        found = wire.challenge_in_headers(reply.headers, options.challenge_headers)
        found = found or mpp.challenge_in(reply.headers, taken=request.said.authorized)
        if found is None:
            body = yield Peek(reply)
            found = wire.challenge_in_body(body) if body is not None else None
    except mpp.TakenError:
        text = "the request has an Authorization of its own, in whose place the payment would go"
        refused = RefusedByCallerError(text, rule="authorization-in-use")
    except ValueError as error:
        refused = InvalidChallengeError(f"the seller's challenge cannot be read: {error}")
    else:
        return found
    yield Hold(reply)  # some libraries have another object then
    refused.url, refused.response = request.shown_url, reply.native
    raise refused
