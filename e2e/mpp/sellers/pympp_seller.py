"""The official seller of PyPI: GET or POST /<rail>, with rails as in mppx.mjs. It has no faults."""

import asyncio
import json
import os
import ssl
import sys
import threading

import httpx
from aiohttp import web
from mpp.methods.evm import server as evm
from mpp.methods.tempo import TempoAccount
from mpp.methods.tempo import server as tempo
from mpp.server import Mpp, Request, Response

SECRET = "a secret of play that is 32 bytes long"
REALM = "mpp.seller.test"
USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
PATH_USD = "0x20c0000000000000000000000000000000000000"
ENV = os.environ

count = {"challenges": 0, "credentials": 0, "answers": 0}
log = []


def create(methods, **more):
    return Mpp(methods=methods, realm=REALM, secret_key=SECRET, **more)


def tempo_charge(**more):
    return tempo.charge(
        recipient=ENV["PAY_TO"], chain_id=4217, rpc_url=ENV["TEMPO_RPC_URL"], currencies=[PATH_USD],
        http_client=httpx.AsyncClient(transport=Simulated()), **more,
    )


class Simulated(httpx.AsyncHTTPTransport):
    """Says yes to tempo_simulateV1, which this anvil does not know, and leaves out a timeout that it refuses."""

    async def handle_async_request(self, request):
        ask = json.loads(await request.aread())
        if ask["method"] == "tempo_simulateV1":
            result = {"blocks": [{"calls": [{"status": "0x1"}]}]}
            return httpx.Response(200, json={"jsonrpc": "2.0", "id": ask["id"], "result": result})
        if ask["method"] == "eth_sendRawTransactionSync":
            ask["params"] = ask["params"][:1]
            request = httpx.Request("POST", request.url, json=ask)
        return await super().handle_async_request(request)


def evm_charge():
    return evm.charge(
        currency=USDC, chain_id=8453, decimals=6, authorization={"name": "USD Coin", "version": "2"},
        recipient=ENV["PAY_TO"], facilitator=ENV["FACILITATOR_URL"], route_binding="resource",
    )


def rails():
    """The official server's handler for each rail."""
    options = {"amount": "0.01", "description": 'A "good", for Payment of 1 cent'}
    yield "evm", create(evm_charge()).charge(**options)
    yield "auth", create(evm_charge(), requires_auth=True).charge(**options)
    if not ENV.get("TEMPO_RPC_URL"):
        return
    yield "tempo", create(tempo_charge()).charge(**options)
    yield "both", create([evm_charge(), tempo_charge()]).charge(**options)
    if key := ENV.get("SPONSOR_KEY"):
        sponsor = TempoAccount.from_key(key)
        yield "sponsored", create(tempo_charge(fee_payer=sponsor)).charge(fee_payer=True, **options)


RAILS = dict(rails())


async def serve(incoming):
    rail = RAILS.get(incoming.path.split("/")[1])
    if rail is None:
        return web.json_response({"rails": list(RAILS)}, status=404)
    body = await incoming.read()
    names = ("Authorization", "Payment-Authorization", "PAYMENT-SIGNATURE")
    paid = any(name in incoming.headers for name in names)
    count["credentials"] += paid
    headers = [(name, value) for name, value in incoming.headers.items()]
    result = await rail(Request(incoming.method, str(incoming.url), headers, body or None))
    if result.status == 200:
        count["answers"] += 1
        answer = result.with_receipt(Response.json({"good": "weather", "body": body.decode("latin-1")}))
    else:
        answer = result.challenge
        count["challenges"] += answer.status == 402
    if ENV.get("LOG"):
        log.append({
            "request": {"method": incoming.method, "url": incoming.path, "headers": dict(incoming.headers)},
            "answer": {"status": answer.status, "headers": dict(answer.headers), "body": (answer.body or b"").decode()},
        })
    out = web.Response(status=answer.status, body=answer.body)
    for name, value in answer.headers.multi_items():
        out.headers.add(name, value)
    return out


async def main():
    app = web.Application()
    app.router.add_get("/count", lambda _: respond(count))
    app.router.add_get("/log", lambda _: respond(log))
    app.router.add_route("*", "/{path:.*}", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    at = {"url": await listen(runner, None)}
    if cert := ENV.get("TLS_CERT"):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(cert, ENV["TLS_KEY"])
        at["tls"] = await listen(runner, context)
    print(json.dumps(at), flush=True)
    await asyncio.Event().wait()


async def respond(value):
    return web.json_response(value)


async def listen(runner, context):
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    return f"{'https' if context else 'http'}://127.0.0.1:{port}"


def until_input_ends():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=until_input_ends, daemon=True).start()
asyncio.run(main())
