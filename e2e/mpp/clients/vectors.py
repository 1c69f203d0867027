"""Writes what the official client of PyPI sends to a seller, and what it gets: vectors.py URL FOLDER SELLER RAIL…"""

import asyncio
import json
import sys

import httpx
from pympp_client import KEY, transport


class Recording(httpx.AsyncHTTPTransport):
    def __init__(self):
        super().__init__()
        self.exchanges = []

    async def handle_async_request(self, request):
        answer = await super().handle_async_request(request)
        body = await answer.aread()
        headers = {}
        for name, value in answer.headers.raw:
            headers.setdefault(name.decode().lower(), []).append(value.decode("latin-1"))
        sent = {"method": request.method, "url": request.url.raw_path.decode(), "headers": dict(request.headers)}
        if request.content:
            sent["body"] = request.content.decode()
        self.exchanges.append({"request": sent, "answer": {"status": answer.status_code, "headers": headers, "body": body.decode()}})
        return httpx.Response(answer.status_code, headers=answer.headers.raw, content=body, request=request)


async def main(base, folder, seller, *rails):
    for name in rails:
        rail, _, kind = name.partition("+")
        recording = Recording()
        async with httpx.AsyncClient(transport=transport(recording)) as client:
            try:
                if kind == "post":
                    await client.post(f"{base}/{rail}", content="hello ü".encode())
                else:
                    await client.get(f"{base}/{rail}")
            except Exception as error:
                print(name, repr(error), file=sys.stderr)
            if kind == "again":
                sent = recording.exchanges[-1]["request"]
                await recording.handle_async_request(httpx.Request("GET", base + sent["url"], headers=sent["headers"]))
        path = f"{folder}/{seller.split()[1]}_pympp_{name.replace('/', '-')}.json"
        with open(path, "w") as out:
            of = {"seller": seller, "client": "pypi pympp 0.16.0", "rail": name, "key": KEY, "exchanges": recording.exchanges}
            out.write(json.dumps(of, indent=2, ensure_ascii=False) + "\n")
        print(name, *[x["answer"]["status"] for x in recording.exchanges])


asyncio.run(main(*sys.argv[1:]))
