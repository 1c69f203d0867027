"""What Schemathesis cannot make up from the document alone: challenges and receipts that are
base64 of x402's JSON, and mostly right, so that payments are really made and settled.

PURSER_KEEP_WALLET is the id of the wallet with the money, which is not to be deleted,
PURSER_KEEP_KEY the key it belongs to, and PURSER_API the address of the API.
"""

import base64
import json
import os
import re
import urllib.error
import urllib.request
import uuid

import schemathesis
from hypothesis import strategies as st

USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
API = os.environ.get("PURSER_API", "")
KEPT, OWNER = os.environ.get("PURSER_KEEP_WALLET", ""), os.environ.get("PURSER_KEEP_KEY", "")

addresses = st.binary(min_size=20, max_size=20).map(lambda b: "0x" + b.hex())
hashes = st.binary(min_size=32, max_size=32).map(lambda b: "0x" + b.hex())
texts = st.text(st.characters(codec="utf-8"), max_size=40)
scraps = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def mostly(right, wrong):
    """What a seller would send, but for one time in 25: a challenge has a dozen members."""
    return st.integers(0, 24).flatmap(lambda n: wrong if n == 24 else right)


def objects(right, wrong=scraps):
    """An object whose members are mostly right; None leaves one out."""
    members = {name: mostly(value, wrong) for name, value in right.items()}
    return st.fixed_dictionaries(members).map(lambda o: {k: v for k, v in o.items() if v is not None})


# Prices stay below a cent, so that the play money lasts.
prices = st.integers(0, 9_999).map(str)
requirements_v2 = objects({
    "scheme": st.just("exact"),
    "network": st.sampled_from(["eip155:8453", "base"]),
    "amount": prices,
    "asset": st.just(USDC),
    "payTo": addresses,
    "maxTimeoutSeconds": st.integers(10, 600),
    "extra": st.just({"name": "USD Coin", "version": "2"}),
})
requirements_v1 = objects({
    "scheme": st.just("exact"),
    "network": st.just("base"),
    "maxAmountRequired": prices,
    "asset": st.just(USDC),
    "payTo": addresses,
    "resource": st.just("https://api.example.com/weather"),
    "maxTimeoutSeconds": st.integers(10, 600),
    "extra": st.just({"name": "USD Coin", "version": "2"}),
})
challenges = st.one_of(
    objects({
        "x402Version": st.just(2),
        "error": texts,
        "resource": st.just({"url": "https://api.example.com/weather"}),
        "accepts": st.lists(requirements_v2, min_size=1, max_size=3),
        "extensions": st.none() | st.dictionaries(texts, scraps, max_size=2),
    }),
    objects({"x402Version": st.just(1), "error": texts, "accepts": st.lists(requirements_v1, min_size=1, max_size=3)}),
    requirements_v1,
    requirements_v2,
)
receipts = objects({
    "success": st.booleans(),
    "transaction": hashes,
    "network": st.sampled_from(["base", "eip155:8453", "eip155:1"]),
    "payer": st.none() | addresses,
    "amount": st.none() | prices,
    "errorReason": st.none() | texts,
})


@st.composite
def encoded(draw, values):
    """A header's value: base64 of either alphabet, padded or not."""
    text = json.dumps(draw(values)).encode()
    encode = draw(st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]))
    value = encode(text).decode()
    return draw(st.sampled_from([value, value.rstrip("=")]))


# By path: what members are meant to be, and what of the document's is to be replaced by that.
ORDER = {
    "paymentRequiredHeader": (encoded(challenges), "."),
    "requestUrl": (st.sampled_from(["https://api.example.com/weather", "HTTP://[::1]:8080/a%20b?c=d#e", "http://\u00e9.example/"]), "^[Hh][Tt][Tt][Pp][Ss]?://"),
    "idempotencyKey": (st.integers(0, 40).map(lambda n: f"purchase {n}"), "^[^\ufffd]{1,255}$"),
}
MEANT = {
    "/v1/pay": ORDER,
    "/v1/quote": ORDER,
    "/v1/payments/{id}/receipt": {"receipt": (encoded(receipts), ".")},
}


@schemathesis.hook
def flatmap_body(context, body):
    """Puts meant values where the body has some that only look right. One that is wrong by the
    document stays, for its refusal is what is tested then."""
    members = {}
    if isinstance(body, dict):
        for name, (values, right) in MEANT.get(context.operation.path, {}).items():
            given = body.get(name)
            if isinstance(given, str) and len(given) <= 8192 and re.search(right, given, re.DOTALL):
                members[name] = mostly(values, st.just(given))
    return st.fixed_dictionaries(members).map(lambda meant: {**body, **meant} if meant else body)


def ask(method, path):
    """Calls purser with the owner's key."""
    request = urllib.request.Request(API + path, method=method, headers={"X-Api-Key": OWNER})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=60) as answer:
        return json.load(answer)


def another_wallet():
    """A wallet of the owner that may be deleted: a new one, or the newest when there are too many."""
    try:
        return ask("POST", "/wallets")["id"]
    except urllib.error.HTTPError:
        return ask("GET", "/wallets/me")["wallets"][-1]["id"]


@schemathesis.hook
def before_call(context, case, kwargs):
    """Keeps the wallet that has the money. Its owner deletes another one in its place: who saw a
    wallet in the list counts on finding it."""
    if case.operation.path == "/wallets/{id}" and str((case.path_parameters or {}).get("id", "")).lower() == KEPT:
        owned = (case.headers or {}).get("X-Api-Key") == OWNER
        case.path_parameters["id"] = another_wallet() if owned else str(uuid.uuid4())
