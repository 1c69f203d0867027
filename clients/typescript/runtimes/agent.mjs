// Buys as it is told, inside the runtime that is tried: a server in the form that Deno, Bun and workerd have in common. It
// uses web APIs alone, and of the package what programs import.
import { createClient, isPurserError, paymentOf } from "purserpay";

/** Makes the calls of one order, one after the other, with one client. */
async function work({ options, url, request, calls, abortAfter, resume }) {
  const client = createClient(options);
  const { method, headers, body, stream } = request;
  const outcomes = [];
  for (let n = 0; n < calls; n++) {
    const init = { headers };
    if (body !== undefined) init.body = stream ? new Blob([body]).stream() : body;
    if (stream) init.duplex = "half";
    if (abortAfter !== undefined) init.signal = AbortSignal.timeout(abortAfter);
    outcomes.push(await client.request(method, url, init).then(told, (error) => failed(error, resume)));
  }
  return outcomes;
}

async function told(answer) {
  return { status: answer.status, text: await answer.text(), state: paymentOf(answer)?.state };
}

async function failed(error, resume) {
  if (!isPurserError(error)) return { name: error.name, message: error.message };
  const { code, message, paymentId } = error;
  const resumed = resume ? await error.resume().then(told, (again) => failed(again, false)) : undefined;
  return { code, message, paymentId, resumed };
}

export default {
  async fetch(request) {
    try {
      return Response.json(await work(await request.json()));
    } catch (error) {
      return Response.json({ broken: String(error?.stack ?? error) }, { status: 500 });
    }
  },
};
