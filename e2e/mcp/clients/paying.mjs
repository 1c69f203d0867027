/** The options of a transport for which purserpay pays, if PURSER_KEY is set. It sends no payment twice by itself. */
export async function paying() {
  if (!process.env.PURSER_KEY) return {};
  const { fromEnv, wrapFetch } = await import(process.env.PURSERPAY);
  return { fetch: wrapFetch(fetch, fromEnv({ resends: 0 })) };
}
