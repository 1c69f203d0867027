"""x402 on the wire, as far as a client that does not sign needs it: finding a challenge and reading its offers.

No I/O. Everything here was written by strangers: sizes are bounded, and nothing but ``ValueError`` is raised.
BEHAVIOUR.md §1 and §2.4.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "MAX_BODY",
    "PAYMENT_HEADERS",
    "Challenge",
    "Offer",
    "canonical_amount",
    "challenge_in_body",
    "challenge_in_headers",
    "dealt_with",
    "decode_base64",
    "decode_object",
    "is_payable",
    "may_be_challenge",
    "receipt_in",
]

REQUIRED_HEADER = "payment-required"
PAYMENT_HEADERS = ("PAYMENT-SIGNATURE", "X-PAYMENT")
PROXY_HEADERS = ("purser-declined", "purser-payment")
RECEIPT_HEADERS = ("payment-response", "x-payment-response", "payment-receipt")

MAX_HEADER = 128 << 10  # bytes as sent
MAX_DECODED = 64 << 10
MAX_BODY = 64 << 10
MAX_COPIES = 16
MAX_WORDS = 300  # characters

# What purser can choose: network as either protocol version names it, and its USDC.
_ASSETS = {
    "base": "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
    "eip155:8453": "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
    "base-sepolia": "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
    "eip155:84532": "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
}

_AMOUNT = re.compile(r"0|[1-9][0-9]{0,77}", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}", re.ASCII)
_REQUIREMENT = ("scheme", "payTo", "amount", "maxAmountRequired")


@dataclass(frozen=True)
class Offer:
    """One entry of a challenge that purser could choose.

    ``amount`` is what the seller wrote, in the asset's smallest unit: a decimal string if the seller is sound,
    anything turned into text if not.
    """

    network: str
    scheme: str
    amount: str
    asset: str
    pay_to: str
    version: int = 2

    @property
    def shown_amount(self) -> str:
        """An amount that is not canonical, for people: its field and its value."""
        value = self.amount if self.amount.startswith("not a string") else json.dumps(self.amount)[:40]
        return f"{amount_field(self.version)} {value}, which is no whole number"


def amount_field(version: int) -> str:
    """Name the field of an offer's amount."""
    return "amount" if version == 2 else "maxAmountRequired"


@dataclass(frozen=True)
class Challenge:
    """What a 402 asks for. Purser gets ``header`` as ``paymentRequiredHeader``."""

    version: int
    header: str
    offers: tuple[Offer, ...]
    error: str | None


