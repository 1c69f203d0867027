"""The two programs that are compared: how each is started, given a key with a budget, and asked."""

import asyncio
import json
import subprocess
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from aiohttp import ClientError, web
from processes import Database, Processes, await_answer, await_port, free_port

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PRICE = 0.01
MASTER = "sk-master"
FAUCET = 5_000_000  # the sandbox's faucet gives 5 USDC
MODEL_SECONDS = 0.2  # mock_delay of litellm.yaml; the mock seller takes as long


def post(url: str, body: bytes, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
        return answer.read()


@dataclass
class LiteLLM:
    """LiteLLM's proxy: so many instances on one database, behind a load balancer."""

    instances: int
    redis: bool = False
    settings: dict = field(default_factory=dict)
    flat: bool = False
    """Callers use the route with a price for each request, not the model with a price for each token."""
    max_tokens: int | None = 20
    hashes: dict = field(default_factory=dict)

    def start(self, processes: Processes, database: Database, installed: Path) -> None:
        self.processes, self.database = processes, database
        if not database.sql("select 1 from pg_database where datname = 'litellm_template'", "postgres"):
            database.create("litellm_template")
            migrations = next(installed.glob("venv/lib/python3*/site-packages/litellm_proxy_extras/migrations"))
            for file in sorted(migrations.glob("*/migration.sql"), key=str):
                database.load(file, "litellm_template")
        self.name = f"litellm_{free_port()}"
        env = {
            "DATABASE_URL": database.create(self.name, "litellm_template"), "DISABLE_SCHEMA_UPDATE": "true",
            "PRISMA_QUERY_ENGINE_BINARY": str(installed / "query-engine.cjs"), "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }  # fmt: skip
        if self.redis:
            port = free_port()
            argv = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", processes.folder]
            await_port(port, processes.start("redis", argv))
            env |= {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(port)}
        seller = free_port()
        self.seller = asyncio.create_task(mock_seller(seller))
        config = yaml.safe_load((HERE / "litellm.yaml").read_text())
        config["general_settings"] |= self.settings
        config["general_settings"]["pass_through_endpoints"][0]["target"] = f"http://127.0.0.1:{seller}/weather"
        file = processes.folder / f"{self.name}.yaml"
        file.write_text(yaml.safe_dump(config))
        self.nodes = []
        for n in range(self.instances):
            port = free_port()
            argv = [installed / "venv/bin/litellm", "--config", file, "--host", "127.0.0.1", "--port", port]
            p = processes.start(f"{self.name}_{n}", argv, env)
            await_answer(f"http://127.0.0.1:{port}/health/liveliness", p)
            self.nodes.append(f"http://127.0.0.1:{port}")

    def stop(self) -> None:
        self.seller.cancel()

    def key(self, budget: int) -> str:
        grant = {"allowed_passthrough_routes": ["/weather"]}
        body = json.dumps({"max_budget": budget * PRICE, "metadata": grant}).encode()
        headers = {"Authorization": f"Bearer {MASTER}", "Content-Type": "application/json"}
        made = json.loads(post(f"{self.nodes[0]}/key/generate", body, **headers))
        self.hashes[made["key"]] = made["token"]
        return made["key"]

    def ask(self, key: str):
        path, body = "/v1/chat/completions", {"model": "mock", "messages": [{"role": "user", "content": "hello"}]}
        if self.max_tokens:
            body["max_tokens"] = self.max_tokens
        if self.flat:
            path, body = "/weather", {"day": "friday"}

        async def ask(session, node, n) -> str:
            try:
                headers = {"Authorization": f"Bearer {key}"}
                async with session.post(node + path, json=body, headers=headers) as answer:
                    text = await answer.text()
            except (ClientError, asyncio.TimeoutError) as failure:
                return type(failure).__name__
            if answer.status == 200:
                return "through"
            return "refused" if "budget_exceeded" in text else f"status {answer.status}"

        return ask

    async def booked(self, key: str, expected: int) -> int:
        """Returns the number of requests that LiteLLM has in its books for the key. It writes them some seconds later."""
        counted = 0
        for _ in range(60):
            spent = self.database.sql(
                f"select coalesce(sum(spend), 0) from \"LiteLLM_SpendLogs\" where api_key = '{self.hashes[key]}'",
                self.name,
            )
            if (counted := round(float(spent) / PRICE)) >= expected:
                break
            await asyncio.sleep(1)
        return counted


async def mock_seller(port: int) -> None:
    """Serves a seller who needs as long as the mock model."""

    async def weather(request: web.Request) -> web.Response:
        await asyncio.sleep(MODEL_SECONDS)
        return web.json_response({"weather": "paid for"})

    app = web.Application()
    app.router.add_route("*", "/weather", weather)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


@dataclass
class Purser:
    """So many pursers on one database. Callers use the proxy, and the seller is the sandbox's."""

    instances: int
    wallets: dict = field(default_factory=dict)

    def start(self, processes: Processes, database: Database, installed: Path) -> None:
        sandbox = processes.start(
            "sandbox", [ROOT / "bin/purser-sandbox", "-port", "0", "-json"], stdout=subprocess.PIPE
        )
        self.world = json.loads(sandbox.stdout.readline())
        self.seller = self.world["seller"].replace("api.purser.test", "127.0.0.1")
        settings = {
            "PURSER_STORE": "postgres", "PURSER_MASTER_KEY": "00" * 31 + "01", "PURSER_ALLOW_ADDRESSES": "127.0.0.0/8",
            "PURSER_FACILITATOR_URL": self.world["facilitator"], "PURSER_RPC_URL": self.world["rpc"],
            "DATABASE_URL": database.create(f"purser_{free_port()}") + "?sslmode=disable",
        }  # fmt: skip
        self.nodes = []
        for n in range(self.instances):
            port, data = free_port(), processes.folder / f"purser_{free_port()}"
            self.env = settings | {
                "PURSER_PORT": str(port), "PURSER_METRICS_PORT": str(free_port()), "PURSER_DATA_DIR": str(data),
                "PURSER_UPSTREAM_PORT": str(free_port()), "PURSER_ADMIN": f"unix/{data}.sock|0600",
            }  # fmt: skip
            argv = [ROOT / "bin/purser", "run", "--config", ROOT / "xcaddy.Caddyfile", "--adapter", "caddyfile"]
            p = processes.start(data.name, argv, self.env)
            await_answer(f"http://127.0.0.1:{port}/", p)
            self.nodes.append(f"127.0.0.1:{port}")

    def stop(self) -> None:
        pass

    def key(self, budget: int) -> str:
        argv = [ROOT / "bin/purser", "keys", "create", "--json", "--label", "compared", "--wallet", "new"]
        argv += ["--daily-budget", f"{budget * PRICE:.2f}", "--admin", self.env["PURSER_ADMIN"].split("|")[0]]
        made = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
        self.wallets[made["key"]] = made["address"]
        post(f"{self.seller}/faucet", urllib.parse.urlencode({"address": made["address"]}).encode())
        return made["key"]

    def balance(self, wallet: str) -> int:
        call = {"to": self.world["token"], "data": "0x70a08231" + wallet[2:].lower().rjust(64, "0")}
        body = {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [call, "latest"]}
        answer = post(self.world["rpc"], json.dumps(body).encode(), **{"Content-Type": "application/json"})
        return int(json.loads(answer)["result"], 16)

    def ask(self, key: str):
        async def ask(session, node, n) -> str:
            try:
                async with session.get(f"{self.seller}/weather?n={n}", proxy=f"http://{key}:@{node}") as answer:
                    await answer.read()
            except (ClientError, asyncio.TimeoutError) as failure:
                return type(failure).__name__
            if answer.status == 200 and answer.headers.get("Purser-Payment"):
                return "through"
            declined = answer.headers.get("Purser-Declined", "")
            return "refused" if declined == "daily-budget" else f"status {answer.status} {declined}".strip()

        return ask

    async def booked(self, key: str, expected: int) -> int:
        """Returns the number of payments that have left the key's wallet on the chain."""
        return round((FAUCET - self.balance(self.wallets[key])) / (PRICE * 1e6))
