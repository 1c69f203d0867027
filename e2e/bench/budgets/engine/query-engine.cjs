#!/usr/bin/env node
// Serves the HTTP protocol of Prisma's query engine to prisma-client-py, which LiteLLM reads and writes PostgreSQL with.
//
// The engine is Prisma's own, of the version that the Python client names, compiled to WebAssembly as @prisma/client
// ships it. The native one is downloaded from outside the package registries. The WebAssembly build speaks the JSON
// protocol only, so this program translates the Python client's GraphQL.

const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");

if (process.argv.includes("--version")) {
  console.log(`query-engine ${require("@prisma/client/package.json").version}`);
  process.exit(0);
}

const { bindAdapter } = require("@prisma/driver-adapter-utils");
const { PrismaPg } = require("@prisma/adapter-pg");
const { parse } = require("graphql");
const { Pool } = require("pg");
const Result = require("pg/lib/result.js");

const actions = [
  "findUniqueOrThrow", "findUnique", "findFirstOrThrow", "findFirst", "findMany", "createOne", "createMany", "updateOne",
  "updateMany", "upsertOne", "deleteOne", "deleteMany", "aggregate", "groupBy", "queryRaw", "executeRaw",
];

// jsonFields finds the columns of type Json of each model in the schema.
function jsonFields(schema) {
  const models = new Map();
  for (const [, model, body] of schema.matchAll(/^model (\w+) \{\n(.*?)^\}/gms)) {
    models.set(model, new Set([...body.matchAll(/^\s+(\w+)\s+Json\b/gm)].map((m) => m[1])));
  }
  return models;
}

const schema = fs.readFileSync(process.env.PRISMA_DML_PATH, "utf8");
const json = jsonFields(schema);

// value translates a literal of GraphQL. A column of type Json gets its value as text.
function value(node, model, asJson = false) {
  switch (node.kind) {
    case "NullValue":
      return null;
    case "IntValue": {
      const number = Number(node.value);
      return Number.isSafeInteger(number) ? number : { $type: "BigInt", value: node.value };
    }
    case "FloatValue":
      return Number(node.value);
    case "ListValue":
      return node.values.map((v) => value(v, model));
    case "ObjectValue":
      return Object.fromEntries(node.fields.map(({ name: { value: name }, value: v }) =>
        [name, value(v, model, asJson || json.get(model)?.has(name))]));
    case "StringValue":
      return asJson ? { $type: "Json", value: node.value } : node.value;
    default: // booleans and enums
      return node.value;
  }
}

// query translates a field of GraphQL with all below it.
function query(field, model) {
  const selection = {};
  for (const child of field.selectionSet?.selections ?? []) {
    selection[child.name.value] = child.selectionSet || child.arguments?.length ? query(child, model) : true;
  }
  const given = (field.arguments ?? []).map((a) => [a.name.value, value(a.value, model)]);
  return { arguments: Object.fromEntries(given), selection };
}

// operation translates a document of GraphQL with one field at its top.
function operation(document) {
  const [field] = parse(document, { noLocation: true }).definitions[0].selectionSet.selections;
  let name = field.name.value;
  const orThrow = name.endsWith("OrThrow") ? "OrThrow" : "";
  name = name.slice(0, name.length - orThrow.length);
  const action = actions.find((a) => !a.endsWith("OrThrow") && name.startsWith(a));
  const model = name.slice(action.length);
  return { modelName: model || undefined, action: action + orThrow, query: query(field, model) };
}

// plain replaces the typed values of the JSON protocol by those of GraphQL.
function plain(v) {
  if (Array.isArray(v)) return v.map(plain);
  if (v === null || typeof v !== "object") return v;
  if ("$type" in v) return v.value;
  return Object.fromEntries(Object.entries(v).map(([k, w]) => [k, plain(w)]));
}

// rows gives each value of a raw query its type, as engines did until version 5.
function rows({ columns, types, rows }) {
  const typed = (v, type) => ({ prisma__type: type, prisma__value: v });
  return rows.map((row) => Object.fromEntries(row.map((v, i) => [columns[i], typed(v, v === null ? "null" : types[i])])));
}

function answer(result) {
  if (result.errors) return { errors: result.errors };
  const [data] = Object.values(result.data);
  return { data: { result: data?.columns && data.types ? rows(data) : plain(data) } };
}

// The adapter knows no types of PostgreSQL's catalogue, which LiteLLM reads at its start. They are read as text.
function readCatalogueAsText() {
  const asText = new Map([[18, 25], [19, 25], [2278, 25], [2205, 25], [1186, 25], [1003, 1009]]); // "char", name, void, regclass, interval, name[]
  const { addFields } = Result.prototype;
  Result.prototype.addFields = function (fields) {
    for (const field of fields) field.dataTypeID = asText.get(field.dataTypeID) ?? field.dataTypeID;
    return addFields.call(this, fields);
  };
}

function load() {
  const base = path.join(path.dirname(require.resolve("@prisma/client")), "runtime", "query_engine_bg.postgresql");
  const glue = require(`${base}.js`);
  const module = new WebAssembly.Module(fs.readFileSync(`${base}.wasm`));
  glue.__wbg_set_wasm(new WebAssembly.Instance(module, { "./query_engine_bg.js": glue }).exports);
  return glue.QueryEngine;
}

async function main() {
  const url = new URL(process.env.DATABASE_URL);
  const size = Number(url.searchParams.get("connection_limit") ?? 10);
  url.search = "";
  readCatalogueAsText();
  const pool = new Pool({ connectionString: url.href, max: size });
  const QueryEngine = load();
  const engine = new QueryEngine(
    {
      datamodel: schema, env: process.env, logQueries: false,
      ignoreEnvVarErrors: true, datasourceOverrides: {}, logLevel: "error", configDir: process.cwd(), engineProtocol: "json",
    },
    (line) => console.error(line),
    bindAdapter(new PrismaPg(pool)),
  );
  const trace = "{}";
  await engine.connect(trace);

  async function serve(request, body) {
    const transaction = request.headers["x-transaction-id"];
    const [, kind, id, verb] = request.url.split("?")[0].split("/");
    if (kind === "status") return { status: "ok" };
    if (kind === "metrics") return { counters: [], gauges: [], histograms: [] };
    if (kind === "transaction") {
      if (id === "start") return JSON.parse(await engine.startTransaction(body, trace));
      const done = verb === "commit" ? await engine.commitTransaction(id, trace) : await engine.rollbackTransaction(id, trace);
      return done ? JSON.parse(done) : {};
    }
    const asked = JSON.parse(body);
    if (asked.batch) {
      const batch = asked.batch.map((q) => operation(q.query));
      const sent = JSON.stringify({ batch, transaction: asked.transaction ? {} : undefined });
      const result = JSON.parse(await engine.query(sent, trace, transaction));
      return result.errors ? result : { batchResult: result.batchResult.map(answer) };
    }
    const op = operation(asked.query);
    return answer(JSON.parse(await engine.query(JSON.stringify(op), trace, transaction)));
  }

  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    let status = 200;
    let result;
    try {
      result = await serve(request, Buffer.concat(chunks).toString());
      if (result.error_code) {
        status = 400; // a transaction that cannot be begun or ended
      }
    } catch (err) {
      console.error(err);
      status = 500;
      result = { error: String(err) };
    }
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(result));
  });
  server.keepAliveTimeout = 60_000;
  server.listen(Number(process.argv[process.argv.indexOf("-p") + 1]), "localhost");

  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(0));
  const parent = process.ppid;
  setInterval(() => process.ppid === parent || process.exit(0), 1000); // a killed worker leaves no engine behind
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
