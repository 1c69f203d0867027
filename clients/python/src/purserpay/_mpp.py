"""MPP, as far as a client needs it that does not sign: its challenges, and whose they are. BEHAVIOUR.md §1 and §2."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _wire as wire

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CREDENTIAL", "CREDENTIAL_HEADERS", "TakenError", "asked", "asks_again", "challenge_in", "signed_terms"]

CREDENTIAL_HEADERS = ("Authorization", "Payment-Authorization")
CREDENTIAL = re.compile(r"Payment ([A-Za-z0-9_-]+={0,2})", re.ASCII)

_TEMPO = "eip155:4217"
_PART = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*\\?(?:"|$))+')  # between commas outside of quotes
_CONTINUES = re.compile(r'\s*[^\s="]+\s*=')  # the challenge before
_PAYMENT = re.compile(r"\s*payment\s", re.IGNORECASE)
_PARAMETER = re.compile(r'\s*(?:payment\s+)?([\w-]+)\s*=\s*(?:"(.*)"|(\S*))\s*', re.IGNORECASE | re.ASCII)


class TakenError(Exception):
    """The request has an Authorization of its own, in whose place the credential would go."""


class Asked(NamedTuple):
    """A challenge as it came, and its parameters with names in lower case."""

    sent: str
    of: dict[str, str]


def asked(headers: Mapping[str, str]) -> list[Asked]:
    """Return the challenges of the scheme Payment."""
    found: list[list[str]] = []
    for part in _PART.findall(headers.get("www-authenticate", "")):
        if not _CONTINUES.match(part):
            found.append([part])
        elif found:
            found[-1].append(part)
    return [Asked(",".join(parts).strip(), _parameters(parts)) for parts in found if _PAYMENT.match(parts[0])]


def asks_again(signature: str, headers: Mapping[str, str]) -> bool:
    """Whether a 402 answers a credential with a new challenge. That is answered by the same credential."""
    return CREDENTIAL.fullmatch(signature) is not None and bool(asked(headers))


def _parameters(parts: list[str]) -> dict[str, str]:
    read = [match for part in parts if (match := _PARAMETER.fullmatch(part))]
    return {
        name.lower(): bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        for name, quoted, bare in (match.groups() for match in read)
    }


def challenge_in(headers: Mapping[str, str], *, taken: bool) -> wire.Challenge | None:
    """Find MPP's challenge in a 402. ``taken``: the request has an Authorization of its own, which is not replaced."""
    found = asked(headers)
    if not found:
        return None
    usable = [one for one in found if not taken or one.of.get("header", "").lower() == "payment-authorization"]
    if not usable:
        raise TakenError
    sent = ", ".join(one.sent for one in usable) if taken else headers["www-authenticate"].strip()
    return wire.Challenge(2, sent, tuple(offer for one in usable if (offer := _offer(one.of))), None)


def _offer(of: Mapping[str, str]) -> wire.Offer | None:
    if of.get("method") not in ("evm", "tempo") or of.get("intent") != "charge":
        return None
    terms = _terms(of.get("request"))
    details = terms.get("methodDetails")
    network = f"eip155:{details.get('chainId')}" if isinstance(details, dict) else ""
    asset = _text(terms.get("currency"))
    if network != _TEMPO and not wire.is_payable(network, asset):
        return None
    amount, pay_to = _text(terms.get("amount")), _text(terms.get("recipient"))
    return wire.Offer(network, f"{of['method']}/{of['intent']}", amount, asset, pay_to)


def _terms(request: Any) -> dict[str, Any]:
    """Read the terms of a challenge. What cannot be read says nothing."""
    try:
        return wire.decode_object(wire.decode_base64(_text(request)))
    except ValueError:
        return {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def signed_terms(signature: str) -> tuple[str, str]:
    """Read value and recipient, in lower case, of a signed payment. Raises ``ValueError`` for anything else."""
    found = CREDENTIAL.fullmatch(signature)
    signed = wire.decode_object(wire.decode_base64(found[1] if found else signature))
    payload, challenge = signed.get("payload"), signed.get("challenge")
    if not isinstance(payload, dict):
        raise ValueError("no payload")
    told: Any = payload.get("authorization")
    if found:  # A transaction says it in its own form: then the terms that it is for do.
        terms = _terms(challenge.get("request") if isinstance(challenge, dict) else None)
        told = {"to": terms.get("recipient"), "value": terms.get("amount"), **payload}
    if not isinstance(told, dict):
        raise ValueError("no authorization")
    value, to = told.get("value"), told.get("to")
    if not isinstance(value, str) or not isinstance(to, str):
        raise ValueError("no value or recipient")
    return value, to.lower()