def canonical_amount(value: str) -> int | None:
    """Read an amount: decimal, without sign, leading zeros, spaces or other digits than ours. Else ``None``."""
    return int(value) if _AMOUNT.fullmatch(value) else None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def decode_object(text: bytes) -> dict[str, Any]:
    """Decode a JSON object. Nesting that exhausts the stack and NaN are errors like any other."""
    try:
        value = json.loads(text.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def decode_base64(text: str) -> bytes:
    """Decode base64 of either alphabet, padded or not."""
    if not _BASE64.fullmatch(text):
        raise ValueError("not base64")
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None


def challenge_in_headers(headers: Mapping[str, str], extra: Sequence[str]) -> Challenge | None:
    """Find a challenge in the headers, whose names are in lower case and whose values were decoded as Latin-1.

    Raises ``ValueError`` for a PAYMENT-REQUIRED that cannot be read; the extra ones may hold anything.
    """
    value = _only(headers.get(REQUIRED_HEADER, ""))
    if value:
        return _in_header(value)
    for name in extra:
        try:
            value = _only(headers.get(name.lower(), ""))
            if value:
                return _in_header(value)
        except ValueError:
            continue
    return None


def _only(header: str) -> str:
    """Return the one value of a header: frameworks put it in quotes, and machines on the way join copies by commas."""
    value = header.strip()
    if len(value) > MAX_HEADER:
        raise ValueError("the header is too large")
    for copies in range(MAX_COPIES, 1, -1):
        for comma in (",", ", "):
            first = value[: max(0, (len(value) + len(comma)) // copies - len(comma))]
            if value and comma.join([first] * copies) == value:
                value = first
    if value.startswith('"'):
        inner = json.loads(value)
        return inner.strip() if isinstance(inner, str) else value
    quoted = re.fullmatch(r"([':])(.*)\1", value)
    return quoted[2].strip() if quoted else value


def _unwrapped(top: dict[str, Any]) -> dict[str, Any]:
    """Return the terms that one object of a framework is around, or the object itself."""
    if "accepts" in top or top.get("x402Version") is not None:
        return top
    inside = [top.get(name) for name in ("detail", "error", "data", "paymentRequired")]
    found: list[dict[str, Any]] = [inner for inner in inside if isinstance(inner, dict) and _is_terms(inner)]
    if any(inner != found[0] for inner in found):  # a guess could pay for something else
        raise ValueError("it has several that differ")
    return found[0] if found else top


def _is_terms(value: dict[str, Any]) -> bool:
    return value.get("x402Version") is not None and isinstance(value.get("accepts"), list)


def _in_header(value: str) -> Challenge:
    plain = value.startswith("{")
    text = value.encode("latin-1") if plain else decode_base64(value)
    if len(text) > MAX_DECODED:
        raise ValueError("the challenge is too large")
    data = _unwrapped(decode_object(text))
    given = {name for name, value in data.items() if value is not None}
    if "accepts" not in data and "network" in given and given.intersection(_REQUIREMENT):
        data = {"accepts": [data]}
    return _challenge(data, base64.b64encode(text).decode("ascii") if plain else value)


def may_be_challenge(start: bytes) -> bool:
    """Tell whether a body that starts so may hold a challenge, so that it is worth reading on."""
    rest = start.lstrip(b" \t\r\n")
    return not rest or rest.startswith(b"{")


def challenge_in_body(body: bytes) -> Challenge | None:
    """Find a challenge in a body. Raises ``ValueError`` for one that is x402 and cannot be read."""
    if not body or len(body) > MAX_BODY or not may_be_challenge(body):
        return None
    try:
        data = decode_object(body)
    except ValueError:
        return None
    terms = _unwrapped(data)
    if terms.get("x402Version") is None:
        if "x402Version" not in data and re.search(r'"x402Version\\*" *:', json.dumps(data)):
            raise ValueError("its terms are somewhere inside of its body")
        return None
    return _challenge(terms, base64.b64encode(body).decode("ascii"))


def _challenge(data: dict[str, Any], header: str) -> Challenge:
    accepts = data.get("accepts")
    if not isinstance(accepts, list):
        raise ValueError("accepts is not a list")
    version = _version(data, accepts)
    error = data.get("error")
    offers = tuple(offer for entry in accepts if (offer := _offer(entry, version)))
    return Challenge(version, header, offers, error if isinstance(error, str) else None)


def _version(data: dict[str, Any], accepts: list[Any]) -> int:
    version = data.get("x402Version")
    if version is not None:
        if isinstance(version, bool) or version not in (1, 2):
            raise ValueError("unknown x402Version")
        return int(version)
    first = accepts[0] if accepts else None
    if not isinstance(first, dict):
        raise ValueError("no requirement")
    network = first.get("network")
    return 2 if "amount" in first or (isinstance(network, str) and ":" in network) else 1


def is_payable(network: str, asset: str) -> bool:
    """Whether purser can choose this network's asset."""
    return _ASSETS.get(network) == asset.lower()


def _offer(entry: Any, version: int) -> Offer | None:
    if not isinstance(entry, dict):
        return None
    network, asset = entry.get("network"), entry.get("asset")
    if not isinstance(network, str) or not isinstance(asset, str) or not is_payable(network, asset):
        return None
    amount = entry.get(amount_field(version))
    return Offer(
        network=network,
        scheme=_word(entry.get("scheme")),
        # A number is marked as such: it may have lost digits, so it is never canonical.
        amount=amount if isinstance(amount, str) else f"not a string: {amount!r:.40}",
        asset=asset,
        pay_to=_word(entry.get("payTo")),
        version=version,
    )


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def dealt_with(headers: Mapping[str, str]) -> bool:
    """Whether a purser on the way has dealt with a 402: it did not want to pay, or the payment was not taken."""
    return any(name in headers for name in PROXY_HEADERS)


def receipt_in(headers: Mapping[str, str]) -> str | None:
    """Find the seller's receipt, of either version."""
    return next((value for name in RECEIPT_HEADERS if (value := headers.get(name, "").strip())), None)


def reason_in(headers: Mapping[str, str], body: bytes) -> str | None:
    """Find why a seller refused a payment: its receipt's word, else that of its new challenge, else what it says."""
    receipt = receipt_in(headers)
    if receipt is not None:
        try:
            reason = decode_object(decode_base64(_only(receipt))).get("errorReason")
        except ValueError:
            reason = None
        if isinstance(reason, str) and reason:
            return reason
    try:
        challenge = challenge_in_headers(headers, ()) or challenge_in_body(body)
        if challenge is not None:
            return challenge.error
        text = body.decode("utf-8")
        plain = headers.get("content-type", "").startswith("text/plain") and not text.lstrip().startswith("{")
        return _words(text if plain else json.loads(text)) or None
    except (ValueError, RecursionError):
        return None


# The members that name a reason, that tell of it, and that other objects with words stand in.
_REASONS = re.compile("errorReason|invalidReason|error|reason|title|code|errorCode|error_code")
_MESSAGES = re.compile("errorMessage|invalidMessage|message|msg|details?|description|error_description")
_AROUND = re.compile("errors?|details?|data|message|paymentResponse|settleResponse")


def _words(value: Any, depth: int = 0) -> str:
    """Find what a JSON value says, in one line."""
    inner = value[0] if isinstance(value, list) and value else value
    if isinstance(inner, str):
        shown = "".join(one if one.isprintable() else " " for one in inner)
        return re.sub(r"[\w+/=-]{100,}", "…", " ".join(shown.split()))[:MAX_WORDS]  # some sellers repeat the payment
    if not isinstance(inner, dict) or depth > 3:
        return ""

    def first(names: re.Pattern[str], kind: type[Any] | tuple[type[Any], ...]) -> str:
        found = (_words(of, depth + 1) for name, of in inner.items() if names.fullmatch(name) and isinstance(of, kind))
        return next(filter(None, found), "")

    said = [first(_REASONS, str), first(_MESSAGES, str), first(_AROUND, (dict, list))]
    return _words(": ".join(dict.fromkeys(filter(None, said))))
