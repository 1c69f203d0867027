"""Makes requests at once, and prints what each got, as buy.mjs does. Without OFFICIAL, requests makes them, and again."""

import asyncio
import base64
import json
import os
from concurrent.futures import ThreadPoolExecutor

PURCHASES = [(url, base64.b64decode(body) if body else None) for url, body in json.loads(os.environ["PURCHASES"])]


def told(status, headers, content):
    return {"status": status, "text": content.decode("latin-1"), "declined": headers.get("purser-declined", "")}


def failed(error):
    return {"status": 0, "text": "", "declined": "", "failure": repr(error)}


async def official():
    import httpx
    from pympp_client import transport

    async def one(client, url, body):
        try:
            answer = await client.request("POST" if body else "GET", url, content=body)
        except Exception as error:
            return failed(error)
        return told(answer.status_code, answer.headers, answer.content)

    async with httpx.AsyncClient(transport=transport(), timeout=60) as client:
        return await asyncio.gather(*[one(client, *purchase) for purchase in PURCHASES])


def as_they_come():
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    again = Retry(4, backoff_factor=0.5, status_forcelist=[500, 502], allowed_methods=None, raise_on_status=False)

    def one(purchase):
        url, body = purchase
        try:
            with requests.Session() as session:
                session.mount("http://", HTTPAdapter(max_retries=again))
                answer = session.request("POST" if body else "GET", url, data=body, timeout=60)
        except requests.RequestException as error:
            return failed(error)
        return told(answer.status_code, answer.headers, answer.content)

    with ThreadPoolExecutor(len(PURCHASES)) as pool:
        return list(pool.map(one, PURCHASES))


for result in asyncio.run(official()) if os.environ.get("OFFICIAL") else as_they_come():
    print(json.dumps(result))
