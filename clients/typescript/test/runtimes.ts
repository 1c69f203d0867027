// Runtimes that are not Node, each with the packed package and runtimes/agent.mjs inside.
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import type { PaymentOptions } from "purserpay";
import { build } from "esbuild";
import { freePort } from "./fake.js";
import type { Outcome, Scenario } from "./scenario.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const installed = `${root}/runtimes/node_modules`;

/** What an agent is asked to do. */
export interface Order {
  options: PaymentOptions;
  url: string;
  request: Omit<Scenario["request"], "path">;
  calls: number;
  /** Gives each call up after milliseconds. */
  abortAfter?: number;
  /** Resumes what can be, once. */
  resume?: boolean;
}

/** What it tells of a call. */
export interface Told extends Outcome {
  /** The name of an error that is not ours. */
  name?: string;
  paymentId?: string;
  state?: string;
  resumed?: Told;
}

interface Runtime {
  /** Whose packages hold the program for this system, and where in them. */
  readonly scope: string;
  readonly program: string;
  readonly args: (port: number) => string[];
}

export const runtimes: Record<string, Runtime> = {
  Deno: {
    scope: "@deno",
    program: "deno",
    // No rights but the network: the package needs no more.
    args: (port) => ["serve", "--cached-only", "--no-lock", "--allow-net", "--host=127.0.0.1", `--port=${port}`, "agent.mjs"],
  },
  Bun: {
    scope: "@oven",
    program: "bin/bun",
    args: (port) => ["--no-install", "-e", `Bun.serve({ ...(await import("./agent.mjs")).default, hostname: "127.0.0.1", port: ${port} })`],
  },
  workerd: {
    scope: "@cloudflare",
    program: "bin/workerd",
    args: (port) => ["serve", "workerd.capnp", `--socket-addr=http=127.0.0.1:${port}`],
  },
};

/** The program of a runtime, or undefined when it is not installed. */
export function programOf({ scope, program }: Runtime): string | undefined {
  const packages = existsSync(`${installed}/${scope}`) ? readdirSync(`${installed}/${scope}`) : [];
  return packages
    .flatMap((name) => [`${installed}/${scope}/${name}/${program}`, `${installed}/${scope}/${name}/${program}.exe`])
    .find(existsSync);
}

export interface Agent {
  /** Has an order done, inside. */
  (order: Order): Promise<Told[]>;
  close(): void;
}

/** An empty folder with the packed package in it, and what the runtimes are started with. */
export async function workshop(): Promise<string> {
  const dir = mkdtempSync(`${tmpdir()}/purser-runtimes-`);
  const npm = (...args: string[]) => execFileSync("npm", args, { cwd: dir, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  writeFileSync(`${dir}/package.json`, '{ "type": "module" }');
  const [packed] = JSON.parse(npm("pack", "--json", "--ignore-scripts", root)) as { filename: string }[];
  assert(packed);
  npm("install", "--offline", "--no-audit", "--no-fund", `./${packed.filename}`);
  for (const file of ["agent.mjs", "workerd.capnp"]) copyFileSync(`${root}/runtimes/${file}`, `${dir}/${file}`);
  await build({ absWorkingDir: dir, entryPoints: ["agent.mjs"], outfile: "bundle.mjs", bundle: true, format: "esm", platform: "neutral" });
  return dir;
}

/** Starts a runtime in a workshop. */
export async function startAgent(runtime: Runtime, dir: string): Promise<Agent> {
  const program = programOf(runtime);
  assert(program);
  const port = await freePort();
  const child = spawn(program, runtime.args(port), { cwd: dir, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (text: Buffer) => (said += text.toString()));
  const close = () => child.kill();
  process.once("exit", close);
  try {
    await listening(port, child);
  } catch (error) {
    close();
    throw new Error(`${program} did not begin to listen: ${said}`, { cause: error });
  }
  const ask = async (order: Order) => {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(`http://127.0.0.1:${port}/`, { method: "POST", headers, body: JSON.stringify(order) });
    const text = await answer.text();
    assert.equal(answer.status, 200, `${text}\n${said}`);
    return JSON.parse(text) as Told[];
  };
  return Object.assign(ask, { close });
}

export function removeWorkshop(dir: string): void {
  rmSync(dir, { recursive: true });
}

async function listening(port: number, child: ChildProcess): Promise<void> {
  for (const end = performance.now() + 60_000; ; ) {
    const open = await new Promise<boolean>((resolve) => {
      const socket = net.connect(port, "127.0.0.1");
      socket.once("connect", () => resolve(true)).once("error", () => resolve(false)).once("close", () => socket.destroy());
      socket.once("connect", () => socket.destroy());
    });
    if (open) return;
    assert(child.exitCode === null, `it ended with status ${child.exitCode}`);
    assert(performance.now() < end, "it takes too long");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
