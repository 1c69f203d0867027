# agent.mjs and the package, bundled as programs for the edge are, with a network that has the sellers of the tests.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "agent", worker = .agent),
    (name = "net", network = (allow = ["private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "agent")],
);

const agent :Workerd.Worker = (
  modules = [(name = "agent.mjs", esModule = embed "bundle.mjs")],
  compatibilityDate = "2026-11-01",
  globalOutbound = "net",
);
