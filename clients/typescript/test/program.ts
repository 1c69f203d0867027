// A program of examples/frameworks in a thread that runs it again and again: its framework is loaded once.
import assert from "node:assert/strict";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { isMainThread, parentPort, Worker } from "node:worker_threads";

const folder = new URL("../examples/frameworks/", import.meta.url);

/** What its developer sees of a run. */
export interface Told {
  out: string;
  /** The error that ended it. */
  err: string | undefined;
}

export interface Program {
  run(env: Record<string, string>): Promise<Told>;
  close(): Promise<number>;
}

/** Starts the thread of a program. Its runs come one after the other. */
export function startProgram(name: string): Program {
  const thread = new Worker(fileURLToPath(import.meta.url), { env: { ...process.env } });
  let runs = 0;
  return {
    run: async (env) => {
      thread.postMessage({ url: `${new URL(name, folder).href}?run=${++runs}`, env });
      const [told] = (await once(thread, "message")) as [Told];
      return told;
    },
    close: () => thread.terminate(),
  };
}

if (!isMainThread) {
  parentPort?.on("message", async ({ url, env }: { url: string; env: Record<string, string> }) => {
    Object.assign(process.env, env);
    const out: string[] = [];
    console.log = (...said: unknown[]) => out.push(said.map((one) => (typeof one === "string" ? one : inspect(one))).join(" "));
    let err: string | undefined;
    try {
      await import(url);
    } catch (error) {
      assert(error instanceof Error);
      err = inspect(error);
    }
    parentPort?.postMessage({ out: out.join("\n"), err } satisfies Told);
  });
}
