// What every peer shares: configuration from the environment, one line of JSON on stdout, and an orderly end.

/** The value of an environment variable, its default, or the end of the process with its name. */
export function env(name, fallback) {
  const value = process.env[name] || fallback;
  if (value === undefined) {
    console.error(`${name} is not set`);
    process.exit(2);
  }
  return value;
}

/** Listens on a free loopback port and says where. Ends with SIGTERM, and with stdin, so that no peer outlives its test. */
export function serve(app) {
  const server = app.listen(0, "127.0.0.1", (error) => {
    if (error) throw error;
    console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}` }));
  });
  const end = () => process.exit(0);
  process.on("SIGTERM", end);
  process.stdin.on("end", end).on("close", end).resume();
}
